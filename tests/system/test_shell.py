"""Sessions with real OpenSSH in real containers: on every engine, directly, through the tunnel, and
on Slurm.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import termios
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.sessions import entered
from lading.client.servers.environment import find_server
from lading.core.containers import sessions
from lading.dispatch.fleets.cloud.drivers.namespace_machines import Network
from lading.wiring.directory import DataDirectory
from tests.reality import need_program, need_root
from tests.system.cluster import LADING, Cluster, free_address, running_cluster
from tests.system.desk import Desk, desk_of
from tests.system.docker_daemon import DockerDaemon
from tests.system.podman_service import PodmanService
from tests.system.slurm_cluster import SlurmCluster, running_slurm

pytestmark = pytest.mark.system
PROGRAMS = (
    "sh",
    "bash",
    "sleep",
    "cat",
    "env",
    "stty",
    "tty",
    "python3",
    "/usr/lib/openssh/sftp-server",
    "scp",
)
WAITS = "echo up; exec sleep 600"
SERVES = (
    "mkdir -p /tmp/w; echo served > /tmp/w/page; "
    "exec python3 -m http.server --bind 127.0.0.1 -d /tmp/w {port}"
)
SLURM = """
  Dispatcher: slurm
  ReserveExtraRAM: 0
  SLURM: {{PollPeriod: 300ms, NodeDirectory: {node}, HookDirectory: {hooks}}}
"""
CLOUD = """
  Dispatcher: cloud
  ReserveExtraRAM: 0
  CloudVMs:
    Driver: loopback
    DriverParameters: {{Bridge: {bridge}, Subnet: {subnet}}}
    BootProbeCommand: "true"
    TimeoutIdle: 2s
    TimeoutShutdown: 2s
InstanceTypes:
  small: {{ProviderType: small, VCPUs: 2, RAM: 2GiB, IncludedScratch: 10GiB, Price: 0.1}}
