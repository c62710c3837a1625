"""What every container engine keeps to. A module that runs it gives the fixture `kit`."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import tarfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor import linux
from lading.supervisor.engines import (
    Bind,
    Device,
    Engine,
    EngineSettings,
    Exec,
    Execution,
    Exit,
    Reach,
    Size,
    Spec,
)
from lading.supervisor.limits.cgroup import find_hierarchy
from lading.supervisor.limits.counters import Folders, find_folders
from lading.supervisor.machine import mount_table
from lading.testing.devices import make_devices
from lading.testing.images import ArchiveImage, make_archive, make_layer, tiny_image
from tests.bell import Bell
from tests.reality import need_program

CONTAINER = "zzzzz-dz642-engine000000000"
PATIENCE = 180.0


@dataclass
class Kit:
    """One engine under test."""

    make: Callable[[EngineSettings], Engine]
    directory: Path
    image: ArchiveImage = field(default_factory=lambda: ArchiveImage(*tiny_image()))
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    grace: float = 5.0

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
        """How a shell script ends, and what it wrote."""
        return await self.run_command(("sh", "-c", script), **more)

    async def run_command(self, command: tuple[str, ...], **more: Any) -> tuple[Exit, str, str]:
        """How a command ends, and what it wrote."""
        engine = self.make(self.settings)
        out, err = self.directory / "out.txt", self.directory / "err.txt"
        try:
            await engine.prepare(self.image)
            with out.open("wb") as stdout, err.open("wb") as stderr:
                await engine.create(
                    Spec(command=command, stdout=stdout.fileno(), stderr=stderr.fileno(), **more)
                )
            ended = await asyncio.wait_for(
                engine.run(stop=self.stop, stop_grace=self.grace), PATIENCE
            )
        finally:
            await engine.remove()
        return ended, out.read_text(), err.read_text()

    async def run_and_stop(self, script: str) -> int:
        """The exit code of a script that is told to stop once it has rung `/made/bell`."""
        made = self.bind("/made")
        with Bell(Path(made.source) / "bell") as bell:
            task = asyncio.create_task(self.run(script, binds=(made,)))
            await bell.rung()
            self.stop.set()
            return (await task)[0].code

    @asynccontextmanager
    async def running(self, **more: Any) -> AsyncGenerator[Engine]:
        """An engine whose container waits for its end."""
        engine, made = self.make(self.settings), self.bind("/made")
        try:
            await engine.prepare(self.image)
            with Bell(Path(made.source) / "bell") as bell:
                await engine.create(
                    Spec(
                        command=("sh", "-c", "echo > /made/bell; exec sleep 60"),
                        binds=(made,),
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


async def heard(execution: Execution) -> tuple[int, str, str]:
    """How it ends, and what it writes to output and error."""
    said = {1: b"", 2: b""}
    async with asyncio.timeout(PATIENCE):
        while (piece := await execution.read())[1]:
            said[piece[0]] += piece[1]
        code = await execution.wait()
    await execution.close()
    await execution.close()
    return code, said[1].decode(), said[2].decode()


async def until(execution: Execution, word: str) -> str:
    """What it writes, up to a word."""
    said = b""
    async with asyncio.timeout(PATIENCE):
        while word.encode() not in said:
            _, data = await execution.read()
            assert data, said
            said += data
    return said.decode()


async def feed(execution: Execution, data: bytes) -> None:
    """Write all of it, and the end."""
    for at in range(0, len(data), 10_000):
        await execution.write(data[at : at + 10_000])
    await execution.write(b"")


class EngineSuite:
    """The promises."""

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
                    Spec(command=("sh", "-c", "echo a; echo b >&2"), stdout=writing, stderr=writing)
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
            Spec(command=("sh", "-c", "echo x > /made/file"), binds=(kit.bind("/made"),))
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
        engine, made = kit.make(kit.settings), kit.bind("/made")
        try:
            await engine.prepare(kit.image)
            script = "echo left > /made/file; exit 5"
            await engine.create(
                Spec(command=("sh", "-c", script), binds=(made,), environment=(("NAME", "value"),))
            )
            ended = await asyncio.wait_for(engine.run(stop=kit.stop, stop_grace=0.1), PATIENCE)
            assert ended.code == 5
            await engine.hold()
            assert engine.first is not None
            order = Exec(command=("sh", "-c", "cat /made/file; echo $NAME"))
            assert await heard(await engine.execute(order)) == (0, "left\nvalue\n", "")
        finally:
            await engine.remove()

    async def test_a_command_is_aborted_without_grace(self, kit: Kit) -> None:
        engine, made = kit.make(kit.settings), kit.bind("/made")
        await engine.abort()
        try:
            await engine.prepare(kit.image)
            with Bell(Path(made.source) / "bell") as bell:
                script = "trap '' TERM; echo > /made/bell; while :; do sleep 0.1; done"
                await engine.create(Spec(command=("sh", "-c", script), binds=(made,)))
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
            await engine.create(Spec(command=("sh", "-c", "exit 5")))
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


def layered_image() -> tuple[str, bytes]:
    """Two layers: a removed file, a directory made anew, a file replaced."""
    _, archive = tiny_image()
    low = {
        "d": None,
        "d/gone": b"x",
        "d/kept": b"x",
        "e": None,
        "e/old": b"x",
        "f": None,
        "f/same": b"lower\n",
    }
    high = {
        "d": None,
        "d/.wh.gone": b"",
        "e": None,
        "e/.wh..wh..opq": b"",
        "e/new": b"x",
        "f": None,
        "f/same": b"upper\n",
    }
    return make_archive([first_layer(archive), make_layer(low), make_layer(high)])


def first_layer(archive: bytes) -> bytes:
    """The lowest layer of an archive that `tiny_image` made."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        member = tar.extractfile("0/layer.tar")
        assert member is not None
        return member.read()


