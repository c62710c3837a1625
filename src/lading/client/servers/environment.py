"""The server of a command: from the environment, the settings file, or the server of this machine.

The variables are those of all Arvados clients: ARVADOS_API_HOST, ARVADOS_API_TOKEN,
ARVADOS_API_HOST_INSECURE. A token is sent only to the host that it was configured with.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lading.core.errors import Invalid
from lading.process.portable import is_mine
from lading.process.tracing import check_traceparent

# Imported when they are used: a call of the command line needs one of them at most.
if TYPE_CHECKING:
    import ssl

    from lading.client.transport import HttpTransport
    from lading.net.proxies import Proxy

_HOST, _TOKEN, _INSECURE = "ARVADOS_API_HOST", "ARVADOS_API_TOKEN", "ARVADOS_API_HOST_INSECURE"
_DATA = "LADING_DATA"
_YES = ("1", "true", "yes")
# Host name, IPv4 address, or IPv6 address in brackets; with or without port.
_ADDRESS = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?", re.ASCII)
# Certificate authorities that Arvados' clients use if the file exists.
_AUTHORITIES = Path("/etc/arvados/ca-certificates.crt")


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """Address (`host:port`), token, and how the certificate is verified."""

    address: str
    token: str
    insecure: bool = False
    authorities: Path | None = None
    is_pinned: bool = False
    """Whether `authorities` is the certificate of the server itself, and no other is trusted."""
    login: str = ""
    """Name of the login that it comes from (`site_logins`), "" for none."""

    def tls(self) -> ssl.SSLContext:
        """A new context that checks the certificate as the server asks for. Raises Invalid where
        the file of certificates cannot be read.
        """
        from lading.net.http_upgrade import trusting

        try:
            return trusting(self.authorities, insecure=self.insecure, is_pinned=self.is_pinned)
        except OSError as error:
            raise Invalid(f"{self.authorities}: cannot be read: {error}") from error

    def transport(self) -> HttpTransport:
        """A new transport to the server. The caller closes it."""
        from lading.client.transport import HttpTransport

        verify: bool | Path | ssl.SSLContext = (
            self.tls() if self.is_pinned else False if self.insecure else self.authorities or True
        )
        return HttpTransport(f"https://{self.address}", verify=verify, proxy=self.proxy())

    def proxy(self) -> Proxy | None:
        """The proxy on the way to it, by the variables of this process. Raises Invalid."""
        from lading.net.proxies import proxy_for

        host, port = split_address(self.address)
        return proxy_for(os.environ, host, port)


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host[:port]`. Raises Invalid."""
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, "443"
    if not host or not port.isdigit() or int(port) > 65535:
        raise Invalid(f"{address[:80]}: not a host; write HOST or HOST:PORT")
    return host.strip("[]"), int(port)


def find_server(
    environ: Mapping[str, str], data_dir: Path, *, authorities: Path = _AUTHORITIES
) -> Server:
    """The server named by `environ`, else by `~/.config/arvados/settings.conf`, else the one of
    `data_dir`.

    Raises Invalid, saying what to do, when no server is named or the token is missing.
    """
    named = environ
    saved = _read(_settings(environ))
    if not named.get(_HOST):
        named = saved if saved.get(_HOST) else _read(data_dir / "env")
    host = named.get(_HOST, "")
    # The token of the settings file counts only for the host of that file.
    token = named.get(_TOKEN) or (saved.get(_TOKEN) if saved.get(_HOST) == host else None)
    if not host:
        wanted = (
            f"set {_HOST} and {_TOKEN}, as the file 'env' in its data directory does ('. DIR/env')"
        )
        raise Invalid(
            "no server: start one with 'lading up', log in with 'lading login https://HOST', "
            f"or {wanted}"
        )
    if not token:
        raise Invalid(f"no token for {host}: set {_TOKEN} beside {_HOST}")
    address = host.removeprefix("https://").rstrip("/")
    if not _ADDRESS.fullmatch(address):
        raise Invalid(f"{_HOST}={host}: not a host; write HOST or HOST:PORT")
    return Server(
        address=address,
        token=token,
        insecure=named.get(_INSECURE, "").lower() in _YES,
        authorities=authorities if authorities.exists() else None,
    )