"""
PATIENCE = 180.0


@pytest.fixture(
    scope="module",
    # `make shell` runs all of them.
    params=[
        "native",
        *(
            pytest.param(one, marks=pytest.mark.long)
            for one in ("native-tunnel", "docker", "docker-tunnel", "podman")
        ),
        *(
            pytest.param(one, marks=pytest.mark.long)
            for one in ("native-slurm", "docker-slurm", "native-cloud")
        ),
    ],
)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    need_root()
    for program in ("crun", "ssh", "scp", "sftp", "curl"):
        need_program(program)
    engine, _, way = request.param.partition("-")
    config = f"Containers:\n  RuntimeEngine: {engine}\n  StopGracePeriod: 500ms\n"
    if way == "tunnel":
        config += "  GatewayAddress: tunnel\n"
    if engine == "docker":
        daemon: DockerDaemon = request.getfixturevalue("docker_daemon")
        config += f"  DockerSocket: {daemon.socket}\n"
    if engine == "podman":
        service: PodmanService = request.getfixturevalue("podman_service")
        config += f"  PodmanSocket: {service.socket}\n"
    root = tmp_path_factory.mktemp("shell")
    with contextlib.ExitStack() as stack:
        around: Mapping[str, str] = {}
        if way == "slurm":
            slurm = stack.enter_context(_slurm(root / "slurm"))
            around = slurm.environment
            config += SLURM.format(node=root / "node", hooks=root / "hooks")
            (root / "hooks").mkdir()
        address = ""
        if way == "cloud":
            network = stack.enter_context(_network())
            config += CLOUD.format(bridge=network.name, subnet=network.subnet)
            address = f"{network.host}:{free_address().rpartition(':')[2]}"
        running = stack.enter_context(running_cluster(root / "data", config, around, address))
        running.lading("image", "add", "--name", "tools:1", "--from-host", *PROGRAMS)
        yield running
        if way == "slurm":
            until = time.monotonic() + PATIENCE
            while slurm.jobs() and time.monotonic() < until:
                time.sleep(0.1)
        if way == "cloud":
            # The dispatcher removes its VMs once they are idle; without it they would stay.
            until = time.monotonic() + PATIENCE
            while any((running.data / "cloud" / "vms").iterdir()) and time.monotonic() < until:
                time.sleep(0.1)


@contextlib.contextmanager
def _network() -> Iterator[Network]:
    """A bridge for VMs of this machine."""
    for program in ("sshd", "ip", "unshare", "nsenter"):
        need_program(program)
    number = 100 + os.getpid() % 100
    network = Network(f"lds{number}", f"10.{number}.77.0/24")
    network.up()
    try:
        yield network
    finally:
        network.down()


def _slurm(directory: Path) -> contextlib.AbstractContextManager[SlurmCluster]:
    for program in ("slurmctld", "slurmd", "munged"):
        need_program(program)
    return running_slurm(directory, nodes=2, vcpus=4, ram=4000)


@pytest.fixture
async def desk(cluster: Cluster) -> AsyncIterator[Desk]:
    async with desk_of(cluster, limit=PATIENCE) as made:
        yield made
    async with desk_of(cluster, limit=PATIENCE) as made:
        # What a test leaves would take room from the next one.
        for one in await made.client.list(
            "container_requests", filters=[["state", "=", "Committed"]]
        ):
            await made.cancel(one["uuid"])
            await made.until(one["uuid"], "Complete", "Cancelled")


@dataclass
class Room:
    """A running request to be entered."""

    cluster: Cluster
    desk: Desk
    uuid: str

    def shell(self, *command: str, **more: object) -> subprocess.CompletedProcess[str]:
        """`lading shell`; what it says while it waits is left out."""
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [LADING, "shell", "--wait", self.uuid, *command], env=self.cluster.environment,
            capture_output=True, text=True,
            timeout=PATIENCE, check=False, **more,  # type: ignore[call-overload]
        )  # fmt: skip
        lines = done.stderr.splitlines(keepends=True)
        done.stderr = "".join(line for line in lines if not line.startswith("lading: waiting: "))
        return done

    def proxy(self, user: str = "") -> list[str]:
        """The options with which ssh and scp get there."""
        target = f"{user}@{self.uuid}" if user else self.uuid
        command = self.cluster.lading("shell", "--wait", "--print", target).stdout.strip()
        given = (
            f"ProxyCommand={command}",
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "LogLevel=ERROR",
        )
        return [part for one in given for part in ("-o", one)]


async def enter(cluster: Cluster, desk: Desk, script: str = WAITS, **more: object) -> Room:
    """A request whose container runs."""
    uuid = await desk.submit(
        script, **{"runtime_constraints": {"vcpus": 1, "ram": 256 << 20}, **more}
    )
    await desk.until(uuid, "Running")
    return Room(cluster, desk, uuid)


@pytest.mark.quick
async def test_a_command_scp_and_what_is_written_down(
    cluster: Cluster, desk: Desk, tmp_path: Path
) -> None:
    room = await enter(cluster, desk)
    done = await asyncio.to_thread(
        room.shell, "--", "sh", "-c", "cat; echo error >&2; exit 7", input="typed\n"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("typed\n", "error\n", 7)
    seen = (await asyncio.to_thread(room.shell, "env")).stdout
    assert "ARVADOS" not in seen
    assert "v2/" not in seen
    given, back = tmp_path / "given", tmp_path / "back"
    given.write_bytes(os.urandom(5_000_000))
    options = await asyncio.to_thread(room.proxy)
    plain = subprocess.run(
        ["ssh", *options, "root@x", "cat; exit 9"], env=cluster.environment, input=b"plain",
        capture_output=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (plain.stdout, plain.stderr, plain.returncode) == (b"plain", b"", 9)
    for more in ([], ["-O"]):
        for pair in ((str(given), "root@x:/tmp/copy"), ("root@x:/tmp/copy", str(back))):
            await asyncio.to_thread(_run, ["scp", "-q", *more, *options, *pair], cluster)
        assert _digest(given) == _digest(back)
        back.unlink()
    orders = tmp_path / "orders"
    orders.write_text(f"rename /tmp/copy /tmp/renamed\nget /tmp/renamed {back}\nrm /tmp/renamed\n")
    await asyncio.to_thread(_run, ["sftp", "-q", "-b", str(orders), *options, "root@x"], cluster)
    assert _digest(given) == _digest(back)
    container = await desk.container(room.uuid)
    assert container["interactive_session_started"] is True
    filters = [["object_uuid", "=", container["uuid"]], ["event_type", "=", "shell_end"]]
    # An end is written down when both sides have ended.
    while len(rows := await desk.client.list("logs", filters=filters)) < 8:
        await asyncio.sleep(0.05)
    assert all(row["properties"]["seconds"] > 0 for row in rows)
    user = await desk.client.get("users", "current")
    assert {row["properties"]["user_uuid"] for row in rows} == {user["uuid"]}
    assert room.cluster.environment["ARVADOS_API_TOKEN"] not in str(rows)
    await desk.cancel(room.uuid)


async def test_plain_ssh_enters_as_the_user_that_is_named(cluster: Cluster, desk: Desk) -> None:
    room = await enter(cluster, desk)
    for printed, named, shown in (
        ("nobody", [], "65534"), ("nobody", ["-l", "root"], "65534"),
        ("", ["-l", "nobody"], "65534"), ("", ["-l", "root"], "0"),
    ):  # fmt: skip
        options = await asyncio.to_thread(room.proxy, printed)
        command = ["ssh", *options, *named, "x", "grep ^Uid /proc/self/status"]
        done = await asyncio.to_thread(_run, command, cluster)
        assert done.split()[1:] == [shown] * 4, (printed, named)
    options = await asyncio.to_thread(room.proxy)
    refused = subprocess.run(
        ["ssh", *options, "stranger@x", "true"], env=cluster.environment, capture_output=True,
        text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert refused.returncode != 0
    # Docker says it as the output of a command that could not be started.
    assert "stranger" in refused.stdout + refused.stderr
    await desk.cancel(room.uuid)


async def test_a_terminal_that_is_typed_into_resized_and_interrupted(
    cluster: Cluster, desk: Desk
) -> None:
    room = await enter(cluster, desk)
    assert await asyncio.to_thread(_converse, room) == 23
    await desk.cancel(room.uuid)


def _converse(room: Room) -> int:
    """A conversation with a shell; its exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
    command = ["setsid", "--ctty", "--wait", LADING, "shell", "--wait", room.uuid]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=room.cluster.environment
    )
    os.close(theirs)
    try:
        _type(ours, b"PS1=; echo re''ady; stty size; tty\n", b"ready\r\n30 90\r\n/dev/pts/")
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 41, 101, 0, 0))
        # The size travels beside what is typed.
        until = time.monotonic() + PATIENCE
        while b"41 101" not in _type(ours, b"stty size; echo en''d\n", b"end\r\n"):
            assert time.monotonic() < until
        # Said by what is to be interrupted: a shell that is about to start it would take the signal
        # for itself.
        _type(ours, b"sh -c 'echo st\"\"arted; exec sleep 1000'\n", b"started\r\n")
        _type(ours, b"\x03", b"^C")
        _type(ours, b"echo ba''ck\n", b"back\r\n")
        os.write(ours, b"exit 23\n")
        with contextlib.suppress(OSError):
            while os.read(ours, 1000):
                pass
        return process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _type(terminal: int, typed: bytes, expected: bytes) -> bytes:
    os.write(terminal, typed)
    said, until = b"", time.monotonic() + PATIENCE
    while expected not in said:
        assert select.select([terminal], [], [], until - time.monotonic())[0], said
        said += os.read(terminal, 10_000)
    return said


