from __future__ import annotations

from errno import EAFNOSUPPORT, ENOSYS, EPERM

import pytest

from lading.supervisor.engines.seccomp import NEW_NAMESPACES, SOCKET_FAMILIES, make_profile
from lading.supervisor.limits.project_quota import SET_ATTRIBUTES


def answer(name: str, *arguments: int, machine: str = "x86_64") -> int:
    """The error number that a call gets; 0: it is carried out."""
    for rule in make_profile(machine)["syscalls"]:
        tests = rule.get("args", ())
        if name in rule["names"] and all(
            _matches(test, arguments[test["index"]]) for test in tests
        ):
            return int(rule["errnoRet"])
    return 0


def _matches(test: dict[str, object], given: int) -> bool:
    value, compared = int(str(test["value"])), int(str(test["valueTwo"]))
    return {
        "SCMP_CMP_EQ": given == value,
        "SCMP_CMP_GT": given > value,
        "SCMP_CMP_MASKED_EQ": given & value == compared,
    }[str(test["op"])]


@pytest.mark.parametrize(
    "name", ["mount", "unshare", "setns", "bpf", "keyctl", "pidfd_getfd", "clock_settime64"]
)
def test_calls_that_are_refused(name: str) -> None:
    assert answer(name) == EPERM


@pytest.mark.parametrize(
    "number", [SET_ATTRIBUTES, 0x40086602, 0x40046602, SET_ATTRIBUTES | 1 << 40]
)
def test_files_stay_in_their_project(number: int) -> None:
    assert answer("ioctl", 3, number) == EPERM
    assert answer("file_setattr") == EPERM
    assert answer("ioctl", 3, 0x5401) == 0


@pytest.mark.parametrize("name", ["fcntl", "fcntl64"])
def test_no_leases_on_files_that_others_open(name: str) -> None:
    assert (
        answer(name, 3, 1024) == answer(name, 3, 1040) == answer(name, 3, 1024 | 1 << 32) == EPERM
    )
    assert {answer(name, 3, command) for command in range(50)} == {0}


@pytest.mark.parametrize(
    "name", ["ptrace", "personality", "modify_ldt", "landlock_restrict_self", "seccomp", "fork"]
)
def test_calls_that_programs_need(name: str) -> None:
    assert answer(name) == 0


def test_threads_and_processes_but_no_namespaces() -> None:
    assert answer("clone", 0x003D0F00) == answer("clone", 17) == 0
    assert {answer("clone", 17 | flag) for flag in NEW_NAMESPACES.values()} == {EPERM}
    assert answer("clone", 0, 0x10000000, machine="s390x") == EPERM
    assert answer("clone", 0x10000000, 17, machine="s390x") == 0


def test_what_a_filter_cannot_look_into_is_not_there() -> None:
    assert answer("clone3") == answer("socketcall") == ENOSYS


@pytest.mark.parametrize("name", ["socket", "socketpair"])
def test_families_of_sockets(name: str) -> None:
    assert {one for one in range(200) if answer(name, one) == 0} == set(SOCKET_FAMILIES.values())
    assert (
        answer(name, 40) == answer(name, 1 << 32 | 3) == answer(name, (1 << 64) - 1) == EAFNOSUPPORT
    )


def test_each_entry_of_the_kernel_is_covered() -> None:
    for machine, some in (("x86_64", 2), ("aarch64", 2), ("riscv64", 0)):
        assert len(make_profile(machine)["architectures"]) == some
