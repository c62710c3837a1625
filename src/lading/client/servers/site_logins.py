"""Logins of this user at sites elsewhere, by name: `lading login` writes them.

The file `sites.json` below the directory of configurations has the addresses, and the tokens unless
the keyring of the system has them; its mode is 600. A certificate that the user agreed to lies
beside it, as NAME.pem.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import msgspec

from lading.client.servers.environment import Server
from lading.core.errors import Invalid, NotFound
from lading.process.portable import NO_INHERIT

SITE: Final = "LADING_SITE"
"""The variable that chooses a login, as `--site` does."""
OWN: Final = "own"
"""The name that chooses the site of this machine, whatever logins there are."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SERVICE: Final = "lading"
"""Name of the entries in the keyring."""


class SiteLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login: `host:port`, user and token. `token` is empty where the keyring has it."""

    address: str
    user: str = ""
    token: str = ""
    is_own_token: bool = False
    """Whether the login made the token, so that a logout ends it."""
    is_pinned: bool = False
    """Whether the certificate is the one that the user agreed to."""


class _Logins(msgspec.Struct, frozen=True):
    """Content of the file. `default` is the login that counts where none is named."""

    default: str = ""
    sites: dict[str, SiteLogin] = msgspec.field(default_factory=dict)


class Keyring(Protocol):
    """The functions of the package `keyring` that are used."""

    def get_password(self, service: str, name: str) -> str | None:
        """A secret, or None."""

    def set_password(self, service: str, name: str, secret: str) -> None:
        """Keep a secret."""

    def delete_password(self, service: str, name: str) -> None:
        """Remove a secret."""


def system_keyring() -> Keyring | None:
    """The keyring of this user, if the package `keyring` is installed and has one that works."""
    try:
        import keyring
        from keyring.backends import fail, null
    except ImportError:
        return None
    if isinstance(keyring.get_keyring(), fail.Keyring | null.Keyring):
        return None
    ring: Keyring = keyring
    return ring


class SiteLogins:
    """The logins below a directory of configurations. All methods raise Invalid for a file that
    cannot be read or written.
    """

    def __init__(
        self, directory: Path, open_keyring: Callable[[], Keyring | None] = lambda: None
    ) -> None:
        self._directory = directory
        self._file = directory / "sites.json"
        # Opened where a token is read or kept: the packages of keyrings take long to import.
        self._open_keyring = open_keyring

    def names(self) -> list[str]:
        """The names of all logins, the default one first."""
        logins = self._read()
        return sorted(logins.sites, key=lambda name: (name != logins.default, name))

    def choose(self, environ: Mapping[str, str]) -> str:
        """The login that counts: the one of LADING_SITE, else the default one, unless a variable
        names a server; "" for none. Raises NotFound for a name without a login.
        """
        name = environ.get(SITE, "")
        if name == OWN or (not name and environ.get("ARVADOS_API_HOST")):
            return ""
        if name:
            self.find(name)
        return name or self._read().default

    def find(self, name: str) -> SiteLogin:
        """The login of this name. Raises NotFound."""
        login = self._read().sites.get(name)
        if login is None:
            known = ", ".join(self.names()) or "none"
            raise NotFound(
                f"no login named {name[:64]!r}; there are: {known}; "
                "make one with 'lading login https://HOST --name NAME'"
            )
        return login

    def server(self, name: str) -> Server:
        """The server of a login, with its token. Raises NotFound, and Invalid where the keyring
        does not give the token.
        """
        login = self.find(name)
        token = login.token
        if not token and (keyring := self._open_keyring()) is not None:
            token = keyring.get_password(_SERVICE, f"{name} {login.address}") or ""
        if not token:
            raise Invalid(f"the keyring has no token of the login {name}: log in again")
        return Server(
            address=login.address,
            token=token,
            authorities=self.certificate(name) if login.is_pinned else None,
            is_pinned=login.is_pinned,
            login=name,
        )

    def certificate(self, name: str) -> Path:
        """The file of the certificate that the user agreed to."""
        return self._directory / f"{name}.pem"

    def add(self, name: str, login: SiteLogin, *, certificate: str = "") -> bool:
        """Keep a login, in place of another one of this name, and make it the default; whether the
        keyring has its token. `certificate`: the one that was agreed to, PEM.
        """
        check_name(name)
        keyring = self._open_keyring()
        is_in_keyring = keyring is not None and _hide(keyring, name, login)
        if is_in_keyring:
            login = msgspec.structs.replace(login, token="")
        logins = self._read()
        if certificate:
            self._write(self.certificate(name), certificate.encode())
        sites = {**logins.sites, name: login}
        self._write(self._file, _encode(_Logins(default=name, sites=sites)))
        return is_in_keyring

    def remove(self, name: str) -> None:
        """Forget a login; the default is then the first of those that are left. Raises NotFound."""
        login = self.find(name)
        logins = self._read()
        if not login.token and (keyring := self._open_keyring()) is not None:
            # It may have been removed there meanwhile, which backends tell by errors of their own.
            with suppress(Exception):
                keyring.delete_password(_SERVICE, f"{name} {login.address}")
        sites = {key: value for key, value in logins.sites.items() if key != name}
        default = logins.default if logins.default in sites else next(iter(sorted(sites)), "")
        self._write(self._file, _encode(_Logins(default=default, sites=sites)))
        self.certificate(name).unlink(missing_ok=True)

    def _read(self) -> _Logins:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_Logins)
        except (FileNotFoundError, NotADirectoryError):
            return _Logins()
        except (OSError, msgspec.DecodeError) as error:
            raise Invalid(f"{self._file}: cannot be read: {error}") from error

    def _write(self, path: Path, content: bytes) -> None:
        aside = path.with_name(f".{path.name}.part")
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            aside.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_INHERIT
            with os.fdopen(os.open(aside, flags, 0o600), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except OSError as error:
            raise Invalid(f"{path}: cannot be written: {error.strerror}") from error


def _hide(keyring: Keyring, name: str, login: SiteLogin) -> bool:
    """Put the token of a login into the keyring; whether it took it."""
    try:
        keyring.set_password(_SERVICE, f"{name} {login.address}", login.token)
    # Backends raise errors of their own, as for a keyring that stays locked.
    except Exception:  # noqa: BLE001
        return False
    return True


def check_name(name: str) -> None:
    """Return when a text can name a login. Raises Invalid."""
    if not _NAME.fullmatch(name) or name == OWN:
        raise Invalid(
            f"{name[:64]!r}: a name has letters, digits, dots, dashes and underscores, at most 64, "
            f"and is not {OWN!r}"
        )


def configuration_directory(environ: Mapping[str, str]) -> Path:
    """`$XDG_CONFIG_HOME/lading`, or `~/.config/lading`; on Windows below %APPDATA%."""
    home = environ.get("XDG_CONFIG_HOME") or environ.get("APPDATA")
    base = Path(home) if home else Path(environ.get("HOME") or Path.home()) / ".config"
    return base / "lading"


def _encode(logins: _Logins) -> bytes:
    return msgspec.json.format(msgspec.json.encode(logins), indent=1) + b"\n"