async def test_ports_of_the_container_and_of_no_other(cluster: Cluster, desk: Desk) -> None:
    """One container has a network of its own, two share the machine's."""
    for constraints in ({}, {"internet": True}):
        inside, outside = _free_port(), _free_port()
        amounts = {"vcpus": 1, "ram": 256 << 20, **constraints}
        room = await enter(cluster, desk, SERVES.format(port=inside), runtime_constraints=amounts)
        assert await asyncio.to_thread(_fetch, room, outside, inside) == "served\n"
        other = await enter(cluster, desk, runtime_constraints=amounts)
        assert await asyncio.to_thread(_fetch, other, outside, inside, tries=2) == ""
        for one in (room, other):
            await desk.cancel(one.uuid)
        for one in (room, other):
            await desk.until(one.uuid, "Cancelled")


def _fetch(room: Room, outside: int, inside: int, *, tries: int = 100) -> str:
    """What curl gets through `lading shell -L`; "" when there is nothing."""
    command = [LADING, "shell", "--wait", "-N", "-L", f"{outside}:localhost:{inside}", room.uuid]
    null = subprocess.DEVNULL
    process = subprocess.Popen(
        command, env=room.cluster.environment, stdin=null, stdout=null, stderr=null
    )
    try:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and tries:
            time.sleep(0.2)
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", outside)) != 0:
                    continue
            tries -= 1
            url = f"http://127.0.0.1:{outside}/page"
            done = subprocess.run(
                ["curl", "-sf", url], capture_output=True, text=True, timeout=PATIENCE, check=False
            )
            if done.returncode == 0:
                return done.stdout
        return ""
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


