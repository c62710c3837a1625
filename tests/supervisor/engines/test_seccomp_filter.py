from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from errno import ENOSYS, EPERM

import pytest

from lading.supervisor.engines.seccomp import ANNOTATION, compile_profile, make_annotation
from tests.reality import need

_INSTRUCTION = 8
_X86_64, _X86 = 0xC000003E, 0x40000003
_ALLOWED = 0x7FFF0000


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


def answer(program: bytes, number: int, *arguments: int, architecture: int = _X86_64) -> int:
    """The answer of a filter to a call: an error number, or 0 when it is carried out."""
    data = struct.pack("=iIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    instructions = list(struct.iter_unpack("=HBBI", program))
    accumulator, at = 0, 0
    while True:
        code, met, unmet, value = instructions[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif code == 0x54:
            accumulator &= value
        elif code == 0x05:
            at += value
        elif code == 0x06:
            return 0 if value == _ALLOWED else value & 0xFFFF
        else:
            holds = {
                0x15: accumulator == value,
                0x25: accumulator > value,
                0x35: accumulator >= value,
            }
            at += met if holds[code] else unmet


def test_new_calls_are_refused_by_their_numbers() -> None:
    made = make_annotation("x86_64")
    need(bool(made), "libseccomp")
    program = base64.b64decode(made[ANNOTATION])
    for architecture in (_X86_64, _X86):
        answers = {
            number: answer(program, number, architecture=architecture)
            for number in range(460, 1100)
        }
        assert {number for number, code in answers.items() if code == EPERM} == {467, 469}
        missing = {number for number, code in answers.items() if code == ENOSYS}
        assert missing == set(range(470, 1024))


def test_other_calls_are_answered_as_the_profile_says() -> None:
    made = make_annotation("x86_64")
    need(bool(made), "libseccomp")
    program = base64.b64decode(made[ANNOTATION])
    assert [answer(program, number) for number in (0, 165, 435)] == [0, EPERM, ENOSYS]
    assert [answer(program, 72, 0, command) for command in (3, 1024, 1 << 32 | 1024)] == [
        0,
        EPERM,
        EPERM,
    ]
