"""Names of images in a registry: `HOST[:PORT]/REPOSITORY[:TAG][@sha256:HEX]`.

The host is required, unlike in Docker's names, which leave it out for Docker Hub: a name says from
where an image is fetched.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from lading.core.errors import Invalid

_DIGEST = r"sha256:[0-9a-f]{64}"
# Component of a repository name (OCI distribution specification, Pulling manifests).
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-fA-F:]+\])(?P<port>:[0-9]{{1,5}})?"
    rf"/(?P<repository>{_COMPONENT}(?:/{_COMPONENT})*)"
    rf"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{{0,127}}))?(?:@(?P<digest>{_DIGEST}))?"
)
_FORM = "HOST[:PORT]/REPOSITORY[:TAG], for example 127.0.0.1:5000/tools:1.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReference:
    """An image of a registry. `host` includes the port if there is one; `digest` is "" or
    `sha256:<hex>`.
    """

    host: str
    repository: str
    tag: str
    digest: str = ""

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


def parse_reference(text: str) -> ImageReference:
    """Parse a reference; without a tag it is `latest`. Raises Invalid with the right form."""
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise Invalid(f"{text[:200]!r} is no image of a registry: write {_FORM}")
    # As in Docker's names: a first component without dot and port is part of the repository.
    host, port = match["host"], match["port"] or ""
    if not (port or "." in host or host == "localhost" or host.startswith("[")):
        raise Invalid(f"{text[:200]!r}: say which registry: write {_FORM}")
    return ImageReference(
        host=host + port,
        repository=match["repository"],
        tag=match["tag"] or ("" if match["digest"] else "latest"),
        digest=match["digest"] or "",
    )
