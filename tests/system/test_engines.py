"""The real engines keep to what every engine promises, and give equal results."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from lading.client.mount.__main__ import enter_namespace
from lading.core.errors import ExecutionError
from lading.supervisor import linux
from lading.supervisor.engines import ContainerSpec, Engine, EngineSettings
from lading.supervisor.engines.docker import DockerEngine
from lading.supervisor.engines.id_mappings import fault_of
from lading.supervisor.engines.native import NativeEngine
from lading.supervisor.engines.native_crun import CrunEngine
from lading.supervisor.engines.podman import make_engine
from lading.supervisor.engines.user_namespace import UserNamespace
from lading.supervisor.starter import starter
from lading.testing.conformance.engines import CONTAINER, PATIENCE, EngineSuite, Kit
from lading.testing.conformance.first_process import FirstProcessSuite
from lading.testing.conformance.isolation import IsolatingEngineSuite
from lading.testing.conformance.walls import WALLS
from lading.testing.pulse import Bell
from tests.reality import need, need_program, need_root
from tests.system.docker_daemon import DockerDaemon
from tests.system.podman_service import PodmanService, running_podman_service
from tests.time_limits import untimed

pytestmark = pytest.mark.system


@pytest.fixture(scope="class")
def own_mounts() -> Iterator[None]:
    """The native engine mounts only where nobody else sees it; the tests after these are where they
    were before.
    """
    need_root()
    need_program("crun")
    before = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    directory = Path.cwd()
    linux.leave_mount_namespace()
    yield
    # The limit of a case has a thread, and the kernel lets only a process of one thread enter. A
    # thread is there for a moment more after its end was noticed.
    with untimed():
        for _ in range(100):
            if len(os.listdir("/proc/self/task")) == 1:  # noqa: PTH208
                break
            time.sleep(0.01)
        enter_namespace(before)
    os.chdir(directory)


@pytest.fixture
def clean_directory(tmp_path: Path) -> Iterator[Path]:
    """A directory in which no mount may be left."""
    yield tmp_path
    assert linux.mounts_below(str(tmp_path)) == []


class TestNative(FirstProcessSuite, IsolatingEngineSuite):
    """The suite on lading-start."""

    @pytest.fixture
    def kit(self, own_mounts: None, clean_directory: Path) -> Kit:
        need(starter.is_available(), "lading-start")
        return Kit(NativeEngine, clean_directory, need_program=need_program, walls=WALLS["native"])

    async def test_a_gang_is_not_kept(self, kit: Kit) -> None:
        engine, made = kit.make(kit.settings), kit.bind("/made")
        try:
            await engine.prepare(kit.image)
            spec = ContainerSpec(command=("true",), binds=(made,), nodes=2, output_path="/made")
            await engine.create(spec)
            with pytest.raises(ExecutionError, match="cannot be kept"):
                await engine.hold()
        finally:
            await engine.remove()

    async def test_the_first_process_shows_only_its_name(self, kit: Kit) -> None:
        _, out, _ = await kit.run("cat /proc/1/cmdline")
        assert out.replace("\0", "") == "lading-start"

    async def test_a_starter_that_is_killed_takes_its_container_along(self, kit: Kit) -> None:
        async with kit.running() as engine:
            first = engine.first
            assert first is not None
            os.kill(engine.pid or 0, signal.SIGKILL)
            await asyncio.wait_for(linux.ended(first), PATIENCE)

    async def test_the_code_of_a_command_outlives_who_waits(self, kit: Kit) -> None:
        engine = kit.make(kit.settings)
        try:
            await engine.prepare(kit.image)
            await engine.create(ContainerSpec(command=("sh", "-c", "exit 7")))
            await asyncio.wait_for(engine.run(stop=kit.stop, stop_grace=kit.grace), PATIENCE)
            status = Path(kit.settings.run_directory) / "container.jsonl"
            assert status.read_text().splitlines()[-1] == '{"code":7}'
        finally:
            await engine.remove()
        assert not status.exists()

    async def test_a_starter_killed_at_its_start_is_lost(self, kit: Kit) -> None:
        engine = kit.make(kit.settings)
        try:
            await engine.prepare(kit.image)
            await engine.create(ContainerSpec(command=("true",)))
            os.kill(engine.pid or 0, signal.SIGKILL)
            ended = await asyncio.wait_for(
                engine.run(stop=kit.stop, stop_grace=kit.grace), PATIENCE
            )
            assert ended.lost == "the lading-start that ran the container was ended by signal 9"
        finally:
            await engine.remove()


class TestNativeOnCrun(FirstProcessSuite, IsolatingEngineSuite):
    """The suite on crun."""

    @pytest.fixture
    def kit(self, own_mounts: None, clean_directory: Path) -> Kit:
        need_program("crun")
        return Kit(
            CrunEngine, clean_directory, need_program=need_program, walls=WALLS["native-crun"]
        )

    async def test_it_is_stopped_before_crun_has_written_who_it_is(self, kit: Kit) -> None:
        made, script = (
            kit.bind("/made"),
            "trap 'exit 9' TERM; echo > /made/bell; while :; do sleep 0.01; done",
        )
        run = Path(kit.settings.run_directory)
        # With a user namespace crun's files are in memory.
        places = [
            place / "crun" / CONTAINER / "status" for place in (run, UserNamespace(run).directory)
        ]
        with Bell(Path(made.source) / "bell") as bell:
            task = asyncio.create_task(kit.run(script, binds=(made,)))
            await bell.rung()
            async with asyncio.timeout(PATIENCE):
                while not any(status.exists() for status in places):
                    await asyncio.sleep(0)
            for status in places:
                status.unlink(missing_ok=True)
            kit.stop.set()
            assert (await task)[0].code == 9

    async def test_a_crun_killed_at_its_start_is_lost(self, kit: Kit) -> None:
        engine = kit.make(kit.settings)
        try:
            await engine.prepare(kit.image)
            await engine.create(ContainerSpec(command=("true",)))
            os.kill(engine.pid or 0, signal.SIGKILL)
            ended = await asyncio.wait_for(
                engine.run(stop=kit.stop, stop_grace=kit.grace), PATIENCE
            )
            assert ended.lost == "the crun that ran the container was ended by signal 9"
        finally:
            await engine.remove()


@pytest.fixture(scope="class")
def read_only_groups(own_mounts: None) -> None:
    """Control groups that nobody can make, in the mount namespace of these cases."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split(" ")
        if kind.startswith("cgroup"):
            subprocess.run(["mount", "-o", "remount,bind,ro", point], check=True)


