"""What code in a container asks of the kernel, on each engine: system calls, files of /proc,
processes.
"""

from __future__ import annotations

import os
import signal
import struct
from errno import EAFNOSUPPORT, EINVAL, ENOSYS, EPERM
from pathlib import Path

import pytest
from msgspec import structs

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import Bind, ContainerSpec, Engine, EngineSettings
from lading.supervisor.engines.bundle import MASKED
from lading.supervisor.engines.docker import DockerEngine
from lading.supervisor.engines.id_mappings import FIRST, fault_of, take_mapping
from lading.supervisor.engines.native import NativeEngine
from lading.supervisor.engines.native_crun import CrunEngine
from lading.supervisor.engines.podman import make_engine
from lading.supervisor.engines.seccomp import NEW_NAMESPACES
from lading.supervisor.engines.user_namespace import MACHINE
from lading.supervisor.starter import starter
from lading.testing.conformance.engines import Kit
from lading.testing.images import (
    ArchiveImage,
    first_layer,
    make_archive,
    make_layer,
    tiny_image,
)
from tests.reality import need
from tests.security.machine_code import make_program
from tests.system.docker_daemon import DockerDaemon
from tests.system.podman_service import PodmanService
from tests.system.test_engines import own_mounts

__all__ = ["own_mounts"]

SOCKET, CLONE, CHMOD, FCHMOD, FCHOWN, UNSHARE, CLONE3 = 41, 56, 90, 91, 93, 272, 435
"""Numbers of 64-bit calls."""
SOCKET_32, CLONE_32, UNSHARE_32, SOCKETCALL_32, KEYCTL_32 = 359, 120, 310, 102, 288
X32 = 1 << 30
_NEW_USER = NEW_NAMESPACES["CLONE_NEWUSER"]
_STREAM, _VSOCK, _ALG = 1, 40, 38
_REFUSED = {EPERM, ENOSYS, EAFNOSUPPORT}

on_x86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="machine code of x86-64")


async def codes_of(kit: Kit, programs: dict[str, bytes], **more: int) -> dict[str, int]:
    """The exit codes of programs that a container runs one after the other."""
    bind = kit.bind("/programs")
    for name, content in programs.items():
        path = Path(bind.source, name)
        path.write_bytes(content)
        path.chmod(0o755)
    script = "; ".join(f"/programs/{name}; echo {name} $?" for name in programs)
    _, out, _ = await kit.run(script, binds=(bind,), **more)
    return {name: int(code) for name, code in (line.split() for line in out.splitlines())}


