"""Conformance suite of container engines (`lading.supervisor.engines.Engine`).

A test module subclasses `EngineSuite` and gives the fixture `kit`, a `Kit` of its engine. An engine
that isolates the command runs `isolation.IsolatingEngineSuite` in its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor import linux
from lading.supervisor.engines import (
    Bind,
    ContainerSpec,
    Engine,
    EngineSettings,
    Exec,
    Execution,
    Exit,
    Size,
)
from lading.testing.images import ArchiveImage, tiny_image
from lading.testing.pulse import Bell

CONTAINER = f"zzzzz-dz642-engine{os.getpid():09d}"
"""A different uuid in each test process: the control group of a container is named by its uuid, and
an engine that removes its container kills every process of that group.
"""
PATIENCE = 180.0


def skip_without(program: str) -> None:
    """Skip the test where a program is not installed."""
    if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
        pytest.skip(f"{program} is missing")


@dataclass
class Kit:
    """One engine under test: how to make it, and a directory that is the test's own.

    `need_program` is called with the name of each program that a test needs besides the engine.
    """

    make: Callable[[EngineSettings], Engine]
    directory: Path
    image: ArchiveImage = field(default_factory=lambda: ArchiveImage(*tiny_image()))
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    grace: float = 5.0
    need_program: Callable[[str], None] = skip_without
    is_of_user: bool = False
    """Whether it is the native engine of an ordinary user, with limits without a control group."""
    user_ids: int = 1
    """With `is_of_user`: number of ids that its containers have."""
    walls: Mapping[str, str] = field(default_factory=dict)
    """The walls of its containers, by name (`walls.WALLS`); empty: they are not compared."""

    @property
    def settings(self) -> EngineSettings:
        run = self.directory / CONTAINER
        run.mkdir(exist_ok=True)
        return EngineSettings(
            container_uuid=CONTAINER,
            run_directory=str(run),
            cache_directory=str(self.directory / "cache"),
        )

    async def run(self, script: str, **more: Any) -> tuple[Exit, str, str]:
        """Exit, output and errors of a shell script."""
        return await self.run_command(("sh", "-c", script), **more)

    async def run_command(self, command: tuple[str, ...], **more: Any) -> tuple[Exit, str, str]:
        """Exit, output and errors of a command."""
        engine = self.make(self.settings)
        out, err = self.directory / "out.txt", self.directory / "err.txt"
        try:
            await engine.prepare(self.image)
            with out.open("wb") as stdout, err.open("wb") as stderr:
                await engine.create(
                    ContainerSpec(
                        command=command, stdout=stdout.fileno(), stderr=stderr.fileno(), **more
                    )
                )
            ended = await asyncio.wait_for(
                engine.run(stop=self.stop, stop_grace=self.grace), PATIENCE
            )
        finally:
            await engine.remove()
        return ended, out.read_text(), err.read_text()

    async def run_and_stop(self, script: str) -> int:
        """The exit code of a script that is stopped once it has rung `/made/bell`."""
        made = self.bind("/made")
        with Bell(Path(made.source) / "bell") as bell:
            task = asyncio.create_task(self.run(script, binds=(made,)))
            await bell.rung()
            self.stop.set()
            return (await task)[0].code

    @asynccontextmanager
    async def running(self, **more: Any) -> AsyncGenerator[Engine]:
        """An engine whose container waits for its end."""
        engine, bind = self.make(self.settings), self.bind("/made")
        try:
            await engine.prepare(self.image)
            with Bell(Path(bind.source) / "bell") as bell:
                await engine.create(
                    ContainerSpec(
                        command=("sh", "-c", "echo > /made/bell; exec sleep 60"),
                        binds=(bind,),
                        **more,
                    )
                )
                task = asyncio.create_task(engine.run(stop=self.stop, stop_grace=0.1))
                await bell.rung()
            async with asyncio.timeout(PATIENCE):
                while engine.first is None:
                    await asyncio.sleep(0)
            yield engine
            self.stop.set()
            await asyncio.wait_for(task, PATIENCE)
        finally:
            await engine.remove()

    def bind(self, target: str, *, readonly: bool = False) -> Bind:
        """A bind of a fresh host directory."""
        source = self.directory / target.strip("/")
        source.mkdir(exist_ok=True)
        source.chmod(0o777)
        return Bind(str(source), target, readonly)


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def heard(execution: Execution) -> tuple[int, str, str]:
    """Exit, output and errors of an execution."""
    output = {1: b"", 2: b""}
    async with asyncio.timeout(PATIENCE):
        while (piece := await execution.read())[1]:
            output[piece[0]] += piece[1]
        code = await execution.wait()
    await execution.close()
    await execution.close()
    return code, output[1].decode(), output[2].decode()


async def until(execution: Execution, word: str) -> str:
    """Return its output up to a word."""
    output = b""
    async with asyncio.timeout(PATIENCE):
        while word.encode() not in output:
            _, data = await execution.read()
            assert data, output
            output += data
    return output.decode()


async def feed(execution: Execution, data: bytes) -> None:
    """Write all of it, and the end."""
    for at in range(0, len(data), 10_000):
        await execution.write(data[at : at + 10_000])
    await execution.write(b"")


def command_lines() -> list[bytes]:
    """The command lines of all processes of this machine, as every user can list them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        # A process that has just ended.
        with contextlib.suppress(OSError):
            found.append(path.read_bytes())
    return found


