"""Access to a registry: the login, names of images, and a cache of fetched layers.

Logins are those of `docker login` and `podman login`: the first of `$REGISTRY_AUTH_FILE`,
`$DOCKER_CONFIG/config.json`, `~/.docker/config.json` and `$XDG_RUNTIME_DIR/containers/auth.json`
that contains the host. A registry responds 401 with a challenge (RFC 7235): `Basic`, or `Bearer`
with the address of a token service.

Names of images are `[HOST[:PORT]/]REPOSITORY[:TAG][@sha256:HEX]`, as Docker reads them: the first
component is a host if it has a dot or a port, or is localhost. Without a host the image is one of
Docker Hub, or of a mirror that the caller names; there a repository of one component is below
`library/`.

Fetched layers are kept on this machine by their digest in a `DiskCache`:

    <directory>/sha256/<hex>         a whole layer as the registry has it, verified before it gets
                                     this name
    <directory>/sha256/<hex>.part    a layer that is being fetched, continued at its end, also
                                     after a kill

Images share layers: the next version of an image fetches only its new ones. Layers that were unused
for 30 days are deleted, and the oldest ones when they have more than `room` bytes. If the cache is
lost, layers are fetched again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import os
import re
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlencode, urlsplit

import msgspec

from lading.client.caches.disk_cache import CacheLayout, DiskCache
from lading.client.images.archive import sha256_of
from lading.core.errors import Conflict, Invalid, Malformed, Unauthenticated
from lading.core.image_names import HUB
from lading.core.images import UNREADABLE

# A parameter of WWW-Authenticate; registries quote all values (RFC 9110, section 11.2).
# A name is looked for where no other one goes on before it: each character is read once.
_PARAMETER = re.compile(r'(?<![a-zA-Z_])([a-zA-Z_]+)="([^"]*)"')
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
# Bytes of all layers: 16 GiB.
ROOM = 16 << 30
# Layers of images that are pulled once a month stay.
_KEPT_DAYS = 30


@dataclass(frozen=True, slots=True)
class Login:
    """A name and a password."""

    name: str
    password: str = field(repr=False)

    @property
    def header(self) -> str:
        """The value of an `Authorization` header."""
        return f"Basic {base64.b64encode(f'{self.name}:{self.password}'.encode()).decode()}"


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge of a registry: the scheme in lower case, and its parameters."""

    scheme: str
    parameters: Mapping[str, str]

    def token_address(self, registry: str, repository: str) -> str:
        """The address for requesting a token that may pull `repository`.

        Raises Invalid when the address is malformed, or plain HTTP although `registry` (its origin)
        uses HTTPS: it would send the password unencrypted.
        """
        realm = self.parameters.get("realm", "")
        try:
            parts = urlsplit(realm)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in ("https", "http") or not parts.netloc:
            raise Invalid(f"{registry}: asks for tokens of {realm[:100]!r}, which is no address")
        if parts.scheme == "http" and registry.startswith("https:"):
            raise Invalid(
                f"{registry}: asks for a login over unencrypted HTTP at "
                f"{parts.netloc[:100]!r}; refused"
            )
        asked = {"scope": self.parameters.get("scope") or f"repository:{repository}:pull"}
        if service := self.parameters.get("service"):
            asked["service"] = service
        return f"{realm}{'&' if parts.query else '?'}{urlencode(asked)}"


class _Entry(msgspec.Struct):
    auth: str = ""


class _Config(msgspec.Struct):
    auths: dict[str, _Entry] = {}


class TokenAnswer(msgspec.Struct):
    """Response of a token service; it has one of the two fields."""

    token: str = ""
    access_token: str = ""


def parse_challenge(text: str) -> Challenge:
    """Parse a `WWW-Authenticate` header."""
    scheme, _, rest = text.strip().partition(" ")
    return Challenge(
        scheme.lower(), {name.lower(): value for name, value in _PARAMETER.findall(rest)}
    )


def read_token(body: bytes, address: str) -> str:
    """The token in the response of a token service. Raises Unauthenticated if there is none."""
    try:
        answer = msgspec.json.decode(body, type=TokenAnswer)
    except UNREADABLE:
        answer = TokenAnswer()
    token = answer.token or answer.access_token
    # The token becomes part of a header.
    if not token or not all("!" <= character <= "~" for character in token):
        raise Unauthenticated(f"{address}: gave no token")
    return token