def names_own_site(environ: Mapping[str, str], data_dir: Path) -> bool:
    """Whether the server of `environ` is the site of `data_dir`: no variable and no settings file
    names one, or the variables are those of the file `env` there. Raises Invalid.
    """
    if host := environ.get(_HOST):
        return environ.get(_DATA) == str(data_dir) and _read(data_dir / "env").get(_HOST) == host
    return not _read(_settings(environ)).get(_HOST)


def _settings(environ: Mapping[str, str]) -> Path:
    """The settings file of Arvados' clients."""
    home = Path(environ.get("HOME") or "/")
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "arvados" / "settings.conf"


def read_server(path: Path, *, authorities: Path = _AUTHORITIES) -> Server:
    """The server that a file names, in the form of the settings file; for a directory the file
    `env` in it, as `lading up` writes it. Raises Invalid.
    """
    file = path / "env" if path.is_dir() else path
    named = _read(file)
    if not named.get(_HOST) or not named.get(_TOKEN):
        raise Invalid(f"{file}: must have {_HOST} and {_TOKEN}, as the file 'env' of a server has")
    return find_server(named, path, authorities=authorities)


def find_api_socket(environ: Mapping[str, str], data_dir: Path, address: str) -> Path | None:
    """The local socket of the server at `address`, if it runs on this machine for this user: bytes
    need no TLS there. None also where the socket is not one of this user's or of root's.
    """
    data = _own_data(environ, data_dir, address)
    if data is None:
        return None
    path = data / "api.sock"
    try:
        facts = path.lstat()
    except OSError:
        return None
    # The token is sent to it.
    is_ours = stat.S_ISSOCK(facts.st_mode) and is_mine(facts.st_uid)
    return path if is_ours else None


def find_lender(environ: Mapping[str, str], data_dir: Path, address: str) -> Path | None:
    """The socket on which the server at `address` lends blocks (`client.fd_receiving`), if it runs
    on this machine for this user.
    """
    data = _own_data(environ, data_dir, address)
    if data is None:
        return None
    from lading.client.fd_receiving import lent_beside

    return lent_beside(data / "api.sock")


def _own_data(environ: Mapping[str, str], data_dir: Path, address: str) -> Path | None:
    """The data directory of the server at `address`: the one in `LADING_DATA`, which `lading up`
    writes beside the address and the token, else `data_dir`. None if the server of that directory
    has another address.
    """
    data = Path(environ.get(_DATA) or data_dir)
    try:
        if not is_mine((data / "env").stat().st_uid) or _read(data / "env").get(_HOST) != address:
            return None
    except (OSError, Invalid):
        return None
    return data


def default_data_directory(environ: Mapping[str, str]) -> Path:
    """The data directory of this user's server: `$LADING_DATA`, else `$XDG_DATA_HOME/lading`, else
    `~/.local/share/lading`.
    """
    if named := environ.get(_DATA):
        return Path(named)
    base = environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "lading"


def cache_directory(environ: Mapping[str, str]) -> Path:
    """`$XDG_CACHE_HOME/lading`, or `~/.cache/lading`."""
    home = environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path(environ.get("HOME") or "/") / ".cache") / "lading"


def _read(path: Path) -> dict[str, str]:
    """The assignments of a file: lines `NAME=value`, quoted and exported as in a shell; empty if
    the file is absent.
    """
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{path}: cannot be read: {error}") from error
    values = {}
    for line in lines:
        name, found, value = line.strip().removeprefix("export ").partition("=")
        if found and not name.startswith("#"):
            values[name.strip()] = _unquote(value, path)
    return values


def _unquote(value: str, path: Path) -> str:
    try:
        # The first word is the value; a comment may follow.
        return "".join(shlex.split(value, comments=True)[:1])
    except ValueError as error:
        raise Invalid(f"{path}: a quote is not closed") from error


def traceparent_of(environ: Mapping[str, str]) -> str:
    """The trace that a program runs in, by the convention of OpenTelemetry; "" outside of one."""
    return check_traceparent(environ.get("TRACEPARENT", ""))
