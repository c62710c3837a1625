"""Code in a container attacks what all containers of a machine share: the kernel's system calls by
number, files of the cache, terminals, signals, core files, and the daemon's own files.
"""

from __future__ import annotations

from errno import ENOSYS, EPERM
from pathlib import Path

import pytest

from lading.supervisor.engines.seccomp import DENIED_CALLS
from lading.testing.conformance.engines import Kit
from lading.testing.images import ArchiveImage, tiny_image
from tests.security.machine_code import make_program
from tests.security.test_native_isolation import TestDocker as Docker
from tests.security.test_native_isolation import TestNative as Native
from tests.security.test_native_isolation import TestNativeOnCrun as NativeOnCrun
from tests.security.test_native_isolation import TestPodman as Podman
from tests.security.test_native_isolation import codes_of, on_x86_64
from tests.system.test_engines import own_mounts

__all__ = ["own_mounts"]

NUMBERS = {
    "_sysctl": (156, 149), "acct": (163, 51), "add_key": (248, 286), "adjtimex": (159, 124),
    "bpf": (321, 357), "clock_adjtime": (305, 343), "clock_settime": (227, 264),
    "create_module": (174, 127), "delete_module": (176, 129), "fanotify_init": (300, 338),
    "finit_module": (313, 350), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fsopen": (430, 430), "fspick": (433, 433), "get_kernel_syms": (177, 130),
    "init_module": (175, 128), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425), "ioperm": (173, 101), "iopl": (172, 110), "kcmp": (312, 349),
    "kexec_file_load": (320, 0), "kexec_load": (246, 283), "keyctl": (250, 288),
    "lookup_dcookie": (212, 253), "memfd_secret": (447, 447), "mount": (165, 21),
    "mount_setattr": (442, 442), "move_mount": (429, 429), "name_to_handle_at": (303, 341),
    "nfsservctl": (180, 169), "open_by_handle_at": (304, 342), "open_tree": (428, 428),
    "perf_event_open": (298, 336), "pidfd_getfd": (438, 438), "pivot_root": (155, 217),
    "process_vm_readv": (310, 347), "process_vm_writev": (311, 348), "query_module": (178, 167),
    "quotactl": (179, 131), "quotactl_fd": (443, 443), "reboot": (169, 88),
    "request_key": (249, 287), "setdomainname": (171, 121), "sethostname": (170, 74),
    "setns": (308, 346), "settimeofday": (164, 79), "swapoff": (168, 115), "swapon": (167, 87),
    "syslog": (103, 103), "umount2": (166, 52), "unshare": (272, 310), "uselib": (134, 86),
    "userfaultfd": (323, 374), "vhangup": (153, 111), "clone3": (435, 435),
    "clock_adjtime64": (0, 405), "clock_settime64": (0, 404), "stime": (0, 25), "umount": (0, 22),
    "vm86": (0, 166), "vm86old": (0, 113), "socketcall": (0, 102),
}  # fmt: skip
"""Numbers of the refused calls by the 64-bit and the 32-bit entry of x86-64; 0: it has none."""
BY_NUMBER = {"open_tree_attr": 467, "file_setattr": 469}
"""Calls that the library of this machine may not know by name."""
FCNTL, FCNTL_32, FCNTL64_32 = 72, 55, 221
SET_LEASE, SET_DELEGATION = 1024, 1040
_REFUSED = {EPERM, ENOSYS}


@pytest.mark.attack("uses a call that was refused without a test of its number")
def test_the_table_has_every_refused_call() -> None:
    assert set(DENIED_CALLS) == (NUMBERS.keys() | BY_NUMBER.keys()) - {
        "_sysctl",
        "clone3",
        "socketcall",
    }


