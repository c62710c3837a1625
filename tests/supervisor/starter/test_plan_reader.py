"""The reader of plans in C, under sanitizers, against a reader in Python that is written apart."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lading.supervisor
from lading.supervisor.starter.plan import MARK
from tests.reality import need_program
from tests.supervisor.starter.plans import ROWS, make_plan

SOURCES = Path(lading.supervisor.__file__).parent / "starter"
TEXTS = st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=12).map(
    lambda text: text.encode("latin-1")
)
VALUES = {
    "n": st.integers(0, 2**64 - 1).map(lambda number: str(number).encode()),
    "i": st.integers(0, 2**32 - 2).map(lambda number: str(number).encode()),
    "s": TEXTS,
    "p": TEXTS.map(lambda text: b"/" + text.replace(b"..", b"x")),
}
MANDATORY = [("U", [b"0", b"0"]), ("C", [b"1"]), ("W", [b"/"]), ("F", [bytes(16)])]


@st.composite
def record(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    letter = draw(st.sampled_from(sorted(ROWS.keys() - {"F", "U", "C", "W"})))
    return letter, [draw(VALUES[kind]) for kind in ROWS[letter][0]]


def is_value(kind: str, value: bytes) -> bool:
    if kind in "ni":
        digits = value.isdigit() and value.isascii()
        return digits and int(value) < (2**64 if kind == "n" else 2**32 - 1)
    return kind == "s" or (value.startswith(b"/") and b".." not in value.split(b"/"))


def expected(plan: bytes) -> str | None:
    """The answer of the reader to a plan; None for a plan that it must refuse."""
    if not plan.startswith(MARK):
        return None
    texts: dict[str, list[str]] = {letter: [] for letter in ROWS}
    at = len(MARK)
    while at < len(plan):
        letter, length = (
            plan[at : at + 1].decode("latin-1"),
            int.from_bytes(plan[at + 1 : at + 5], "little"),
        )
        content = plan[at + 5 : at + 5 + length]
        if len(plan) < at + 5 or len(content) < length or letter not in ROWS:
            return None
        kinds = ROWS[letter][0]
        if kinds == "r":
            if length == 0 or length % 8 or length > 8 * 4096:
                return None
            texts[letter].append(f":{length}")
        else:
            values = content.split(b"\0")[:-1]
            if (content and not content.endswith(b"\0")) or len(values) != len(kinds):
                return None
            if not all(map(is_value, kinds, values)):
                return None
            texts[letter].append(
                "".join(
                    f":{int(value)}" if kind in "ni" else f":{value.hex()}"
                    for kind, value in zip(kinds, values, strict=True)
                )
            )
        at += 5 + length
    if any(not least <= len(texts[one]) <= most for one, (_, least, most) in ROWS.items()):
        return None
    return "".join(f"{letter}{text} " for letter in sorted(texts) for text in texts[letter])


class Reader:
    """The reader in a process of its own."""

    def __init__(self, program: Path) -> None:
        kinds = [f"{letter}{row[0]}" for letter, row in ROWS.items()]
        self.process = subprocess.Popen(
            [str(program), *kinds], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def answer(self, plan: bytes) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(len(plan).to_bytes(4, "little") + plan)
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line.endswith(b"\n"), "the reader has ended"
        return line[:-1].decode()


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    need_program("cc")
    program = tmp_path_factory.mktemp("reader") / "read_plans"
    sources = [
        Path(__file__).with_name("read_plans.c"),
        *(SOURCES / f"{name}.c" for name in ("plan", "fault", "descriptors", "calls")),
    ]
    flags = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command = ["cc", "-std=c11", *flags, f"-I{SOURCES}", "-o", str(program), *map(str, sources)]
    subprocess.run(command, check=True)
    made = Reader(program)
    yield made
    made.process.communicate()
    assert made.process.returncode == 0


def check(reader: Reader, plan: bytes) -> None:
    wanted, answer = expected(plan), reader.answer(plan)
    if wanted is None:
        assert "plan" in answer
    else:
        assert answer == wanted


@settings(deadline=None, max_examples=120)
@given(st.lists(record(), max_size=8))
def test_records_are_read_as_they_were_written(
    reader: Reader, records: list[tuple[str, list[bytes]]]
) -> None:
    check(reader, make_plan([*records, *MANDATORY]))


@settings(deadline=None, max_examples=250)
@given(st.lists(record(), max_size=4), st.data())
def test_a_spoiled_plan_is_refused_or_read_as_it_stands(
    reader: Reader, records: list[tuple[str, list[bytes]]], data: st.DataObject
) -> None:
    plan = bytearray(make_plan([*MANDATORY, *records]))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(plan) - 1))
        change = data.draw(st.sampled_from(["replace", "cut", "insert"]))
        if change == "replace":
            plan[at] = data.draw(st.integers(0, 255))
        elif change == "cut" and at:
            del plan[at:]
        else:
            plan[at:at] = data.draw(st.binary(max_size=6))
    check(reader, bytes(plan))


@pytest.mark.parametrize(
    "plan",
    [
        b"",
        MARK[:-1],
        b"lading-start 1\n" + make_plan(MANDATORY)[len(MARK) :],
        make_plan(MANDATORY[1:]),
        make_plan([*MANDATORY, ("U", [b"0", b"0"])]),
        make_plan([*MANDATORY, ("X", [b"/proc/../etc"])]),
        make_plan([*MANDATORY, ("X", [b"proc"])]),
        make_plan([*MANDATORY, ("S", [b"-1"])]),
        make_plan([*MANDATORY, ("G", [b"18446744073709551616"])]),
        make_plan([*MANDATORY, ("S", [b"4294967295"])]),
        make_plan([("U", [b"4294967295", b"0"]), *MANDATORY[1:]]),
        make_plan([*MANDATORY, *(("J", [b"/x"]),) * 33]),
        make_plan([*MANDATORY[:3], ("F", [bytes(8 * 4097)])]),
        make_plan(MANDATORY) + b"A\xff\xff\xff\xffx\0",
    ],
)
def test_what_is_no_plan_is_refused(reader: Reader, plan: bytes) -> None:
    assert expected(plan) is None
    check(reader, plan)
