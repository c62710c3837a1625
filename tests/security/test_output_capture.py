"""Containers that try to have files of the host saved as their output."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lading.testing.images import PROGRAMS, tiny_image
from lading.testing.supervising import CONTAINER
from tests.reality import need_program, need_root
from tests.supervisor.warm import PATIENCE
from tests.system.test_supervisor import Stage, staged

pytestmark = pytest.mark.system
MINE, THEIRS = b"of the container\n" * 10_000, b"of the host\n" * 10_000
# Several large files come first, so that saving waits for the server before it reads the last one.
MAKE = """
mkdir -p z/y; i=0; while [ $i -lt 4 ]; do dd if=/dev/zero of=a$i bs=1M count=5; i=$((i + 1)); done
i=0; while [ $i -lt 10000 ]; do echo of the container; i=$((i + 1)); done > z/y/secret
"""
SWAP = """
trap '' TERM HUP
while [ ! -e /out/go ]; do sleep 0.01; done
mv /out/z /out/was; ln -s {host} /out/z; echo > /out/done
sleep 600
"""
ENGINES = ("native", "docker", "podman")
STORING = ("PUT block", "POST block")
BEFORE_SWAP = 1.0
"""Seconds that an attacker gets between being told and the answer of the server."""


@dataclass
class Attack:
    """A container on one engine, and a directory of the host that it is not to see."""

    stage: Stage
    engine: str
    settings: dict[str, Any]
    host: Path
    swapped: list[bool] = field(default_factory=list)

    @property
    def output(self) -> Path:
        """The container's output directory on the host."""
        return self.stage.parent.run / CONTAINER / "mounts" / "1"

    @property
    def swap(self) -> str:
        """A script that swaps a directory of the output for a link to the host's while it is
        saved.
        """
        return SWAP.format(host=self.host)

    def arm(self) -> None:
        """Have the attacker told when the first block arrives, and the answer wait for what it
        does.
        """
        self.stage.server.on_call = self._tell

    def _tell(self, call: str) -> None:
        if call not in STORING or self.swapped:
            return
        (self.output / "go").touch()
        until = time.monotonic() + BEFORE_SWAP
        while time.monotonic() < until and not (self.output / "done").exists():
            time.sleep(0.01)
        self.swapped.append((self.output / "done").exists())

    async def enter(self, script: str) -> None:
        """Start a script in the container and leave it there, as somebody with a shell may."""
        if self.engine == "native":
            run = self.stage.parent.run / CONTAINER
            # Of the kept container, or of the one of the command (supervisor/starter).
            files = [run / "held.jsonl", run / "container.jsonl"]
            status = next(file for file in files if file.exists()).read_text()
            first = json.loads(status.splitlines()[0])["pid"]
            command = ["nsenter", f"--target={first}", "--all", "sh", "-c", f"({script}) &"]
        else:
            command = [
                "docker",
                "-H",
                f"unix://{self.settings[f'{self.engine}_socket']}",
                "exec",
                "--detach",
                CONTAINER,
                "sh",
                "-c",
                script,
            ]
        null = subprocess.DEVNULL
        entering = await asyncio.create_subprocess_exec(
            *command, stdin=null, stdout=null, stderr=null
        )
        assert await asyncio.wait_for(entering.wait(), PATIENCE) == 0

    async def until_kept(self, record: dict[str, Any]) -> None:
        """Wait until the container of the failed command is kept."""
        async with asyncio.timeout(PATIENCE):
            while "is kept until" not in (record["runtime_status"] or {}).get("activity", ""):
                await asyncio.sleep(0.01)

    def check(self) -> None:
        """Nothing of the host was stored, and what the container had was."""
        blocks = b"".join(self.stage.server.blocks.values())
        assert b"of the host" not in blocks
        assert MINE in blocks
        assert self.swapped == [False]


@pytest.fixture(params=ENGINES)
async def attack(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Attack]:
    async with attacking(request.param, request.getfixturevalue, tmp_path) as made:
        yield made


@pytest.fixture
async def native(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Attack]:
    async with attacking("native", request.getfixturevalue, tmp_path) as made:
        yield made


@asynccontextmanager
async def attacking(
    engine: str, fixture: Callable[[str], Any], directory: Path
) -> AsyncIterator[Attack]:
    """An attack on one engine."""
    need_root()
    need_program("crun")
    settings: dict[str, Any] = {"engine": engine, "stop_grace_period": 0.3}
    if engine == "docker":
        settings["docker_socket"] = str(fixture("docker_daemon").socket)
    if engine == "podman":
        need_program("docker")
        settings["podman_socket"] = str(fixture("podman_service").socket)
    host = directory / "host"
    (host / "y").mkdir(parents=True)
    (host / "y" / "secret").write_bytes(THEIRS)
    async with AsyncExitStack() as stack:
        stage = await stack.enter_async_context(staged(**settings))
        name, archive = tiny_image(programs=(*PROGRAMS, "/bin/mv", "/bin/mkfifo", "/bin/mknod"))
        stage.image = stage.server.add_collection({f"{name}.tar": archive})
        yield Attack(stage, engine, settings, host)