async def test_no_token_is_in_a_log_or_a_process_list(cluster: Cluster, desk: Desk) -> None:
    room = await enter(cluster, desk)
    command = [LADING, "shell", "--wait", room.uuid, "--", "sh", "-c", "echo in; exec cat"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=cluster.environment, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert await asyncio.to_thread(process.stdout.readline) == b"in\n"
        secrets = DataDirectory(cluster.data).secrets()
        hidden = (
            cluster.environment["ARVADOS_API_TOKEN"].rpartition("/")[2],
            secrets.system_root_token,
            sessions.container_key(
                secrets.system_root_token, (await desk.container(room.uuid))["uuid"]
            ),
        )
        lines = _command_lines()
        assert any("--connect" in line for line in lines)
        assert not any(secret in line for line in lines for secret in hidden)
        # Other programs of this machine may name the variable.
        assert not any("ARVADOS_API_TOKEN" in line for line in lines if room.uuid in line)
        process.stdin.close()
        await asyncio.to_thread(process.wait, PATIENCE)
    # The supervisor sends its log to the server a moment after it has written it.
    while not (live := [*(cluster.data / "live").glob("*/*")]):
        await asyncio.sleep(0.1)
    logs = [*(cluster.data / "log").glob("*.log"), *live]
    assert len(logs) > 2
    for log in logs:
        assert not any(secret.encode() in log.read_bytes() for secret in hidden), log
    await desk.cancel(room.uuid)


@pytest.mark.long
async def test_many_at_once_lose_nothing_while_somebody_calls(cluster: Cluster, desk: Desk) -> None:
    """Twenty sessions, of which four send and read so much that they give way to calls."""
    room = await enter(cluster, desk)
    container, data = (await desk.container(room.uuid))["uuid"], os.urandom(4 << 20)
    server = find_server(cluster.environment, Path("/nonexistent"))

    async def call() -> None:
        while True:
            await desk.client.get("users", "current")

    async with contextlib.AsyncExitStack() as stack:
        held = [await stack.enter_async_context(entered(server, container)) for _ in range(20)]
        waiting = [await one.create_process("cat", encoding=None) for one in held[4:]]
        calling = asyncio.create_task(call())
        done = await asyncio.gather(
            *(one.run("cat", input=data, encoding=None) for one in held[:4])
        )
        calling.cancel()
        for process in waiting:
            process.stdin.write(b"typed")
            process.stdin.write_eof()
            assert await process.stdout.read() == b"typed"
    assert all(one.stdout == data for one in done)
    await desk.cancel(room.uuid)


async def test_a_container_that_fails_is_kept_to_be_looked_into(
    cluster: Cluster, desk: Desk
) -> None:
    script = "echo clue > /tmp/clue; echo half > /out/result; exit 4"
    room = await enter(cluster, desk, script, scheduling_parameters={"keep_on_failure": 300})
    while "is kept until" not in (await desk.container(room.uuid))["runtime_status"].get(
        "activity", ""
    ):
        await asyncio.sleep(0.05)
    done = await asyncio.to_thread(room.shell, "cat /tmp/clue /out/result; pwd")
    assert (done.stdout, done.returncode) == ("clue\nhalf\n/out\n", 0)
    await desk.cancel(room.uuid)
    ended = await desk.until(room.uuid, "Complete", "Cancelled")
    assert (ended["state"], ended["exit_code"]) == ("Complete", 4)


async def test_refusals_are_one_line(cluster: Cluster, desk: Desk) -> None:
    uuid = await desk.submit("exit 0")
    await desk.until(uuid, "Complete")
    done = await asyncio.to_thread(cluster.lading, "shell", uuid, check=False)
    assert done.returncode == 1
    assert "has ended (Complete)" in done.stderr
    assert done.stderr.count("\n") == 1
    room = await enter(cluster, desk)
    done = await asyncio.to_thread(room.shell, "no-such-program")
    assert done.returncode != 0
    nobody = await asyncio.to_thread(
        cluster.lading, "shell", f"nobody-there@{room.uuid}", "true", check=False
    )
    assert nobody.returncode != 0
    # The Docker daemon says it where the command would have written.
    assert "nobody-there" in nobody.stdout + nobody.stderr
    await desk.cancel(room.uuid)


async def test_a_restart_of_the_server_ends_sessions_and_lets_new_ones_in(
    cluster: Cluster, desk: Desk
) -> None:
    room = await enter(cluster, desk)
    assert (await asyncio.to_thread(room.shell, "true")).returncode == 0
    (server,) = cluster.pids("server")
    os.kill(server, signal.SIGKILL)
    until = time.monotonic() + PATIENCE
    while cluster.pids("server") in ([], [server]):
        assert time.monotonic() < until
        await asyncio.sleep(0.05)
    done = await asyncio.to_thread(room.shell, "echo again")
    assert (done.stdout, done.stderr, done.returncode) == ("again\n", "", 0)
    await desk.cancel(room.uuid)


def _command_lines() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def _run(command: list[str], cluster: Cluster) -> str:
    done = subprocess.run(
        command,
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