def open_files(directory: Path) -> list[tuple[Path, bytes]]:
    """The files below a directory that other users can read by their modes, with their contents."""
    files = []
    for root, folders, names in os.walk(directory):
        here = Path(root)
        folders[:] = [name for name in folders if (here / name).lstat().st_mode & 0o001]
        for path in map(here.joinpath, names):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_mode & 0o004:
                files.append((path, path.read_bytes()))
    return files


class EngineSuite:
    """The promises of every engine."""

    async def test_it_says_what_it_is(self, kit: Kit) -> None:
        engine = kit.make(kit.settings)
        assert await engine.check()
        await engine.remove()

    @pytest.mark.parametrize("code", [0, 3, 255])
    async def test_the_exit_code_is_that_of_the_command(self, kit: Kit, code: int) -> None:
        assert (await kit.run(f"exit {code}"))[0] == Exit(code=code)

    async def test_streams_are_kept_apart(self, kit: Kit) -> None:
        _, out, err = await kit.run("echo one; echo two >&2")
        assert (out, err) == ("one\n", "two\n")

    async def test_a_large_output_arrives_whole(self, kit: Kit) -> None:
        _, out, _ = await kit.run(
            "i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done"
        )
        assert len(out) == 220_000

    async def test_its_output_has_ended_when_the_command_has(self, kit: Kit) -> None:
        engine = kit.make(kit.settings)
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(writing, True)
        try:
            await engine.prepare(kit.image)
            try:
                await engine.create(
                    ContainerSpec(
                        command=("sh", "-c", "echo a; echo b >&2"), stdout=writing, stderr=writing
                    )
                )
            finally:
                os.close(writing)
            await asyncio.wait_for(engine.run(stop=kit.stop, stop_grace=kit.grace), PATIENCE)
            await engine.kill()
            # A reader that hears no end waits for seconds; one that must not wait gets
            # BlockingIOError.
            said = b""
            while piece := os.read(reading, 64):
                said += piece
            assert sorted(said.split()) == [b"a", b"b"]
        finally:
            await engine.remove()
            os.close(reading)

    async def test_standard_input_is_what_was_given(self, kit: Kit) -> None:
        given = kit.directory / "in.txt"
        given.write_bytes(b"line\n" * 50_000)
        with given.open("rb") as stdin:
            _, out, _ = await kit.run("cat", stdin=stdin.fileno())
        assert out == given.read_text()

    async def test_standard_input_is_empty_otherwise(self, kit: Kit) -> None:
        assert (await kit.run("cat"))[:2] == (Exit(code=0), "")

    async def test_the_environment_of_the_record(self, kit: Kit) -> None:
        _, out, _ = await kit.run("echo $NAME", environment=(("NAME", "a value"),))
        assert out == "a value\n"

    async def test_files_written_to_a_bind_are_on_the_host(self, kit: Kit) -> None:
        await kit.run("echo data > /made/file", binds=(kit.bind("/made"),))
        assert (kit.directory / "made" / "file").read_text() == "data\n"

    async def test_the_working_directory_of_the_record(self, kit: Kit) -> None:
        await kit.run("echo here > file", binds=(kit.bind("/made"),), cwd="/made")
        assert (kit.directory / "made" / "file").read_text() == "here\n"

    async def test_a_program_that_is_not_there_is_the_users_fault(self, kit: Kit) -> None:
        with pytest.raises(ExecutionError, match="cannot be started") as caught:
            await kit.run_command(("no-such-program",))
        assert caught.value.failure is Failure.USER

    async def test_nothing_runs_before_it_is_told_to(self, kit: Kit) -> None:
        engine = kit.make(kit.settings)
        await engine.prepare(kit.image)
        await engine.create(
            ContainerSpec(command=("sh", "-c", "echo x > /made/file"), binds=(kit.bind("/made"),))
        )
        await engine.remove()
        assert not (kit.directory / "made" / "file").exists()

    async def test_a_command_that_heeds_term_ends_by_itself(self, kit: Kit) -> None:
        assert (
            await kit.run_and_stop(
                "trap 'exit 9' TERM; echo > /made/bell; while :; do sleep 0.01; done"
            )
            == 9
        )

    async def test_a_command_that_does_not_is_killed(self, kit: Kit) -> None:
        kit.grace = 0.1
        assert (
            await kit.run_and_stop("trap '' TERM; echo > /made/bell; while :; do sleep 0.01; done")
            == 137
        )

    async def test_a_command_beside_the_containers_own(self, kit: Kit) -> None:
        async with kit.running(environment=(("NAME", "value"),)) as engine:
            script = "read line; echo $line $NAME $MORE; echo error >&2; exit 7"
            order = Exec(command=("sh", "-c", script), environment=(("MORE", "added"),))
            execution = await engine.execute(order)
            await execution.write(b"typed\n")
            assert await heard(execution) == (7, "typed value added\n", "error\n")

    async def test_values_of_variables_are_on_no_command_line_and_in_no_file_of_others(
        self, kit: Kit
    ) -> None:
        """A secret is passed to the command as a variable."""
        value = f"secret-{os.urandom(8).hex()}"
        async with kit.running(environment=(("PASSWORD", value),)) as engine:
            beside = await heard(await engine.execute(Exec(command=("env",))))
            assert f"PASSWORD={value}" in beside[1].splitlines()
            lines = await asyncio.to_thread(command_lines)
            assert not [line for line in lines if value.encode() in line]
            held = await asyncio.to_thread(open_files, Path(kit.settings.run_directory))
            assert not [path for path, content in held if value.encode() in content]

    async def test_the_end_of_its_input_reaches_it(self, kit: Kit) -> None:
        data = b"0123456789abcdef" * 20_000
        async with kit.running() as engine:
            execution = await engine.execute(Exec(command=("cat",)))
            feeding = asyncio.create_task(feed(execution, data))
            assert await heard(execution) == (0, data.decode(), "")
            await feeding

    async def test_it_sees_nothing_of_the_supervisors_environment(
        self, kit: Kit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ARVADOS_API_TOKEN", "of-the-supervisor")
        async with kit.running() as engine:
            code, out, _ = await heard(await engine.execute(Exec(command=("env",))))
        assert code == 0
        assert "of-the-supervisor" not in out
        assert "PATH=" in out

    async def test_a_terminal_has_a_size_and_is_interrupted(self, kit: Kit) -> None:
        script = (
            "trap 'echo interrupted; exit 3' INT; [ -t 0 ] && [ -t 1 ] && echo ready; "
            "while :; do sleep 0.1; done"
        )
        async with kit.running() as engine:
            execution = await engine.execute(
                Exec(command=("sh", "-c", script), terminal=Size(101, 33))
            )
            await until(execution, "ready")
            await execution.resize(Size(90, 20))
            await execution.write(b"\x03")
            code, out, _ = await heard(execution)
        assert code == 3
        assert "interrupted" in out

    async def test_what_is_closed_ends(self, kit: Kit) -> None:
        async with kit.running() as engine:
            execution = await engine.execute(Exec(command=("sleep", "50")))
            await execution.close()
            assert await asyncio.wait_for(execution.wait(), PATIENCE) != 0

    async def test_a_command_that_is_not_there_fails(self, kit: Kit) -> None:
        async with kit.running() as engine:
            try:
                code, out, err = await heard(
                    await engine.execute(Exec(command=("no-such-program",)))
                )
            except ExecutionError as error:
                code, out, err = 1, "", error.message
        assert code != 0
        assert any(word in out + err for word in ("not found", "No such file")), (out, err)

    async def test_a_container_whose_command_has_failed_can_be_kept(self, kit: Kit) -> None:
        open_before = _open_files()
        engine, bind = kit.make(kit.settings), kit.bind("/made")
        try:
            await engine.prepare(kit.image)
            script = "echo left > /made/file; exit 5"
            await engine.create(
                ContainerSpec(
                    command=("sh", "-c", script), binds=(bind,), environment=(("NAME", "value"),)
                )
            )
            ended = await asyncio.wait_for(engine.run(stop=kit.stop, stop_grace=0.1), PATIENCE)
            assert ended.code == 5
            await engine.hold()
            assert engine.first is not None
            order = Exec(command=("sh", "-c", "cat /made/file; echo $NAME"))
            assert await heard(await engine.execute(order)) == (0, "left\nvalue\n", "")
        finally:
            await engine.remove()
        assert _open_files() == open_before

    async def test_a_command_is_aborted_without_grace(self, kit: Kit) -> None:
        engine, bind = kit.make(kit.settings), kit.bind("/made")
        await engine.abort()
        try:
            await engine.prepare(kit.image)
            with Bell(Path(bind.source) / "bell") as bell:
                script = "trap '' TERM; echo > /made/bell; while :; do sleep 0.1; done"
                await engine.create(ContainerSpec(command=("sh", "-c", script), binds=(bind,)))
                running = asyncio.create_task(engine.run(stop=kit.stop, stop_grace=100.0))
                await bell.rung()
            async with asyncio.timeout(PATIENCE):
                while engine.first is None:
                    await asyncio.sleep(0)
                kit.stop.set()
                await engine.abort()
                assert (await running).code != 0
                await engine.abort()
        finally:
            await engine.remove()

    async def test_nothing_runs_any_more_once_what_is_left_was_killed(self, kit: Kit) -> None:
        engine = kit.make(kit.settings)
        try:
            await engine.prepare(kit.image)
            await engine.create(ContainerSpec(command=("sh", "-c", "exit 5")))
            await asyncio.wait_for(engine.run(stop=kit.stop, stop_grace=0.1), PATIENCE)
            await engine.hold()
            first = engine.first
            assert first is not None
            session = await engine.execute(
                Exec(command=("sh", "-c", "trap '' HUP TERM; echo up; exec sleep 600"))
            )
            await until(session, "up")
            await engine.kill()
            assert not linux.is_running(first)
            assert (await heard(session))[0] != 0
            await engine.kill()
        finally:
            await engine.remove()

    async def test_the_first_process_is_known_while_it_runs(self, kit: Kit) -> None:
        engine = kit.make(kit.settings)
        assert engine.first is None
        async with kit.running() as engine:
            assert engine.first is not None
            assert Path(f"/proc/{engine.first}/ns/net").exists()

    async def test_removing_twice_and_nothing_is_no_error(self, kit: Kit) -> None:
        engine = kit.make(kit.settings)
        await engine.remove()
        await engine.remove()