class UngroupedSuite(EngineSuite):
    """The suite of the native engine, where containers of root have no control group."""

    async def test_the_ram_is_sampled(self, kit: Kit) -> None:
        engine, out = kit.make(kit.settings), kit.directory / "out"
        command = ("sh", "-c", "dd if=/dev/zero of=/dev/null bs=200M count=1; echo went on")
        try:
            await engine.prepare(kit.image)
            with out.open("wb") as stdout:
                await engine.create(
                    ContainerSpec(
                        command=command, stdout=stdout.fileno(), stderr=stdout.fileno(),
                        ram=32 << 20, vcpus=1, processes=20,
                    )
                )  # fmt: skip
            ended = await asyncio.wait_for(
                engine.run(stop=kit.stop, stop_grace=kit.grace), PATIENCE
            )
        finally:
            await engine.remove()
        assert (ended.code, ended.out_of_memory, out.read_text()) == (137, True, "")
        assert ended.sampled_memory > 32 << 20
        (note,) = [note for note in engine.notes if note.startswith("limits of the container")]
        assert "ram of 32.0 MiB by samples and kill" in note
        assert "1 vcpus not at all" in note

    async def test_processes_are_limited_with_user_ids_of_its_own(self, kit: Kit) -> None:
        need(not fault_of(kit.directory), "user ids of its own")
        script = "i=0; while [ $i -lt 40 ]; do sleep 0.2 & i=$((i+1)); done; echo all"
        assert (await kit.run(script, processes=20))[1] == ""
        assert (await kit.run(script, processes=60))[1] == "all\n"


class TestNativeWithoutControlGroups(UngroupedSuite):
    """The suite on lading-start, where containers have no control group."""

    @pytest.fixture
    def kit(self, read_only_groups: None, clean_directory: Path) -> Kit:
        need(starter.is_available(), "lading-start")
        return Kit(NativeEngine, clean_directory, need_program=need_program)


class TestNativeOnCrunWithoutControlGroups(UngroupedSuite):
    """The suite on crun, where containers have no control group."""

    @pytest.fixture
    def kit(self, read_only_groups: None, clean_directory: Path) -> Kit:
        need_program("crun")
        return Kit(CrunEngine, clean_directory, need_program=need_program)


class TestDocker(FirstProcessSuite, IsolatingEngineSuite):
    """The suite on the Docker daemon."""

    @pytest.fixture
    def kit(self, docker_daemon: DockerDaemon, clean_directory: Path) -> Kit:
        def make(settings: EngineSettings) -> Engine:
            return DockerEngine(structs.replace(settings, docker_socket=str(docker_daemon.socket)))

        return Kit(make, clean_directory, need_program=need_program, walls=WALLS["docker"])


class TestPodman(FirstProcessSuite, IsolatingEngineSuite):
    """The suite on podman's service."""

    @pytest.fixture
    def kit(self, podman_service: PodmanService, clean_directory: Path) -> Kit:
        def make(settings: EngineSettings) -> Engine:
            return make_engine(structs.replace(settings, podman_socket=str(podman_service.socket)))

        return Kit(make, clean_directory, need_program=need_program, walls=WALLS["podman"])


async def test_podman_on_crun_without_a_limit_of_processes(clean_directory: Path) -> None:
    need_root()
    for program in ("podman", "crun"):
        need_program(program)
    with running_podman_service("crun") as service:

        def make(settings: EngineSettings) -> Engine:
            return make_engine(structs.replace(settings, podman_socket=str(service.socket)))

        done, out, _ = await Kit(make, clean_directory).run("echo ran", processes=0)
    assert (done.code, out) == (0, "ran\n")


async def test_native_on_a_data_directory_that_is_on_an_overlay(
    own_mounts: None, clean_directory: Path
) -> None:
    for name in ("lower", "upper", "work", "data"):
        (clean_directory / name).mkdir()
    lower, upper, work, data = (
        str(clean_directory / name) for name in ("lower", "upper", "work", "data")
    )
    linux.mount_overlay(data, lower=[lower], upper=upper, work=work)
    try:
        kit = Kit(NativeEngine, clean_directory / "data")
        done, out, _ = await kit.run("echo kept > /file; cat /file")
        assert (done.code, out) == (0, "kept\n")
    finally:
        linux.unmount(data)
