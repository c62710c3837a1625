"""What every container engine keeps to. A module that runs it gives the fixture `kit`."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import Bind, Engine, EngineSettings, Exit, Spec
from lading.testing.images import ArchiveImage, make_archive, make_layer, tiny_image
from tests.bell import Bell

CONTAINER = "zzzzz-dz642-engine000000000"
PATIENCE = 30.0


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
            container_uuid=CONTAINER, run_directory=str(run), cache_directory=str(self.directory / "cache")
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
                await engine.create(Spec(command=command, stdout=stdout.fileno(), stderr=stderr.fileno(), **more))
            ended = await asyncio.wait_for(engine.run(stop=self.stop, stop_grace=self.grace), PATIENCE)
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

    def bind(self, target: str, *, readonly: bool = False) -> Bind:
        """A bind of a fresh host directory."""
        source = self.directory / target.strip("/")
        source.mkdir(exist_ok=True)
        source.chmod(0o777)
        return Bind(str(source), target, readonly)


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
        _, out, _ = await kit.run("i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done")
        assert len(out) == 220_000

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
        await engine.create(Spec(command=("sh", "-c", "echo x > /made/file"), binds=(kit.bind("/made"),)))
        await engine.remove()
        assert not (kit.directory / "made" / "file").exists()

    async def test_a_command_that_heeds_term_ends_by_itself(self, kit: Kit) -> None:
        assert await kit.run_and_stop("trap 'exit 9' TERM; echo > /made/bell; while :; do sleep 0.01; done") == 9

    async def test_a_command_that_does_not_is_killed(self, kit: Kit) -> None:
        kit.grace = 0.1
        assert await kit.run_and_stop("trap '' TERM; echo > /made/bell; while :; do sleep 0.01; done") == 137

    async def test_removing_twice_and_nothing_is_no_error(self, kit: Kit) -> None:
        engine = kit.make(kit.settings)
        await engine.remove()
        await engine.remove()


def layered_image() -> tuple[str, bytes]:
    """Two layers: a removed file, a directory made anew, a file replaced."""
    _, archive = tiny_image()
    low = {"d": None, "d/gone": b"x", "d/kept": b"x", "e": None, "e/old": b"x", "f": None, "f/same": b"lower\n"}
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


class IsolatingEngineSuite(EngineSuite):
    """What engines promise besides that really keep the command in a container."""

    async def test_another_object_removes_what_was_left(self, kit: Kit) -> None:
        engine = kit.make(kit.settings)
        await engine.prepare(kit.image)
        made = kit.bind("/made")
        await engine.create(Spec(command=("sh", "-c", "echo > /made/bell; sleep 1000"), binds=(made,)))
        with Bell(Path(made.source) / "bell") as bell:
            task = asyncio.create_task(engine.run(stop=kit.stop, stop_grace=kit.grace))
            await bell.rung()
        other = kit.make(kit.settings)
        await other.remove()
        await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), PATIENCE)
        await engine.remove()

    async def test_a_read_only_bind_cannot_be_written(self, kit: Kit) -> None:
        ended, _, _ = await kit.run("echo x > /kept/file", binds=(kit.bind("/kept", readonly=True),))
        assert ended.code != 0
        assert list((kit.directory / "kept").iterdir()) == []

    async def test_nested_binds_and_files(self, kit: Kit) -> None:
        outer, inner = kit.bind("/outer"), kit.bind("/inner", readonly=True)
        (kit.directory / "inner" / "file").write_text("deep\n")
        nested = (outer, replace(inner, target="/outer/in"), Bind(f"{inner.source}/file", "/etc/some/file", True))
        _, out, _ = await kit.run("cat /outer/in/file /etc/some/file", binds=nested)
        assert out == "deep\ndeep\n"

    async def test_no_network_but_loopback(self, kit: Kit) -> None:
        _, out, _ = await kit.run("cat /proc/net/dev")
        assert [line.split(":")[0].strip() for line in out.splitlines()[2:]] == ["lo"]

    async def test_the_network_of_the_host_when_asked_for(self, kit: Kit) -> None:
        _, out, _ = await kit.run("cat /proc/net/dev", network=True)
        assert len(out.splitlines()) == len(Path("/proc/net/dev").read_text().splitlines())

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
        ended, _, _ = await kit.run("exec dd if=/dev/zero of=/dev/null bs=200M count=1", ram=32 << 20, vcpus=1)
        assert ended == Exit(code=137, out_of_memory=True)

    async def test_the_user_and_directory_of_the_image(self, kit: Kit) -> None:
        kit.image = ArchiveImage(*tiny_image(settings={"User": "nobody", "WorkingDir": "/tmp", "Env": ["A=b"]}))
        _, out, _ = await kit.run("echo $A; pwd; echo x > file && cat file; cat /proc/self/status")
        assert out.startswith("b\n/tmp\nx\n")
        assert "Uid:\t65534\t65534" in out

    async def test_the_entry_point_stands_before_the_command(self, kit: Kit) -> None:
        kit.image = ArchiveImage(*tiny_image(settings={"Entrypoint": ["sh", "-c"]}))
        assert (await kit.run_command(("echo $0", "x")))[1] == "x\n"

    async def test_upper_layers_hide_lower_ones(self, kit: Kit) -> None:
        kit.image = ArchiveImage(*layered_image())
        _, out, _ = await kit.run("ls -A /d /e /f; cat /f/same")
        assert out.split() == ["/d:", "kept", "/e:", "new", "/f:", "same", "upper"]
