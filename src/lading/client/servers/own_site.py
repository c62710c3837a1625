"""The site of this user on this machine, which a command starts in the background when it needs it.

A site is started only where nobody named a server: neither a variable nor the settings file of
Arvados' clients. The lock of the data directory says whether the site runs, and `up.json` there
says whether it serves already. The start itself is `lading up --detach`: of several at once, one
starts the site, and all wait for it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from lading.client.servers.environment import Server, find_server, names_own_site
from lading.client.servers.site_logins import (
    OWN,
    SITE,
    SiteLogins,
    configuration_directory,
    system_keyring,
)
from lading.client.transport import DEFAULT_TIMEOUT, HttpTransport, Response
from lading.core.errors import Conflict, Invalid, Unavailable
from lading.process import portable

START: str = "LADING_START"
"""The variable that forbids the start by its value `never`."""
STARTED = "started your site; lading down stops it"
"""The message about a start."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NO_ENGINE = "no engine: containers wait until there is one; see 'lading doctor'"
# The unit of a user's own service, and the link of one that is enabled and that the Debian package
# has installed; below the directory of configurations.
_UNITS = ("systemd/user/lading.service", "systemd/user/default.target.wants/lading.service")


class _Record(msgspec.Struct, frozen=True):
    """The part of `up.json` that is read here."""

    address: str = ""
    boot: str = ""
    host: str = ""


class _Answer(msgspec.Struct, frozen=True):
    """The part of the answer of `lading up --detach --json` that is read here."""

    started: bool
    engine: str | None = None


class _Fault(msgspec.Struct, frozen=True):
    message: str


class _Refusal(msgspec.Struct, frozen=True):
    """An error of a command with --json."""

    error: _Fault


def is_locked(data: Path) -> bool:
    """Whether a process holds the lock of a data directory, as `lading up` does until its end."""
    try:
        descriptor = os.open(data / "lock", os.O_RDWR | portable.NO_INHERIT)
    except OSError:
        return False
    try:
        portable.lock_file(descriptor, is_shared=True)
    except OSError:
        # Another process has it, or the file system has no locks: then nobody may start here.
        return True
    finally:
        os.close(descriptor)
    return False


def is_serving(data: Path) -> bool:
    """Whether the site of a data directory runs and has told its address. One that starts has not
    told it yet, and one that stops has taken it back.
    """
    return is_locked(data) and bool(_read_record(data).address)


def check_machine(data: Path) -> None:
    """Raise Conflict where the site of a data directory runs on another machine, which shares the
    directory: its address is one of that machine, and another user may listen there on this one.
    """
    record = _read_record(data)
    if record.boot and record.boot != boot_id() and is_locked(data):
        raise Conflict(
            f"{data}: your site runs on {record.host or 'another machine'}; run this there, stop it"
            " there with 'lading down', or set LADING_DATA to a directory of this machine"
        )


def boot_id() -> str:
    """A random id of this start of the machine; "" where the system has none (proc(5))."""
    with suppress(OSError):
        return _BOOT.read_text().strip()
    return ""


def _read_record(data: Path) -> _Record:
    try:
        return msgspec.json.decode((data / "up.json").read_bytes(), type=_Record)
    except (OSError, msgspec.DecodeError):
        return _Record()


def find_or_start(
    environ: Mapping[str, str],
    data: Path,
    *,
    say: Callable[[str], None],
    may_start: bool = True,
    is_chosen: bool = False,
) -> Server:
    """The server of the login that counts (`site_logins`), else the one that `environ` or the
    settings file names, else the site of `data`, which is started if it does not run; `say` gets
    messages about that. `is_chosen`: the site of `data`, whatever they name.

    `may_start`, and the variable LADING_START, can forbid the start. Raises Invalid, and
    Unavailable if the site does not start.
    """
    is_chosen = is_chosen or environ.get(SITE) == OWN
    if not is_chosen:
        logins = SiteLogins(configuration_directory(environ), system_keyring)
        if name := logins.choose(environ):
            return logins.server(name)
    is_own = is_chosen or names_own_site(environ, data)
    starts = is_own and may_start and may_be_started(environ)
    if starts:
        start(environ, data, say=say)
    elif is_own:
        check_machine(data)
        _check_serving(data)
    server = find_server({} if is_chosen else environ, data)
    return server if not starts else OwnServer.of(server, dict(environ), data)


