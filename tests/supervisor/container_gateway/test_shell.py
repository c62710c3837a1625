"""SSH sessions in a container, with asyncssh on the other side; OpenSSH is in
tests/system/test_shell.py.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh
import pytest

from lading.core.errors import Invalid
from lading.net.http_upgrade import LIMIT
from lading.net.pipes import Pipe
from lading.supervisor.container_gateway.shell import ShellServer, parse_form
from tests.supervisor.container_gateway.entering import Gateway, gateway_of, stub_running


@pytest.fixture
async def ssh(tmp_path: Path) -> AsyncIterator[asyncssh.SSHClientConnection]:
    async with (
        stub_running(tmp_path) as engine,
        gateway_of(engine) as gateway,
        gateway.ssh() as connection,
    ):
        yield connection


async def test_a_command_its_streams_and_exit_code(ssh: asyncssh.SSHClientConnection) -> None:
    done = await ssh.run("cat; echo $NAME; echo error >&2; exit 7", input="typed\n")
    assert (done.stdout, done.stderr, done.exit_status) == (
        "typed\nof the container\n",
        "error\n",
        7,
    )


async def test_a_session_that_is_cancelled_early_leaves_no_socket(tmp_path: Path) -> None:
    async with stub_running(tmp_path) as engine:
        shell = ShellServer(engine)
        before = len(list(Path("/proc/self/fd").iterdir()))
        for passes in range(12):
            ours, theirs = socket.socketpair()
            pipe = Pipe(*await asyncio.open_connection(sock=theirs, limit=LIMIT))
            serving = asyncio.create_task(shell.serve(pipe, "root"))
            for _ in range(passes):
                await asyncio.sleep(0)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            await pipe.close()
            ours.close()
        await shell.close()
        async with asyncio.timeout(180):
            while len(list(Path("/proc/self/fd").iterdir())) > before:
                await asyncio.sleep(0)


async def test_a_session_that_is_cancelled_while_it_closes_leaves_no_socket(
    tmp_path: Path,
) -> None:
    async with stub_running(tmp_path) as engine:
        shell = ShellServer(engine)
        before = len(list(Path("/proc/self/fd").iterdir()))
        for passes in range(12):
            ours, theirs = socket.socketpair()
            pipe = Pipe(*await asyncio.open_connection(sock=theirs, limit=LIMIT))
            serving = asyncio.create_task(shell.serve(pipe, "root"))
            client = await asyncssh.connect(
                "gateway", sock=ours, known_hosts=None, username="root", client_keys=None
            )
            client.close()
            for _ in range(passes):
                await asyncio.sleep(0)
            serving.cancel()
            for _ in range(passes):
                await asyncio.sleep(0)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            await pipe.close()
            await client.wait_closed()
        await shell.close()
        async with asyncio.timeout(10):
            while len(list(Path("/proc/self/fd").iterdir())) > before:
                await asyncio.sleep(0)


async def test_large_amounts_arrive_whole(ssh: asyncssh.SSHClientConnection) -> None:
    data = "0123456789abcdef" * 200_000
    assert (await ssh.run("cat", input=data)).stdout == data


async def test_a_command_that_is_not_there(ssh: asyncssh.SSHClientConnection) -> None:
    done = await ssh.run("no-such-program")
    assert done.exit_status == 1
    assert "lading: the command cannot be started" in str(done.stderr)


async def test_only_the_language_of_the_client_comes_along(
    ssh: asyncssh.SSHClientConnection,
) -> None:
    done = await ssh.run("env", env={"LANG": "de_DE", "LD_PRELOAD": "/x", "MY_OWN": "mine"})
    assert "LANG=de_DE" in str(done.stdout)
    assert "MY_OWN=mine" in str(done.stdout)
    assert "not set in this session: LD_PRELOAD" in str(done.stderr)
    assert "MY_OWN" not in str((await ssh.run("env")).stdout)
    assert "LD_PRELOAD" not in str(done.stdout)


async def test_a_terminal_its_size_and_an_interrupt(ssh: asyncssh.SSHClientConnection) -> None:
    script = "trap 'stty size; echo $TERM; exit 5' INT; echo ready; while :; do sleep 0.02; done"
    async with ssh.create_process(script, term_type="vt100", term_size=(90, 30)) as process:
        await process.stdout.readuntil("ready")
        process.change_terminal_size(101, 33)
        process.stdin.write("\x03")
        said = await process.stdout.read()
        await process.wait()
    assert "33 101" in said
    assert "vt100" in said
    assert process.exit_status == 5


async def test_signals(ssh: asyncssh.SSHClientConnection) -> None:
    async with ssh.create_process(
        "trap 'exit 6' TERM; echo ready; while :; do sleep 0.02; done"
    ) as process:
        await process.stdout.readuntil("ready")
        process.send_signal("TERM")
        process.send_signal("NONSENSE")
        await process.wait()
    assert process.exit_status == 6


async def test_what_is_refused(ssh: asyncssh.SSHClientConnection) -> None:
    with pytest.raises(asyncssh.ChannelOpenError, match="only ports of the container itself"):
        await ssh.open_connection("10.0.0.1", 80)
    with pytest.raises(asyncssh.ChannelOpenError, match="nothing of this container listens there"):
        await ssh.open_connection("localhost", 1)
    with pytest.raises(asyncssh.ChannelListenError):
        await ssh.forward_remote_port("", 0, "localhost", 1)
    with pytest.raises(asyncssh.ChannelOpenError):
        await ssh.create_process(subsystem="other")


async def test_a_client_of_files_gets_no_shell(ssh: asyncssh.SSHClientConnection) -> None:
    async with ssh.create_process(subsystem="sftp", encoding=None) as process:
        process.stdin.write(b"echo $NAME\n")
        process.stdin.write_eof()
        assert b"of the container" not in await process.stdout.read()


async def test_a_client_that_leaves_ends_its_command(tmp_path: Path) -> None:
    async with stub_running(tmp_path) as engine, gateway_of(engine) as gateway:
        async with gateway.ssh() as connection:
            process = await connection.create_process("echo $$; exec sleep 600")
            pid = int(await process.stdout.readline())
            process.close()
        async with asyncio.timeout(180):
            while Path(f"/proc/{pid}").exists():
                await asyncio.sleep(0)


async def test_the_detach_keys_leave_a_terminal_and_what_runs_in_it(tmp_path: Path) -> None:
    done = tmp_path / "done"
    async with stub_running(tmp_path) as engine:
        async with gateway_of(engine) as gateway, gateway.ssh("detach_keys=ctrl-p%2Cctrl-q") as ssh:
            script = (
                f"stty -echo; echo $$; read line; echo said; echo $line > {done}; exec sleep 600"
            )
            process = await ssh.create_process(script, term_type="vt100")
            pid = int(await process.stdout.readline())
            process.stdin.write("one\x10two\n\x10\x11dropped")
            await process.wait()
            assert process.exit_status == 0
            async with asyncio.timeout(180):
                while not (done.exists() and done.read_text().endswith("\n")):
                    await asyncio.sleep(0)
            assert done.read_text() == "one\x10two\n"
            assert Path(f"/proc/{pid}").exists()
        # With the gateway it ends.
        assert not Path(f"/proc/{pid}").exists()


async def test_a_command_without_a_terminal_has_no_detach_keys(tmp_path: Path) -> None:
    async with (
        stub_running(tmp_path) as engine,
        gateway_of(engine) as gateway,
        gateway.ssh("detach_keys=a") as ssh,
    ):
        assert (await ssh.run("cat", input="banana")).stdout == "banana"


def test_the_form_of_a_session() -> None:
    assert parse_form(b"") == ("", "")
    assert parse_form(b"login_username=nobody&detach_keys=x") == ("nobody", "x")
    with pytest.raises(Invalid, match="detach_keys: 'meta-x'"):
        parse_form(b"detach_keys=meta-x")


@pytest.mark.parametrize(
    ("form", "named", "user"),
    [
        ("", "nobody", "nobody"),
        ("", "root", "root"),
        ("", "_", "root"),
        ("login_username=nobody", "root", "nobody"),
        ("login_username=nobody", "me", "nobody"),
        ("login_username=root", "me", "root"),
    ],
)
async def test_a_session_is_the_form_s_user_s_else_that_of_ssh(
    tmp_path: Path, form: str, named: str, user: str
) -> None:
    async with (
        stub_running(tmp_path) as engine,
        gateway_of(engine) as gateway,
        gateway.ssh(form, user=named) as ssh,
    ):
        await ssh.run("true")
        assert engine.users == [user]


async def test_something_else_than_ssh_is_let_go(tmp_path: Path) -> None:
    async with stub_running(tmp_path) as engine, gateway_of(engine) as gateway:
        pipe, _, _ = await gateway.ask()
        pipe.writer.write(b"GET / HTTP/1.1\r\n\r\n" * 100)
        await asyncio.wait_for(pipe.reader.read(), 20)
        await pipe.close()
        assert isinstance(gateway, Gateway)


async def test_nothing_listens_for_the_client(ssh: asyncssh.SSHClientConnection) -> None:
    with pytest.raises(asyncssh.ChannelListenError):
        await ssh.forward_remote_port("", 8080, "localhost", 80)
    with pytest.raises(asyncssh.ChannelListenError):
        await ssh.forward_remote_path("/run/socket", "/run/mine")
    told = str((await ssh.run("true")).stderr)
    assert "lading: -R :8080: is refused, as nothing listens in a container" in told
    assert "lading: -R /run/socket: is refused" in told
    # Once.
    assert not (await ssh.run("true")).stderr
