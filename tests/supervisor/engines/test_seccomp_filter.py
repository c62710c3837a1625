from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from lading.supervisor.engines.seccomp import ANNOTATION, compile_profile, make_annotation
from tests.reality import need

_INSTRUCTION = 8


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    make_annotation.cache_clear()
    yield
    make_annotation.cache_clear()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
def test_a_program_for_the_kernel(machine: str) -> None:
    made = make_annotation(machine)
    need(bool(made), "libseccomp")
    program = base64.b64decode(made[ANNOTATION])
    assert len(program) % _INSTRUCTION == 0
    # Each call that is refused has an instruction at least.
    assert len(program) // _INSTRUCTION > 60


def test_without_the_library_the_profile_does() -> None:
    assert make_annotation("x86_64", "libnone.so.0") == {}


def test_what_the_library_does_not_take_is_no_program() -> None:
    need(bool(make_annotation("x86_64")), "libseccomp")
    test = {"index": 9, "op": "SCMP_CMP_EQ", "value": 1, "valueTwo": 0}
    rule = {"names": ("socket",), "errnoRet": 1, "args": (test,)}
    with pytest.raises(OSError, match="libseccomp"):
        compile_profile({"architectures": (), "syscalls": [rule]})
