"""`lading shell`: a shell in a running container, with the ssh of this machine.

Lading is only the connection: ssh is started with `lading shell --connect UUID` as its
ProxyCommand, which connects standard input and output to the container's gateway through the API.
The token is passed in the environment, never on a command line. A first request without a session
tests whether it would be possible, so that a refusal is one clear line.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from urllib.parse import urlencode

import click
from msgspec import structs

from lading.cli import display
from lading.cli.interruption import run_until_killed
from lading.cli.references import find_request
from lading.cli.session import CliSession, own_or_named_server, with_session
from lading.client.api import error_of
from lading.client.servers.environment import Server
from lading.core.errors import Invalid, LadingError, Unavailable
from lading.net.http_upgrade import LIMIT, parse_url, switch
from lading.net.pipes import CHUNK, Pipe

# `[USER@]NAME`, as ssh takes it.
_TARGET = re.compile(r"(?:([A-Za-z0-9_][A-Za-z0-9_.-]*)@)?([A-Za-z0-9][A-Za-z0-9-]*)")
# Keys as docker's `--detach-keys` names them: `ctrl-p,ctrl-q`, or letters.
_KEYS = re.compile(r"ctrl-[a-z@\[\]^_\\](,ctrl-[a-z@\[\]^_\\])*|[a-z](,[a-z])*")
# The user of ssh if none is named.
_USER = "root"
# Seconds between two attempts with --wait.
_WAIT = 1.0


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.argument("target", metavar="[USER@]REQUEST")
@click.argument("command", nargs=-1, metavar="[--] [COMMAND...]")
@click.option(
    "-L",
    "forwards",
    multiple=True,
    metavar="[BIND:]PORT:localhost:PORT",
    help="Reach a port of the container.",
)
@click.option("-N", "only_forward", is_flag=True, help="Run no command: only -L.")
@click.option("-t", "terminal", is_flag=True, help="A terminal also for a command.")
@click.option(
    "-o", "options", multiple=True, metavar="OPTION", help="An option for ssh, as Compression=yes."
)
@click.option(
    "--detach-keys", default="", metavar="KEYS", help="Passed to the container's gateway."
)
@click.option("--wait", is_flag=True, help="Wait until it runs.")
@click.option(
    "--print",
    "printing",
    is_flag=True,
    help="Print the ssh command instead, for scp, sftp or a script.",
)
@click.option("--connect", is_flag=True, hidden=True)
def shell(
    target: str,
    command: tuple[str, ...],
    forwards: tuple[str, ...],
    only_forward: bool,
    terminal: bool,
    options: tuple[str, ...],
    detach_keys: str,
    wait: bool,
    printing: bool,
    connect: bool,
) -> None:
    """Open a shell in the container of a running request, or run COMMAND there.

    REQUEST is a uuid of a request or a container, or `last`. Standard streams and the exit code are
    those of COMMAND.

    \b
    lading shell last
    lading shell last -- ps aux
    lading shell -L 8888:localhost:8888 -N last
    scp -o "ProxyCommand=$(lading shell --print last)" results.csv root@container:/tmp/
    """
    login, name = parse_target(target)
    command = command[1:] if command[:1] == ("--",) else command
    if detach_keys and not _KEYS.fullmatch(detach_keys):
        raise Invalid(f"--detach-keys {detach_keys}: write for example ctrl-p,ctrl-q")
    # Without a name the gateway chooses the container's user.
    if not printing and not connect:
        login = login or _USER
    form = {"login_username": login, "detach_keys": detach_keys}
    if connect:
        # ssh ends it by SIGHUP.
        sys.exit(run_until_killed(_connect(own_or_named_server(), name, form)))
    uuid = with_session(lambda session: _probe(session, name, form, wait=wait))
    proxy = proxy_command(uuid, login, detach_keys)
    if printing:
        click.echo(proxy)
        return
    program = shutil.which("ssh")
    if program is None:
        raise Invalid("there is no ssh here; install the package openssh-client")
    arguments = ssh_arguments(
        proxy,
        login,
        uuid,
        command=command,
        forwards=forwards,
        options=options,
        terminal=terminal,
        only_forward=only_forward,
    )
    sys.stdout.flush()
    # Replaces this process by ssh.
    os.execve(program, [program, *arguments], ssh_environment(own_or_named_server()))  # noqa: S606


def ssh_arguments(
    proxy: str,
    login: str,
    uuid: str,
    *,
    command: Sequence[str] = (),
    forwards: Sequence[str] = (),
    options: Sequence[str] = (),
    terminal: bool = False,
    only_forward: bool = False,
) -> list[str]:
    """The arguments of ssh. The container's key is new for each session; the connection through the
    API is trusted instead.
    """
    fixed = (
        f"ProxyCommand={proxy}",
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "LogLevel=ERROR",
        "PreferredAuthentications=none,password",
        "PubkeyAuthentication=no",
    )
    arguments = [word for option in (*fixed, *options) for word in ("-o", option)]
    arguments += [word for forward in forwards for word in ("-L", forward)]
    # Without it ssh would go on although a port cannot be used.
    if forwards:
        arguments += ["-o", "ExitOnForwardFailure=yes"]
    arguments += ["-N"] * only_forward + ["-t"] * terminal
    arguments += ["-l", login or _USER, "--", uuid]
    # As with ssh, a single argument may be a line for a shell.
    line = command[0] if len(command) == 1 else shlex.join(command)
    return [*arguments, line] if command else arguments


def parse_target(target: str) -> tuple[str, str]:
    """Login and request of `REQUEST` or `USER@REQUEST`; the login may be "". Raises Invalid."""
    match = _TARGET.fullmatch(target)
    if match is None:
        raise Invalid(f"{target[:60]!r}: write REQUEST or USER@REQUEST")
    return match[1] or "", match[2]


def proxy_command(uuid: str, login: str, detach_keys: str) -> str:
    """The command line by which ssh reaches the container."""
    target = f"{login}@{uuid}" if login else uuid
    keys = ["--detach-keys", detach_keys] if detach_keys else []
    # ssh expands percent signs in ProxyCommand.
    return shlex.join(
        [sys.executable, "-m", "lading", "shell", "--connect", *keys, target]
    ).replace("%", "%%")


def ssh_environment(server: Server) -> dict[str, str]:
    """The environment of this process with the server that was found."""
    if server.login:
        # By its name, which stands for its certificate too.
        return {**os.environ, "LADING_SITE": server.login}
    named = {"ARVADOS_API_HOST": server.address, "ARVADOS_API_TOKEN": server.token}
    insecure = {"ARVADOS_API_HOST_INSECURE": "1"} if server.insecure else {}
    return {**os.environ, **named, **insecure}


async def _probe(session: CliSession, name: str, form: dict[str, str], *, wait: bool) -> str:
    """The uuid to connect to, after the server has confirmed that a session is possible."""
    was_announced = False
    while True:
        try:
            uuid = name if _is_container(name) else str((await find_request(session, name))["uuid"])
            await _ask(session, uuid, form)
        except Unavailable as error:
            if not wait:
                raise
            if not was_announced:
                display.note(f"waiting: {error.message}")
            was_announced = True
            await asyncio.sleep(_WAIT)
        else:
            return uuid


async def _ask(session: CliSession, uuid: str, form: dict[str, str]) -> None:
    """Ask once whether a session is possible. Raises the server's refusal."""
    headers = {**session.api.headers, "Content-Type": "application/x-www-form-urlencoded"}
    body = urlencode({**form, "probe": "true"}).encode()
    path = f"/arvados/v1/connect/{uuid}/ssh"
    answer = await session.api.transport.request("POST", path, headers=headers, body=body)
    if answer.status >= 400:
        raise error_of(answer, f"POST connect/{uuid}/ssh")


