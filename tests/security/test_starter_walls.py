"""A container of lading-start has each wall that crun's has, as code inside of it sees them; each
difference is a row of docs/security.md.
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from typing import Final

import pytest
from msgspec import structs

from lading.supervisor.engines import Device, Exec
from lading.supervisor.engines.native import NativeEngine
from lading.supervisor.engines.native_crun import CrunEngine
from lading.supervisor.engines.seccomp import make_program
from lading.supervisor.starter import starter
from lading.testing.conformance.engines import Kit, heard
from tests.reality import need, need_program
from tests.system.test_engines import own_mounts

__all__ = ["own_mounts"]

SCRIPT: Final = (
    "cat /proc/self/status; echo ==; cat /proc/self/mountinfo; echo ==; cat /proc/self/cgroup;"
    " echo ==; cat /proc/self/limits; echo ==; ls -lanR /dev; echo ==; ls -lan / /sys; echo ==;"
    " ls -l /proc/self/fd; echo ==; cat /proc/net/dev /proc/sys/kernel/hostname"
    " /proc/self/oom_score_adj /proc/self/uid_map /proc/self/gid_map /proc/keys /proc/kcore;"
    " pwd; umask; echo ==; env"
)
CHANGING: Final = frozenset(
    {"Tgid", "Pid", "PPid", "NStgid", "NSpid", "voluntary_ctxt_switches", "State", "SigQ"}
)
"""Fields of /proc/self/status that differ between two containers of one engine; without a user
namespace the queue of signals is that of the machine's root.
"""
# PTRACE_ATTACH, PTRACE_DETACH and PTRACE_SECCOMP_GET_FILTER of ptrace(2), __WALL of wait(2).
_ATTACH, _DETACH, _GET_FILTER, _ALL = 16, 17, 0x420C, 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def facts_of(out: str) -> dict[str, str]:
    """What the script says, by the name of each fact."""
    status, mounts, cgroup, limits, devices, root, streams, others, variables = out.split("==\n")
    facts = {}
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name not in CHANGING and not name.startswith(("Vm", "Rss", "nonvol")):
            facts[f"status {name}"] = " ".join(value.split())
    for line in mounts.splitlines():
        first, _, last = line.partition(" - ")
        _, _, _, inner, point, options = first.split()[:6]
        facts[f"mount {point}"] = f"{Path(inner).name} {options} {last}"
    facts["order of mounts"] = " ".join(
        line.split()[4] for line in mounts.splitlines() if " /made" not in line
    )
    for name, text in (("cgroup", cgroup), ("limits", limits), ("streams", streams)):
        facts[name] = text
    for line in (devices + root).splitlines():
        if len(words := line.split()) > 5:
            name = next(word for word in reversed(words) if word != "->")
            # Sizes, times and the count of processes.
            facts[f"file {name} {words[-1]}"] = " ".join((words[0], *words[2:4], words[-1]))
    facts["others"], facts["variables"] = others, variables
    # The range of ids is another one for each container, numbers of descriptors for each container.
    return {
        name: re.sub(
            r"\b3\d{9}\b|fd/\d+|/proc/\d+/fd|engine\d+|tmp\w+|\d\d:\d\d|-> \S*txt", "*", value
        )
        for name, value in facts.items()
    }


def kits(directory: Path, policy: str) -> dict[str, Kit]:
    """A kit of each engine."""
    found = {}
    for name, engine in (("starter", NativeEngine), ("crun", CrunEngine)):
        place = directory / name
        place.mkdir()
        found[name] = Kit(
            lambda settings, engine=engine: engine(  # type: ignore[misc]
                structs.replace(settings, user_namespaces=policy)
            ),
            place,
        )
    return found


def filter_of(process: int) -> bytes:
    """The filter of system calls that the kernel applies to a process."""
    _libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    _libc.ptrace.restype = ctypes.c_long
    assert _libc.ptrace(_ATTACH, process, None, None) == 0, os.strerror(ctypes.get_errno())
    os.waitpid(process, _ALL)
    try:
        count = _libc.ptrace(_GET_FILTER, process, None, None)
        need(count > 0, "PTRACE_SECCOMP_GET_FILTER")
        content = ctypes.create_string_buffer(count * 8)
        assert _libc.ptrace(_GET_FILTER, process, None, ctypes.addressof(content)) == count
        # There is no other one.
        assert _libc.ptrace(_GET_FILTER, process, 1, None) == -1
        return content.raw
    finally:
        _libc.ptrace(_DETACH, process, None, None)


# Differences, by the policy of user namespaces: each is a row of docs/security.md.
# The gate of crun is a process before the command.
_NUMBERS: Final = {"status NSpgid", "status NSsid"}
_FIRST_PROCESS: Final = {
    "mount /.lading-init",
    "mount /.lading-reports",
    "file .lading-init .lading-init",
    "file .lading-reports .lading-reports",
}
_PROTECTED: Final = {f"mount /proc/{name}" for name in ("bus", "fs", "irq", "sys")}
DIFFERENT: Final = {
    "auto": {*_NUMBERS, *_FIRST_PROCESS, *_PROTECTED, "order of mounts"},
    "never": {*_NUMBERS, *_FIRST_PROCESS, *_PROTECTED, "order of mounts", "mount /"},
}


@pytest.fixture(autouse=True)
def _needed() -> None:
    need_program("crun")
    need(starter.is_available(), "lading-start")


@pytest.mark.attack("looks for a wall that crun's container has and that of lading-start lacks")
@pytest.mark.parametrize("policy", ["auto", "never"])
async def test_both_containers_have_the_same_walls(
    own_mounts: None, tmp_path: Path, policy: str
) -> None:
    found = {}
    for name, kit in kits(tmp_path, policy).items():
        _, out, _ = await kit.run(
            SCRIPT,
            binds=(kit.bind("/made"), kit.bind("/kept", readonly=True)),
            devices=(Device("/dev/null", "/dev/gpu0"),),
            ram=64 << 20,
            processes=50,
        )
        found[name] = facts_of(out)
    ours, theirs = found["starter"], found["crun"]
    different = {name for name in ours.keys() | theirs if ours.get(name) != theirs.get(name)}
    assert different == DIFFERENT[policy]
    # Each difference makes a wall higher, or is none.
    for name in _PROTECTED:
        assert theirs[name].split()[1] == "ro,relatime"
        assert ours[name].split()[1] == "ro,nosuid,nodev,noexec,relatime"
    if policy == "never":
        assert ours["mount /"].replace("nodev,", "") == theirs["mount /"]
    mounts = [
        *ours["order of mounts"].split(),
        *(name.removeprefix("mount ") for name in _FIRST_PROCESS if name.startswith("mount ")),
    ]
    assert sorted(mounts) == sorted(theirs["order of mounts"].split())
    # The program and its pipe, and nothing else of the machine.
    assert theirs["mount /.lading-init"].split()[1].startswith("ro,nosuid,nodev")
    assert theirs["mount /.lading-reports"].startswith("reports rw,nosuid")


@pytest.mark.attack("makes system calls that one of the two filters lets through")
async def test_both_containers_have_the_same_filter(own_mounts: None, tmp_path: Path) -> None:
    filters = {}
    for name, kit in kits(tmp_path, "auto").items():
        async with kit.running() as engine:
            assert engine.first is not None
            filters[name] = filter_of(engine.first)
    assert filters["starter"] == filters["crun"] == make_program(os.uname().machine)


@pytest.mark.attack("a session beside the command, or the first process, has fewer walls than it")
@pytest.mark.parametrize("program", ["starter", "crun"])
async def test_all_processes_have_the_rights_of_the_command(
    own_mounts: None, tmp_path: Path, program: str
) -> None:
    kit = kits(tmp_path, "auto")[program]
    _, out, _ = await kit.run("cat /proc/1/status /proc/self/status")
    first, second = (rights_of(part) for part in out.split("Name:")[1:])
    async with kit.running() as engine:
        _, status, _ = await heard(await engine.execute(Exec(command=("cat", "/proc/self/status"))))
        assert engine.first is not None
        # The pipe on which it reports.
        assert os.listdir(f"/proc/{engine.first}/fd") == ["3"]  # noqa: PTH208
    assert first == second == rights_of(status)


def rights_of(status: str) -> dict[str, str]:
    """The rights in a file /proc/PID/status."""
    names = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    lines = [line.partition(":\t") for line in status.splitlines()]
    return {name: value for name, _, value in lines if name in (*names, "NoNewPrivs", *_FILTERS)}


_FILTERS: Final = ("Seccomp", "Seccomp_filters", "Speculation_Store_Bypass")