class Attacks:
    """What is tried on each engine."""

    @on_x86_64
    @pytest.mark.attack("makes each refused call by its number, by both entries of the kernel")
    async def test_refused_calls_by_number(self, kit: Kit) -> None:
        calls = {f"{name}-64": (number, False) for name, (number, _) in NUMBERS.items() if number}
        calls |= {f"{name}-32": (number, True) for name, (_, number) in NUMBERS.items() if number}
        programs = {
            name: make_program(number, *(0,) * 6, interrupt=by_interrupt)
            for name, (number, by_interrupt) in calls.items()
        }
        codes = await codes_of(kit, programs)
        assert len(codes) > 100
        assert {name: code for name, code in codes.items() if code not in _REFUSED} == {}

    @on_x86_64
    @pytest.mark.attack("holds a lease on an input, so that all others wait 45 s to open it")
    async def test_no_lease_on_a_shared_file(self, kit: Kit) -> None:
        data = kit.directory / "data"
        data.write_text("data")
        programs = {
            f"{entry}-{command}-{kind}": make_program(
                entry, 0, command, kind, interrupt=by_interrupt
            )
            for entry, by_interrupt in ((FCNTL, False), (FCNTL_32, True), (FCNTL64_32, True))
            for command in (SET_LEASE, SET_DELEGATION)
            for kind in (0, 1)
        }
        programs["upper"] = make_program(FCNTL, 0, SET_LEASE | 1 << 32, 1)
        programs["flags"] = make_program(FCNTL, 0, 3)
        with data.open("rb") as stdin:
            codes = await codes_of(kit, programs, stdin=stdin.fileno())
        assert codes.pop("flags") == 0
        assert set(codes.values()) == {EPERM}, codes

    @pytest.mark.attack("has the machine write a core file, or start its program for core files")
    async def test_no_core_files(self, kit: Kit) -> None:
        made = kit.bind("/made")
        crash = "ulimit -c unlimited 2>/dev/null; cd /made; sh -c 'kill -SEGV $$'"
        _, out, _ = await kit.run(f"{crash}; cat /proc/self/limits", binds=(made,))
        assert list(Path(made.source).iterdir()) == []
        (line,) = (line for line in out.splitlines() if line.startswith("Max core file size"))
        assert line.split()[4:6] == ["1", "1"]

    @pytest.mark.attack("queues as many signals as the machine's root may have, in its name")
    async def test_queued_signals_are_bounded(self, kit: Kit) -> None:
        _, out, _ = await kit.run("ulimit -Hi 2>/dev/null; cat /proc/self/limits")
        (line,) = (line for line in out.splitlines() if line.startswith("Max pending signals"))
        assert int(line.split()[4]) <= 4096

    @pytest.mark.attack("has programs of its image run beside the recorded command")
    async def test_an_image_has_no_health_check(self, kit: Kit) -> None:
        check = {"Test": ["CMD-SHELL", "echo x >> /made/health"], "Interval": 1_000_000}
        kit.image = ArchiveImage(*tiny_image(settings={"Healthcheck": check}))
        made = kit.bind("/made")
        await kit.run("sleep 2", binds=(made,))
        assert list(Path(made.source).iterdir()) == []


@pytest.mark.quick
class TestNative(Attacks):
    """Against lading-start."""

    engine = Native.engine
    kit = Native.kit

    @on_x86_64
    @pytest.mark.attack("makes calls that are too new for the library that compiles the filter")
    async def test_new_calls_by_number(self, kit: Kit) -> None:
        newer = {f"new-{number}": number for number in range(470, 512)}
        programs = {name: make_program(number) for name, number in (BY_NUMBER | newer).items()}
        programs |= {
            f"{name}-32": make_program(number, interrupt=True)
            for name, number in (BY_NUMBER | newer).items()
        }
        codes = await codes_of(kit, programs)
        assert {codes[name] for name in BY_NUMBER} == {EPERM}
        assert {code for name, code in codes.items() if name.startswith("new-")} == {ENOSYS}
        assert {codes[f"{name}-32"] for name in BY_NUMBER} == {EPERM}

    @pytest.mark.attack(
        "opens all terminals of the machine, so that nobody else enters a container"
    )
    async def test_terminals_are_bounded(self, kit: Kit) -> None:
        opened = " ".join(f"{descriptor}<>/dev/ptmx" for descriptor in range(3, 9))
        opener = f"(exec {opened}; echo x; exec sleep 3) &"
        script = f"i=0; while [ $i -lt 60 ]; do {opener} i=$((i+1)); done; wait"
        _, out, _ = await kit.run(script)
        assert 30 < len(out.split()) <= 256 // 6


class TestNativeOnCrun(TestNative):
    """Against crun."""

    engine = NativeOnCrun.engine


class TestDocker(Attacks):
    """Against the Docker daemon."""

    kit = Docker.kit


class TestPodman(Attacks):
    """Against podman's service."""

    kit = Podman.kit