def find_login(environ: Mapping[str, str], host: str) -> Login | None:
    """The name and password for a registry; None without a login. Raises Invalid for a damaged
    file.
    """
    for path in _files(environ):
        try:
            text = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise Invalid(f"{path}: cannot be read: {error.strerror}") from error
        try:
            entries = msgspec.json.decode(text, type=_Config).auths
            # docker writes some registries with the scheme.
            entry = entries.get(host) or entries.get(f"https://{host}")
            if entry is not None and entry.auth:
                name, _, password = (
                    base64.b64decode(entry.auth, validate=True).decode().partition(":")
                )
                return Login(name, password.rstrip("\0"))
        except (*UNREADABLE, binascii.Error) as error:
            raise Invalid(
                f"{path}: damaged: {error}; log in again with 'docker login {host}'"
            ) from error
    return None


def _files(environ: Mapping[str, str]) -> list[Path]:
    home, runtime = environ.get("HOME"), environ.get("XDG_RUNTIME_DIR")
    named = [environ.get("REGISTRY_AUTH_FILE")]
    named.append(f"{config}/config.json" if (config := environ.get("DOCKER_CONFIG")) else None)
    named.append(f"{home}/.docker/config.json" if home else None)
    named.append(f"{runtime}/containers/auth.json" if runtime else None)
    return [Path(path) for path in named if path]


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


def parse_reference(text: str, *, registry: str = HUB) -> ImageReference:
    """Parse a reference; without a tag it is `latest`. Raises Invalid with the right form.

    `registry`: the host of images without one, Docker Hub or a mirror of it.
    """
    has_host = _has_host(text)
    below = "" if "/" in text else _OFFICIAL
    match = _REFERENCE.fullmatch(text if has_host else f"{registry}/{below}{text}")
    if match is None:
        raise Invalid(f"{text[:200]!r} is no image of a registry: write {_FORM}")
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


def _has_host(text: str) -> bool:
    # As in Docker's names: a first component without dot and port is part of the repository.
    first, slash, _ = text.partition("/")
    return bool(slash) and (first == "localhost" or not {".", ":"}.isdisjoint(first))


class LayerCache:
    """The layers below one directory, which is created if absent."""

    def __init__(self, directory: Path, *, room: int = ROOM) -> None:
        self.directory = directory
        self._cache = DiskCache(directory / "sha256", room, layout=CacheLayout(keeps_parts=True))
        self._cache.directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def member(self, digest: str) -> str:
        """The name of a layer below the directory."""
        return digest.replace(":", "/")

    def has(self, digest: str) -> bool:
        """Whether the layer is here, whole; one that no longer has its digest is removed."""
        held = self._cache.hold(_key(digest))
        if held is None:
            return False
        with os.fdopen(held, "rb") as file:
            is_sound = sha256_of(file) == digest
        if not is_sound:
            self._cache.remove(_key(digest))
        return is_sound

    def is_listed(self, digest: str) -> bool:
        """Whether there is a layer of this name, which `has` has still to check."""
        return (self.directory / self.member(digest)).exists()

    @contextmanager
    def part(self, digest: str) -> Generator[BinaryIO]:
        """The partial layer, open for appending. Raises Conflict while another process
        fetches it.
        """
        descriptor = self._cache.lock(_key(digest), wait=False)
        if descriptor is None:
            raise Conflict(f"{digest[:19]}: another command fetches this layer; wait for it")
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            yield file

    def keep(self, digest: str) -> None:
        """Rename the partial layer to the complete one. Raises Malformed, and removes it, if its
        digest differs.
        """
        path = self._cache.part(_key(digest))
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if f"sha256:{found}" != digest:
            path.unlink()
            raise Malformed(
                f"layer {digest[:19]}: what the registry sent is sha256:{found[:12]}; try again"
            )
        self._cache.publish(_key(digest))

    def tidy(self) -> None:
        """Delete layers that were not used for long, and the oldest ones beyond the room."""
        self._cache.evict(unused_since=time.time() - _KEPT_DAYS * 86400)


def _key(digest: str) -> str:
    """The hexadecimal digits of `sha256:<hex>`."""
    return digest.removeprefix("sha256:")
