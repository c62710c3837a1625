"""`lading service`: units of systemd that run `lading up`, for the machine or for one user.

Containers outlive the service: systemd ends only its main process, which ends its own children, and
the next start adopts the containers. Therefore the unit has `KillMode=process`, and
`OOMPolicy=continue`, as a container that used all of its memory is no failure of the service. The
output of the service goes to the journal, which rotates. `lading up` tells systemd when it serves
(`take_manager`, `tell_manager`), so that units ordered after it find the server.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import MutableMapping, Sequence
from pathlib import Path

import click

from lading.cli import display
from lading.client.servers.environment import default_data_directory
from lading.core.errors import Conflict, Invalid, LadingError

_NAME = "lading.service"
_SYSTEM = Path("/etc/systemd/system")
_SYSTEM_DATA = Path("/var/lib/lading")
_SYSTEM_LISTEN = "127.0.0.1:9440"
BOOTED = Path("/run/systemd/system")
"""systemd is the manager of this machine if there is this directory (sd_booted(3))."""

_user = click.option("--user", "of_user", is_flag=True, help="A service of yours, without root.")


@click.group()
def service() -> None:
    """Run `lading up` by systemd: from the start of the machine on, or as a service of yours."""


@service.command()
@_user
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Data directory.  [default: /var/lib/lading; with --user as 'lading up']",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Address to serve on.  [default: 127.0.0.1:9440; with --user as 'lading up']",
)
@click.option("--print", "only_print", is_flag=True, help="Print the unit, and change nothing.")
@display.with_json
def install(
    of_user: bool, data: Path | None, listen: str | None, only_print: bool
) -> display.Output:
    """Write the unit, and start it now and with the machine.

    \b
    sudo lading service install
    lading service install --user
    journalctl -u lading -f
    """
    directory = (
        data or (default_data_directory(os.environ) if of_user else _SYSTEM_DATA)
    ).absolute()
    # Two users of one machine cannot have the same port: `lading up` finds a free one.
    address = listen or ("" if of_user else _SYSTEM_LISTEN)
    unit = unit_text(_program(), data=directory, listen=address, of_user=of_user)
    if only_print:
        click.echo(unit, nl=False)
        return
    path = _place(of_user)
    if path.exists() and path.read_text() != unit:
        raise Conflict(f"{path}: is there already; 'lading service remove' removes it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(unit)
    steps = (("daemon-reload",), ("enable", "--now", _NAME))
    left = _ask(steps, of_user=of_user)
    yield {"unit": str(path), "data": str(directory), "started": not left}
    display.note(f"{path} written; clients: . {directory / 'env'}")
    for command in left:
        display.note(f"systemd does not run here; to start it: {command}")
    if of_user and not left:
        display.note(f"to run without a login, too: loginctl enable-linger {_user_name()}")


@service.command()
@_user
@display.with_json
def remove(of_user: bool) -> display.Output:
    """Stop the service and remove its unit. Data and containers stay."""
    path = _place(of_user)
    if not path.exists():
        raise Invalid(f"{path}: there is no such service")
    _ask((("disable", "--now", _NAME),), of_user=of_user)
    path.unlink()
    _ask((("daemon-reload",),), of_user=of_user)
    yield {"removed": str(path)}
    display.note(f"{path} removed; data and containers stay")


def take_manager(environ: MutableMapping[str, str]) -> str:
    """The address at which the manager of this service listens, "" without one (sd_notify(3)). It
    is removed from `environ`: children must not speak for the service.
    """
    return environ.pop("NOTIFY_SOCKET", "")


def tell_manager(address: str, *, status: str) -> None:
    """Tell the manager of this service that it is ready, with a status in words."""
    if not address:
        return
    socket_name = f"\0{address[1:]}" if address.startswith("@") else address
    message = f"READY=1\nSTATUS={' '.join(status.split())}\n"
    # The service works without its manager knowing.
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel,
    ):
        channel.settimeout(1.0)
        channel.sendto(message.encode(), socket_name)


def unit_text(program: Sequence[str], *, data: Path, listen: str, of_user: bool) -> str:
    """The unit that runs `lading up`; with `listen` "" it finds an address by itself."""
    address = ["--listen", listen] if listen else []
    words = [*program, "up", "--data", str(data), *address, "--log", "stderr"]
    # Podman's service of the user starts by its socket.
    needs = "podman.socket" if of_user else "network-online.target"
    directory = "" if of_user else "UMask=0077\n"
    return f"""[Unit]
Description=Lading: containers as records
Documentation=man:lading(1)
Wants={needs}
After={needs}

[Service]
Type=notify
ExecStart={" ".join(map(_quoted, words))}
# The first start of a new version may change the database; `lading up` bounds its own start.
TimeoutStartSec=infinity
Restart=on-failure
RestartSec=2
TimeoutStopSec=60
# Containers go on when the service stops, and are adopted when it starts.
KillMode=process
Delegate=yes
OOMPolicy=continue
LimitNOFILE=524288
TasksMax=infinity
{directory}StandardOutput=journal
StandardError=journal
SyslogIdentifier=lading

[Install]
WantedBy={"default.target" if of_user else "multi-user.target"}
"""


def _quoted(word: str) -> str:
    """A word of a command line of systemd (systemd.service(5), "Command lines")."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{plain}"' if any(character in plain for character in " \t'\"\\;") else plain


def _program() -> list[str]:
    """This installation of `lading`."""
    beside = Path(sys.executable).parent / "lading"
    return [str(beside)] if beside.exists() else [sys.executable, "-m", "lading"]


def _place(of_user: bool) -> Path:
    """The file of the unit. Raises Invalid without root."""
    if of_user:
        home = os.environ.get("XDG_CONFIG_HOME")
        return (Path(home) if home else Path.home() / ".config") / "systemd" / "user" / _NAME
    if os.geteuid() != 0:
        raise Invalid("a service of the machine needs root; sudo, or --user for one of yours")
    return _SYSTEM / _NAME


def _ask(steps: Sequence[Sequence[str]], *, of_user: bool) -> list[str]:
    """Let systemd carry out commands; those that are left where it does not run. Raises
    LadingError with what it said.
    """
    prefix = ["systemctl", *(["--user"] if of_user else [])]
    commands = [[*prefix, *step] for step in steps]
    if not BOOTED.is_dir() or shutil.which("systemctl") is None:
        return [" ".join(command) for command in commands]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LadingError(f"{' '.join(command)}: {done.stderr.strip()}")
    return []


def _user_name() -> str:
    return os.environ.get("USER", "") or str(os.geteuid())