def _is_container(name: str) -> bool:
    return "-dz642-" in name


async def _connect(server: Server, uuid: str, form: dict[str, str]) -> int:
    """Connect standard input and output to a session."""
    try:
        way = structs.replace(
            parse_url(f"https://{server.address}", server.tls()), proxy=server.proxy()
        )
        pipe = await way.open()
        await switch(
            pipe,
            f"/arvados/v1/connect/{uuid}/ssh",
            "ssh",
            host=server.address,
            headers={"Authorization": f"Bearer {server.token}"},
            form=form,
        )
    except LadingError as error:
        display.note(error.message)
        return 1
    await _join_standard(pipe)
    return 0


async def _join_standard(pipe: Pipe) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LIMIT)
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(0, "rb", buffering=0)
    )
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()),
        os.fdopen(1, "wb", buffering=0),
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    outward = asyncio.create_task(_carry(reader, pipe.writer))
    inward = asyncio.create_task(_carry(pipe.reader, writer))
    # The end of one direction ends the session.
    await asyncio.wait((outward, inward), return_when=asyncio.FIRST_COMPLETED)
    for task in (outward, inward):
        task.cancel()
    await asyncio.gather(outward, inward, return_exceptions=True)
    writer.close()
    await pipe.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    except OSError:
        # One of the sides has closed.
        return