@pytest.mark.attack(
    "a process left in a kept container swaps a directory for a link to the host while it is saved"
)
async def test_a_shell_in_a_kept_container(attack: Attack) -> None:
    record, pidfd = await attack.stage.start(
        ["sh", "-c", f"{MAKE} exit 3"], scheduling_parameters={"keep_on_failure": 600}
    )
    await attack.until_kept(record)
    await attack.enter(attack.swap)
    await attack.enter("echo by a shell > /out/noted")
    while not (attack.output / "noted").exists():
        await asyncio.sleep(0.01)
    attack.arm()
    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    await attack.stage.over(pidfd)
    attack.check()
    assert (record["state"], record["exit_code"]) == ("Complete", 3)
    files = attack.stage.server.files(record["output"])
    assert files["z/y/secret"] == MINE
    assert files["noted"] == b"by a shell\n"


@pytest.mark.attack(
    "a background process outlives the command and swaps a directory while the output is saved"
)
async def test_a_background_process(attack: Attack) -> None:
    attack.arm()
    script = f"{MAKE} ({attack.swap}) > /dev/null 2>&1 & exit 0"
    record = await attack.stage.run(["sh", "-c", script])
    attack.check()
    assert record["state"] == "Complete"
    assert attack.stage.server.files(record["output"])["z/y/secret"] == MINE


@pytest.mark.attack(
    "a command that is cancelled or out of time leaves a process that swaps a directory"
)
@pytest.mark.parametrize("end", ["cancel", "timeout"])
async def test_a_process_that_ignores_its_end(attack: Attack, end: str) -> None:
    attack.arm()
    script = f"trap '' TERM; {MAKE} ({attack.swap}) > /dev/null 2>&1 & echo up; {attack.swap}"
    limit = {"scheduling_parameters": {"max_run_time": 2}} if end == "timeout" else {}
    record, pidfd = await attack.stage.begun(["sh", "-c", script], **limit)
    if end == "cancel":
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    await attack.stage.over(pidfd)
    attack.check()
    assert record["state"] == "Cancelled"


@pytest.mark.attack("an output of links to the host, a fifo, devices and hard links")
async def test_everything_but_files(attack: Attack) -> None:
    script = """
        echo mine > file; ln file hard; mkfifo pipe
        mknod disk b 8 0; mknod memory c 1 1; ln /etc/passwd stolen
        mkdir links; ln -s ../file links/soft; exit 0
    """
    record = await attack.stage.run(["sh", "-c", script])
    assert record["state"] == "Complete", record["runtime_status"]
    assert attack.stage.server.files(record["output"]) == {
        "file": b"mine\n",
        "hard": b"mine\n",
        "links/soft": b"mine\n",
    }
    log = attack.stage.server.files(record["log"])["crunch-run.txt"]
    assert b"/out/pipe is neither a file nor a directory" in log


@pytest.mark.attack(
    "a link in the output to a directory of the host that the container was not given"
)
async def test_a_link_to_the_host(attack: Attack) -> None:
    record = await attack.stage.run(["sh", "-c", f"mkdir d; ln -s {attack.host} d/z"])
    assert record["state"] == "Complete"
    assert attack.stage.server.files(record["output"]) == {"d/.keep": b""}
    assert "is in no mount of the container" in record["runtime_status"]["warning"]
    assert b"of the host" not in b"".join(attack.stage.server.blocks.values())


@pytest.mark.attack(
    "sessions leave processes in a kept container that would write while its output is saved"
)
async def test_nothing_runs_while_the_output_is_saved(native: Attack) -> None:
    """What the native engine kills before it reads is all that there is, sessions of their own
    included.
    """
    script = f"{MAKE} exit 3"
    record, pidfd = await native.stage.start(
        ["sh", "-c", script], scheduling_parameters={"keep_on_failure": 600}
    )
    await native.until_kept(record)
    await native.enter("sleep 601 & sleep 602")
    async with asyncio.timeout(PATIENCE):
        while len(held := _processes("sleep\x00601") | _processes("sleep\x00602")) < 2:
            await asyncio.sleep(0.01)
    seen: list[int] = []
    native.stage.server.on_call = lambda call: (
        seen.append(len(held & _running())) if call in STORING else None
    )
    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    await native.stage.over(pidfd)
    assert seen
    assert max(seen) == 0


def _processes(command: str) -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if command in path.read_text():
                found.add(int(path.parent.name))
        except OSError:
            continue
    return found


def _running() -> set[int]:
    return {int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()}
