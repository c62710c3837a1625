"""Logins at registries, and the challenges that ask for them.

Logins are those of `docker login` and `podman login`: the first of `$REGISTRY_AUTH_FILE`,
`$DOCKER_CONFIG/config.json`, `~/.docker/config.json` and `$XDG_RUNTIME_DIR/containers/auth.json`
that contains the host. A registry responds 401 with a challenge (RFC 7235): `Basic`, or `Bearer`
with the address of a token service.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import msgspec

from lading.core.errors import Invalid, Unauthenticated
from lading.core.images import UNREADABLE

# A parameter of WWW-Authenticate; registries quote all values (RFC 9110, section 11.2).
# A name is looked for where no other one goes on before it: each character is read once.
_PARAMETER = re.compile(r'(?<![a-zA-Z_])([a-zA-Z_]+)="([^"]*)"')


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


def parse_challenge(header: str) -> Challenge:
    """Parse a `WWW-Authenticate` header."""
    scheme, _, parameters = header.strip().partition(" ")
    return Challenge(
        scheme.lower(), {name.lower(): value for name, value in _PARAMETER.findall(parameters)}
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
            content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise Invalid(f"{path}: cannot be read: {error.strerror}") from error
        try:
            entries = msgspec.json.decode(content, type=_Config).auths
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
