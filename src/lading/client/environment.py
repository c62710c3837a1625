"""Which server a command talks to: the environment, the settings file, then the server of this
machine.

The names are those of every Arvados client: ARVADOS_API_HOST, ARVADOS_API_TOKEN,
ARVADOS_API_HOST_INSECURE. A token is only ever sent to the host that it was named with.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lading.client.fd_receiving import lent_beside
from lading.client.transport import HttpTransport
from lading.core.errors import Invalid

_HOST, _TOKEN, _INSECURE = "ARVADOS_API_HOST", "ARVADOS_API_TOKEN", "ARVADOS_API_HOST_INSECURE"
_DATA = "LADING_DATA"
_YES = ("1", "true", "yes")
_ADDRESS = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_AUTHORITIES = Path("/etc/arvados/ca-certificates.crt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Address (`host:port`), token, and how its certificate is checked."""

    address: str
    token: str
    insecure: bool = False
    authorities: Path | None = None

    def transport(self) -> HttpTransport:
        """A new transport to it; close it."""
        return HttpTransport(
            f"https://{self.address}", verify=False if self.insecure else self.authorities or True
        )


def find_server(environ: Mapping[str, str], data_dir: Path) -> Server:
    """The server that `environ` names, else `~/.config/arvados/settings.conf`, else the one that
    keeps `data_dir`.

    Raises Invalid saying what to do when none is named or the token is missing.
    """
    home = Path(environ.get("HOME") or "/")
    settings = (
        Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "arvados" / "settings.conf"
    )
    named = environ
    saved = _read(settings)
    if not named.get(_HOST):
        named = saved if saved.get(_HOST) else _read(data_dir / "env")
    host = named.get(_HOST, "")
    token = named.get(_TOKEN) or (saved.get(_TOKEN) if saved.get(_HOST) == host else None)
    if not host:
        wanted = (
            f"set {_HOST} and {_TOKEN}, as the file 'env' in its data directory does ('. DIR/env')"
        )
        raise Invalid(f"no server: start one with 'lading up', or {wanted}")
    if not token:
        raise Invalid(f"no token for {host}: set {_TOKEN} beside {_HOST}")
    address = host.removeprefix("https://").rstrip("/")
    if not _ADDRESS.fullmatch(address):
        raise Invalid(f"{_HOST}={host}: not a host; write HOST or HOST:PORT")
    return Server(
        address=address,
        token=token,
        insecure=named.get(_INSECURE, "").lower() in _YES,
        authorities=_AUTHORITIES if _AUTHORITIES.exists() else None,
    )


def find_lender(environ: Mapping[str, str], data_dir: Path, address: str) -> Path | None:
    """Where the server at `address` lends its blocks (`client.fd_receiving`), if it is of this user
    and on this machine.

    Its data directory is the one that `LADING_DATA` names, which `lading up` writes beside the
    address and the token, else `data_dir`; the server of another address is none of ours.
    """
    data = Path(environ.get(_DATA) or data_dir)
    try:
        if (data / "env").stat().st_uid not in (0, os.geteuid()) or _read(data / "env").get(
            _HOST
        ) != address:
            return None
    except (OSError, Invalid):
        return None
    return lent_beside(data / "api.sock")


def cache_directory(environ: Mapping[str, str]) -> Path:
    """`$XDG_CACHE_HOME/lading`, or `~/.cache/lading`."""
    home = environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path(environ.get("HOME") or "/") / ".cache") / "lading"


def _read(path: Path) -> dict[str, str]:
    """The assignments of a file: `NAME=value` lines, quoted and exported as in a shell; none when
    it is absent.
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
        return "".join(shlex.split(value, comments=True)[:1])
    except ValueError as error:
        raise Invalid(f"{path}: a quote is not closed") from error