def command_lines() -> list[bytes]:
    """Of all processes of this machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes())
    return found


def read_limits(folders: Folders) -> dict[str, int]:
    """Bytes of RAM, microseconds of CPU in a tenth of a second, processes."""
    first = folders.version == 1
    files = {
        "ram": ("memory", "memory.limit_in_bytes" if first else "memory.max"),
        "cpu": ("cpu", "cpu.cfs_quota_us" if first else "cpu.max"),
        "pids": ("pids", "pids.max"),
    }
    texts = {
        name: (folders.paths[controller] / file).read_text()
        for name, (controller, file) in files.items()
    }
    return {name: int(text.split()[0]) for name, text in texts.items()}


class IsolatingEngineSuite(EngineSuite):
    """What engines promise besides that really keep the command in a container."""

    @pytest.mark.parametrize(
        ("cwd", "directory"),
        [("", "/usr/share"), (".", "/usr/share"), ("deep", "/usr/share/deep"), ("/tmp", "/tmp")],
    )
    async def test_what_the_record_leaves_out_is_the_image_s(
        self, kit: Kit, cwd: str, directory: str
    ) -> None:
        settings = {
            "Entrypoint": ["sh", "-c"],
            "Cmd": ["pwd; echo $FROM $BOTH"],
            "Env": ["PATH=/bin", "FROM=image", "BOTH=image"],
            "WorkingDir": "/usr/share",
        }
        kit.image = ArchiveImage(*tiny_image(settings=settings))
        more = {"environment": (("BOTH", "record"),), "cwd": cwd}
        assert (await kit.run_command((), **more))[:2] == (
            Exit(code=0),
            f"{directory}\nimage record\n",
        )
        assert (await kit.run_command(("echo hers",), **more))[1] == "hers\n"

    async def test_a_command_that_neither_names_is_refused(self, kit: Kit) -> None:
        with pytest.raises(
            ExecutionError, match="neither CMD nor ENTRYPOINT; name a command"
        ) as caught:
            await kit.run_command(())
        assert caught.value.failure is Failure.USER

    async def test_a_file_system_in_memory(self, kit: Kit) -> None:
        if kit.make(kit.settings).sees_private_mounts:
            pytest.skip("the caller makes them for this engine")
        memory = replace(kit.bind("/fast"), memory=1 << 20)
        ended, out, _ = await kit.run(
            "echo x > /fast/file; cat /fast/file /proc/mounts", binds=(memory,)
        )
        assert out.startswith("x\n")
        assert [line.split()[2] for line in out.splitlines() if " /fast " in line] == ["tmpfs"]
        assert (ended.code, list((kit.directory / "fast").iterdir())) == (0, [])

    async def test_another_object_removes_what_was_left(self, kit: Kit) -> None:
        engine = kit.make(kit.settings)
        await engine.prepare(kit.image)
        made = kit.bind("/made")
        await engine.create(
            Spec(command=("sh", "-c", "echo > /made/bell; sleep 1000"), binds=(made,))
        )
        with Bell(Path(made.source) / "bell") as bell:
            task = asyncio.create_task(engine.run(stop=kit.stop, stop_grace=kit.grace))
            await bell.rung()
        other = kit.make(kit.settings)
        await other.remove()
        await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), PATIENCE)
        await engine.remove()

    async def test_a_read_only_bind_cannot_be_written(self, kit: Kit) -> None:
        ended, _, _ = await kit.run(
            "echo x > /kept/file", binds=(kit.bind("/kept", readonly=True),)
        )
        assert ended.code != 0
        assert list((kit.directory / "kept").iterdir()) == []

    async def test_nested_binds_and_files(self, kit: Kit) -> None:
        outer, inner = kit.bind("/outer"), kit.bind("/inner", readonly=True)
        (kit.directory / "inner" / "file").write_text("deep\n")
        nested = (
            outer,
            replace(inner, target="/outer/in"),
            Bind(f"{inner.source}/file", "/etc/some/file", True),
        )
        _, out, _ = await kit.run("cat /outer/in/file /etc/some/file", binds=nested)
        assert out == "deep\ndeep\n"

    async def test_no_network_but_loopback(self, kit: Kit) -> None:
        _, out, _ = await kit.run("cat /proc/net/dev")
        assert [line.split(":")[0].strip() for line in out.splitlines()[2:]] == ["lo"]

    async def test_the_internet_by_an_interface_of_its_own_when_asked_for(self, kit: Kit) -> None:
        need_program("slirp4netns")
        need_program("nft")
        _, out, _ = await kit.run("cat /proc/net/dev /etc/resolv.conf", network=True)
        assert [line.split(":")[0].strip() for line in out.splitlines()[2:4]] == ["lo", "eth0"]
        assert "nameserver 127.0.0.53" in out

    async def test_the_api_alone_needs_no_interface(self, kit: Kit) -> None:
        reach = Reach(api=("api.example:443",))
        _, out, _ = await kit.run("cat /proc/net/dev /etc/hosts", network=True, reach=reach)
        assert [line.split(":")[0].strip() for line in out.splitlines()[2:3]] == ["lo"]
        assert "127.0.100.1\tapi.example" in out

    async def test_a_network_is_there_again_in_a_container_that_is_kept(self, kit: Kit) -> None:
        engine = kit.make(kit.settings)
        try:
            await engine.prepare(kit.image)
            await engine.create(
                Spec(command=("sh", "-c", "exit 5"), network=True, reach=Reach(api=("a:1",)))
            )
            await asyncio.wait_for(engine.run(stop=kit.stop, stop_grace=0.1), PATIENCE)
            await engine.hold()
            order = Exec(command=("cat", "/proc/net/tcp"))
            _, out, _ = await heard(await engine.execute(order))
            assert "0164007F:0001" in out
        finally:
            await engine.remove()

    async def test_few_capabilities_and_no_new_privileges(self, kit: Kit) -> None:
        _, out, _ = await kit.run("cat /proc/self/status")
        status = dict(line.split(":\t", 1) for line in out.splitlines() if ":\t" in line)
        assert status["NoNewPrivs"] == "1"
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0x404FB
        assert status["Seccomp"] == "2"

    async def test_the_image_is_not_changed(self, kit: Kit) -> None:
        await kit.run("echo x > /etc/passwd; echo y > /new")
        _, out, _ = await kit.run("cat /etc/passwd; ls /")
        assert "nobody" in out
        assert "new" not in out

    async def test_using_up_the_ram_is_told(self, kit: Kit) -> None:
        ended, _, _ = await kit.run(
            "exec dd if=/dev/zero of=/dev/null bs=200M count=1", ram=32 << 20, vcpus=1
        )
        assert ended == Exit(code=137, out_of_memory=True)

    async def test_the_user_and_directory_of_the_image(self, kit: Kit) -> None:
        kit.image = ArchiveImage(
            *tiny_image(settings={"User": "nobody", "WorkingDir": "/tmp", "Env": ["A=b"]})
        )
        _, out, _ = await kit.run("echo $A; pwd; echo x > file && cat file; cat /proc/self/status")
        assert out.startswith("b\n/tmp\nx\n")
        assert "Uid:\t65534\t65534" in out

    async def test_the_entry_point_stands_before_the_command(self, kit: Kit) -> None:
        kit.image = ArchiveImage(*tiny_image(settings={"Entrypoint": ["sh", "-c"]}))
        assert (await kit.run_command(("echo $0", "x")))[1] == "x\n"

    async def test_a_hundred_megabytes_of_output_arrive_whole(self, kit: Kit) -> None:
        ended, out, err = await kit.run("dd if=/dev/zero bs=1M count=100; echo end >&2; exit 4")
        assert (ended, len(out), err.splitlines()[-1]) == (Exit(code=4), 100 << 20, "end")

    async def test_what_lingers_ends_with_the_command(self, kit: Kit) -> None:
        ended, out, _ = await kit.run(
            "sleep 987.654 & (sleep 987.654; echo late) & echo done; exit 5"
        )
        assert (ended, out) == (Exit(code=5), "done\n")
        assert [one for one in command_lines() if b"987.654" in one] == []

    @pytest.mark.parametrize(("signal", "code"), [("KILL", 137), ("TERM", 143), ("SEGV", 139)])
    async def test_the_end_by_a_signal_is_told_as_a_shell_does(
        self, kit: Kit, signal: str, code: int
    ) -> None:
        ended, _, _ = await kit.run(f"sh -c 'kill -{signal} $$'; exit $?")
        assert ended == Exit(code=code)

    async def test_the_limits_are_those_of_the_record(self, kit: Kit) -> None:
        engine, hierarchy = kit.make(kit.settings), find_hierarchy(mount_table())
        made = kit.bind("/made")
        await engine.prepare(kit.image)
        command = (
            "sh",
            "-c",
            "trap 'exit 0' TERM; echo > /made/bell; while :; do sleep 0.01; done",
        )
        with Bell(Path(made.source) / "bell") as bell:
            await engine.create(
                Spec(command=command, binds=(made,), ram=64 << 20, vcpus=2, processes=99)
            )
            running = asyncio.create_task(engine.run(stop=kit.stop, stop_grace=kit.grace))
            await bell.rung()
            while engine.pid is None:
                await asyncio.sleep(0)
            folders = find_folders(engine.pid, hierarchy)
            assert folders is not None
            found = read_limits(folders)
            kit.stop.set()
            await asyncio.wait_for(running, PATIENCE)
        await engine.remove()
        assert found == {"ram": 64 << 20, "cpu": 200_000, "pids": 99}

    async def test_devices_are_there_for_who_was_given_them(self, kit: Kit) -> None:
        tree = make_devices(kit.directory / "tree", rocm=2)
        devices = tuple(
            Device(f"{tree}/dev/{name}", f"/dev/{name}") for name in ("kfd", "dri/renderD129")
        )
        _, out, _ = await kit.run(
            "ls /dev/dri; echo x > /dev/kfd && cat /dev/dri/renderD129 && echo used",
            devices=devices,
        )
        assert out.split() == ["renderD129", "used"]

    async def test_upper_layers_hide_lower_ones(self, kit: Kit) -> None:
        kit.image = ArchiveImage(*layered_image())
        _, out, _ = await kit.run("ls -A /d /e /f; cat /f/same")
        assert out.split() == ["/d:", "kept", "/e:", "new", "/f:", "same", "upper"]
