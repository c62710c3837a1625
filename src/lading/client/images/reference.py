"""Names of images in registries.

They are `[HOST[:PORT]/]REPOSITORY[:TAG][@sha256:HEX]`, as Docker reads them: the first component is
a host if it has a dot or a port, or is localhost. Without a host the image is one of Docker Hub, or
of a mirror that the caller names; there a repository of one component is below `library/`.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from lading.core.errors import Invalid
from lading.core.image_names import HUB

_DIGEST = r"sha256:[0-9a-f]{64}"
# Component of a repository name (OCI distribution specification, Pulling manifests).
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-fA-F:]+\])(?P<port>:[0-9]{{1,5}})?"
    rf"/(?P<repository>{_COMPONENT}(?:/{_COMPONENT})*)"
    rf"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{{0,127}}))?(?:@(?P<digest>{_DIGEST}))?"
)
_FORM = "[HOST[:PORT]/]REPOSITORY[:TAG], for example debian:12 or 127.0.0.1:5000/tools:1.0"
_OFFICIAL = "library/"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReference:
    """An image of a registry. `host` includes the port if there is one; `digest` is "" or
    `sha256:<hex>`.
    """

    host: str
    repository: str
    tag: str
    digest: str = ""
    short: str = ""
    """The repository as written without a host; "" if a host was written."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names that a request may give the image: as it was written, and with the host."""
        version = f"@{self.digest}" if self.digest else f":{self.tag}"
        return (f"{self.short}{version}", self.name) if self.short else (self.name,)

    @property
    def address(self) -> str:
        """The host, with its port, that serves the images of `host`."""
        return f"registry-1.{HUB}" if self.host == HUB else self.host

    @property
    def login_host(self) -> str:
        """The name under which `docker login` keeps the login for `host`."""
        return f"index.{HUB}/v1/" if self.host == HUB else self.host

    @property
    def version(self) -> str:
        """The digest if there is one, else the tag: the reference in the registry's API."""
        return self.digest or self.tag

    @property
    def name(self) -> str:
        """`HOST/REPOSITORY:TAG`, or `HOST/REPOSITORY@sha256:HEX`, as in requests."""
        return (
            f"{self.host}/{self.repository}{f'@{self.digest}' if self.digest else f':{self.tag}'}"
        )

    @property
    def is_local(self) -> bool:
        """Whether the registry is on this machine."""
        name = self.host.rpartition(":")[0] if re.search(r":\d+$", self.host) else self.host
        if name == "localhost":
            return True
        try:
            return ipaddress.ip_address(name.strip("[]")).is_loopback
        except ValueError:
            return False

    def pinned(self, digest: str) -> str:
        """The name of exactly this content: `HOST/REPOSITORY@sha256:HEX`."""
        return f"{self.host}/{self.repository}@{digest}"


def parse_reference(name: str, *, registry: str = HUB) -> ImageReference:
    """Parse a reference; without a tag it is `latest`. Raises Invalid with the right form.

    `registry`: the host of images without one, Docker Hub or a mirror of it.
    """
    has_host = _has_host(name)
    below = "" if "/" in name else _OFFICIAL
    match = _REFERENCE.fullmatch(name if has_host else f"{registry}/{below}{name}")
    if match is None:
        raise Invalid(f"{name[:200]!r} is no image of a registry: write {_FORM}")
    host, repository = match["host"] + (match["port"] or ""), match["repository"]
    if host == HUB and "/" not in repository:
        repository = _OFFICIAL + repository
    return ImageReference(
        host=host,
        repository=repository,
        tag=match["tag"] or ("" if match["digest"] else "latest"),
        digest=match["digest"] or "",
        short="" if has_host else repository.removeprefix(below),
    )


def _has_host(name: str) -> bool:
    # As in Docker's names: a first component without dot and port is part of the repository.
    first, slash, _ = name.partition("/")
    return bool(slash) and (first == "localhost" or not {".", ":"}.isdisjoint(first))