def ids_of(process: int | None) -> tuple[int, int]:
    """User and group of a process on this machine."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    words = {line.split()[0]: line.split()[1] for line in lines if line[:4] in ("Uid:", "Gid:")}
    return int(words["Uid:"]), int(words["Gid:"])


class Attacks:
    """What is tried on each engine."""

    counts = True
    """Whether the engine always knows the kernel's counts. A daemon may remove the control group
    before they are read.
    """

    @on_x86_64
    @pytest.mark.attack("makes a namespace, of users above all, to get every capability in it")
    async def test_no_call_makes_a_namespace(self, kit: Kit) -> None:
        programs = {
            name: make_program(CLONE, flag | signal.SIGCHLD, 0, 0, 0, 0)
            for name, flag in NEW_NAMESPACES.items()
        }
        programs["unshare"] = make_program(UNSHARE, _NEW_USER)
        programs["clone3"] = make_program(
            CLONE3, struct.pack("<8Q", _NEW_USER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0), 64
        )
        programs["clone32"] = make_program(
            CLONE_32, _NEW_USER | signal.SIGCHLD, 0, 0, 0, 0, interrupt=True
        )
        programs["unshare32"] = make_program(UNSHARE_32, _NEW_USER, interrupt=True)
        programs["clonex32"] = make_program(X32 | CLONE, _NEW_USER | signal.SIGCHLD, 0, 0, 0, 0)
        codes = await codes_of(kit, programs)
        # 159: killed by the filter, SIGSYS.
        assert {
            name: code
            for name, code in codes.items()
            if code not in _REFUSED | {128 + signal.SIGSYS}
        } == {}
        assert codes["clone3"] == ENOSYS

    @on_x86_64
    @pytest.mark.attack(
        "opens a socket to the hypervisor, or of a family that loads rarely used kernel code"
    )
    async def test_sockets_are_of_ordinary_families(self, kit: Kit) -> None:
        programs = {
            "vsock": make_program(SOCKET, _VSOCK, _STREAM, 0),
            "upper": make_program(SOCKET, _VSOCK | 1 << 32, _STREAM, 0),
            "vsock32": make_program(SOCKET_32, _VSOCK, _STREAM, 0, interrupt=True),
            "call32": make_program(
                SOCKETCALL_32, 1, struct.pack("<3I", _VSOCK, _STREAM, 0), interrupt=True
            ),
            "alg": make_program(SOCKET, _ALG, 5, 0),
            "unix": make_program(SOCKET, 1, _STREAM, 0),
            "inet": make_program(SOCKET, 2, _STREAM, 0),
            "inet6": make_program(SOCKET, 10, _STREAM, 0),
            "netlink": make_program(SOCKET, 16, 3, 0),
            "unix32": make_program(SOCKET_32, 1, _STREAM, 0, interrupt=True),
        }
        codes = await codes_of(kit, programs)
        allowed = {name for name, code in codes.items() if code == 0}
        assert allowed >= {"unix", "inet", "inet6", "netlink", "unix32"}
        assert allowed.isdisjoint({"vsock", "upper", "vsock32", "call32"})
        assert {codes[one] for one in codes.keys() - allowed} <= {*_REFUSED, EINVAL}

    @on_x86_64
    @pytest.mark.attack("asks by the 32-bit entry of the kernel for what the 64-bit one refuses")
    async def test_the_32_bit_entry_refuses_the_same(self, kit: Kit) -> None:
        calls = {
            "keyctl": (KEYCTL_32, 0),
            "mount": (21, 0),
            "reboot": (88, 0),
            "bpf": (357, 0),
            "clone3": (435, 0),
        }
        codes = await codes_of(
            kit, {name: make_program(*call, interrupt=True) for name, call in calls.items()}
        )
        assert {name for name, code in codes.items() if code not in _REFUSED} == set()

    @pytest.mark.attack("reads where the kernel's memory lies and what it is doing")
    async def test_files_on_the_kernel_are_empty(self, kit: Kit) -> None:
        read = "dd if=$f bs=64 count=1; cat $f/* $f/*/*"
        script = f'for f in {" ".join(MASKED)}; do [ -n "$({read})" ] && echo $f; done; true'
        assert (await kit.run(f"{{ {script}; }} 2>/dev/null"))[1] == ""

    @pytest.mark.attack("makes processes without end, to leave the machine none")
    async def test_processes_have_an_end(self, kit: Kit) -> None:
        script = "i=0; while [ $i -lt 200 ]; do sleep 60 & i=$((i+1)); echo $i; done"
        ended, out, _ = await kit.run(script, processes=64)
        assert ended.code != 0
        assert 32 < len(out.splitlines()) < 64
        assert ended.refused_processes > 0 or not self.counts

    @on_x86_64
    @pytest.mark.attack(
        "writes to its input, a file of the cache that all containers share, or takes it over"
    )
    async def test_input_is_only_read(self, kit: Kit) -> None:
        given = kit.directory / "given"
        given.write_text("data")
        given.chmod(0o644)
        before = given.stat()
        programs = {"mode": make_program(FCHMOD, 0, 0o777), "owner": make_program(FCHOWN, 0, 5, 5)}
        with given.open("rb") as stdin:
            await codes_of(kit, programs, stdin=stdin.fileno())
        with given.open("rb") as stdin:
            await kit.run(
                "echo poisoned > /proc/self/fd/0; echo more >> /proc/self/fd/0",
                stdin=stdin.fileno(),
            )
        after = given.stat()
        assert given.read_text() == "data"
        assert (after.st_mode, after.st_uid, after.st_gid) == (
            before.st_mode,
            before.st_uid,
            before.st_gid,
        )

    @on_x86_64
    @pytest.mark.attack("takes /dev/null away from the machine")
    async def test_the_null_device_is_left_as_it_is(self, kit: Kit) -> None:
        before = Path("/dev/null").stat()
        programs = {
            "mode": make_program(FCHMOD, 0, 0),
            "owner": make_program(FCHOWN, 0, 5, 5),
            "path": make_program(CHMOD, b"/dev/null\0", 0),
        }
        await codes_of(kit, programs)
        after = Path("/dev/null").stat()
        assert (after.st_mode, after.st_uid, after.st_gid) == (
            before.st_mode,
            before.st_uid,
            before.st_gid,
        )


@pytest.mark.quick
class TestNative(Attacks):
    """Against lading-start."""

    engine: type[NativeEngine] = NativeEngine

    @pytest.fixture
    def kit(self, own_mounts: None, tmp_path: Path) -> Kit:
        need(starter.is_available() or not self.engine.has_starter, "lading-start")
        return Kit(self.engine, tmp_path)

    @pytest.mark.attack("is root in its container, and then reaches outside as that user")
    async def test_root_inside_is_nobody_outside(self, kit: Kit) -> None:
        need(fault_of(kit.directory) == "", "idmapped mounts")
        await kit.run("echo data > /made/file", binds=(kit.bind("/made"),))
        assert (kit.directory / "made" / "file").stat().st_uid == 0
        async with kit.running() as engine:
            user, group = ids_of(engine.first)
        assert user == group >= FIRST

    @pytest.mark.attack(
        "reads or changes what another container that runs at the same time left to its own root"
    )
    async def test_two_processes_have_two_ranges_of_ids(self, kit: Kit) -> None:
        need(fault_of(kit.directory) == "", "idmapped mounts")
        mine = take_mapping(MACHINE)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, str(take_mapping(MACHINE).first).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert int(os.read(reading, 100)) != mine.first
        mine.close()
        os.close(reading)
        os.close(writing)

    @pytest.mark.attack(
        "an image names a user or an owner beyond the usual ids, so as to run without a user "
        "namespace"
    )
    @pytest.mark.parametrize("user", ["2000000", "1000:3000000", "far"])
    async def test_large_ids_of_an_image_are_in_its_range(self, kit: Kit, user: str) -> None:
        need(fault_of(kit.directory) == "", "idmapped mounts")
        accounts = make_layer({"etc/passwd": b"far:x:1516583083:1516583083::/:\n"})
        layers = [first_layer(tiny_image()[1]), accounts]
        kit.image = ArchiveImage(*make_archive(layers, {"User": user}))
        async with kit.running() as engine:
            ids = ids_of(engine.first)
            assert engine.notes == []
        assert min(ids) >= FIRST

    @pytest.mark.attack("runs where root would be the machine's although the operator forbids it")
    async def test_always_means_always(self, kit: Kit) -> None:
        settings = structs.replace(kit.settings, user_namespaces="always")
        engine = kit.make(settings)
        try:
            await engine.prepare(kit.image)
            # The kernel maps no procfs to other ids.
            with pytest.raises(ExecutionError, match="UserNamespaces is always") as caught:
                await engine.create(
                    ContainerSpec(command=("true",), binds=(Bind("/proc/self/fd", "/in", True),))
                )
            assert caught.value.failure is Failure.NODE
        finally:
            await engine.remove()
        kit.make = lambda settings: self.engine(structs.replace(settings, user_namespaces="never"))
        assert (await kit.run("read inside outside size < /proc/self/uid_map; echo $outside"))[
            1
        ] == "0\n"


class TestNativeOnCrun(TestNative):
    """Against crun."""

    engine = CrunEngine


class TestDocker(Attacks):
    """Against the Docker daemon."""

    counts = False

    @pytest.fixture
    def kit(self, docker_daemon: DockerDaemon, tmp_path: Path) -> Kit:
        def make(settings: EngineSettings) -> Engine:
            return DockerEngine(structs.replace(settings, docker_socket=str(docker_daemon.socket)))

        return Kit(make, tmp_path)


class TestPodman(Attacks):
    """Against podman's service."""

    counts = False

    @pytest.fixture
    def kit(self, podman_service: PodmanService, tmp_path: Path) -> Kit:
        def make(settings: EngineSettings) -> Engine:
            return make_engine(structs.replace(settings, podman_socket=str(podman_service.socket)))

        return Kit(make, tmp_path)