def _check_serving(data: Path) -> None:
    """Raise Invalid where the site of a data directory has served, and does not now: another user
    may listen at its address, who must not get the token.
    """
    if _text_of(data / "env") and not is_serving(data):
        raise Invalid("no server: your site does not run; start it with 'lading up'")


def may_be_started(environ: Mapping[str, str]) -> bool:
    """The starts that LADING_START allows. Raises Invalid for an unknown value."""
    choice = environ.get(START) or "auto"
    if choice not in ("auto", "never"):
        raise Invalid(f"{START}={choice[:40]}: must be auto or never")
    return choice == "auto"


def start(environ: Mapping[str, str], data: Path, *, say: Callable[[str], None]) -> None:
    """Start the site of a data directory unless it serves; wait until it does. Raises Unavailable
    with the last lines of its log, and Invalid if a service of systemd is to serve it.
    """
    check_machine(data)
    if is_serving(data):
        return
    _check_unit(environ, data)
    command = [sys.executable, "-m", "lading", "up", "--detach", "--until-idle", "--json"]
    done = subprocess.run(
        [*command, "--data", str(data)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=dict(environ),
        check=False,
    )
    if done.returncode:
        raise Unavailable(_reason(done.stderr))
    answer = msgspec.json.decode(done.stdout, type=_Answer)
    if answer.started:
        say(STARTED)
        if answer.engine is None:
            say(_NO_ENGINE)


class OwnServer(Server, frozen=True, kw_only=True):
    """The site of this user: it is started again when it has ended meanwhile."""

    environ: dict[str, str]
    data: Path

    @classmethod
    def of(cls, server: Server, environ: dict[str, str], data: Path) -> OwnServer:
        """The site of `data`, with the address and the token of `server`."""
        return cls(
            address=server.address,
            token=server.token,
            insecure=server.insecure,
            authorities=server.authorities,
            environ=environ,
            data=data,
        )

    def transport(self) -> HttpTransport:
        """A new transport to the site. The caller closes it."""
        return _OwnTransport(self)


class _OwnTransport(HttpTransport):
    """A transport that starts the site again if a call finds it ended, as after its idle time."""

    def __init__(self, server: OwnServer) -> None:
        super().__init__(
            f"https://{server.address}",
            verify=False if server.insecure else server.authorities or True,
        )
        self._server = server

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | bytearray = b"",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Response:
        """One exchange; see Transport."""
        try:
            return await super().request(method, path, headers=headers, body=body, timeout=timeout)
        except Unavailable as error:
            # Nothing was sent to a server that does not listen, so that a second call is safe.
            if not isinstance(error.__cause__, ConnectionRefusedError):
                raise
            server = self._server
            await asyncio.to_thread(start, server.environ, server.data, say=tell)
        return await super().request(method, path, headers=headers, body=body, timeout=timeout)


def tell(message: str) -> None:
    """Write a message to standard error, as commands do."""
    print(f"lading: {message}", file=sys.stderr, flush=True)  # noqa: T201


def _check_unit(environ: Mapping[str, str], data: Path) -> None:
    """Raise Invalid where a service of the user serves this directory: systemd starts it."""
    home = Path(environ.get("HOME") or "/")
    configurations = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    # systemd replaces %h by the home directory (systemd.unit(5), "Specifiers").
    is_served = any(
        str(data) in _text_of(configurations / unit).replace("%h", str(home)) for unit in _UNITS
    )
    if is_served:
        raise Invalid(
            "no server: yours is a service that does not run; start it with"
            " 'systemctl --user start lading', or remove it with 'lading service remove --user'"
        )


def _text_of(path: Path) -> str:
    """The text of a file; "" if it cannot be read."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _reason(output: str) -> str:
    """The message of a failed start, which ends with a document of JSON."""
    lines = [line for line in output.splitlines() if line.strip()]
    try:
        message = msgspec.json.decode(lines[-1] if lines else "", type=_Refusal).error.message
    except msgspec.DecodeError:
        message = lines[-1] if lines else "no message"
    return f"your site did not start: {message}"
