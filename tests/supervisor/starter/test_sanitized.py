"""The whole of `lading-start` under the sanitizers, up to the command: right plans, hostile images,
and plans at random.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lading.supervisor
from tests.reality import need, need_root
from tests.supervisor.starter.plans import Record, make_plan

SOURCES = Path(lading.supervisor.__file__).parent / "starter"
# Exit code of the sanitizers (sanitizing.c), and of a process that a trap (SIGILL) ended.
DAMAGED = (86, 132, -4)
VERSION = "lading-start 3\n"
# One instruction: every call is allowed (seccomp(2)).
ALLOW = (0x06).to_bytes(8, "little")[:4] + (0x7FFF0000).to_bytes(4, "little")
ME = str(os.getuid()).encode(), str(os.getgid()).encode()
# Attributes nosuid, nodev, noexec.
CLOSED = b"14"


def compilation() -> list[str]:
    """A compiler with its sanitizers: those of `cc`, or `ziglang`, whose traps are signals."""
    if shutil.which("cc"):
        return ["cc", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    need(importlib.util.find_spec("ziglang") is not None, "cc")
    return [sys.executable, "-m", "ziglang", "cc", "-O1", "-fsanitize=undefined"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("sanitized") / "lading-start"
    sources = [Path(__file__).with_name("sanitizing.c"), *SOURCES.glob("*.c")]
    subprocess.run([*compilation(), "-std=c11", "-g", "-o", program, *sources], check=True)
    return program


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A static program, which needs no file of an image."""
    path = tmp_path_factory.mktemp("command") / "command"
    compiler = [word for word in compilation() if not word.startswith("-f")]
    subprocess.run([*compiler, "-std=c11", "-static", "-o", path, *SOURCES.glob("*.c")], check=True)
    return path


class Box:
    """An image, and what becomes of plans for it."""

    def __init__(self, program: Path, command: Path, directory: Path) -> None:
        self.program = program
        self.root = directory / "root"
        self.root.mkdir()
        (self.root / "bin").mkdir()
        (self.root / "bin" / "command").hardlink_to(command)
        (self.root / "gone").symlink_to("/nowhere/else")
        self.directory = directory

    def records(self) -> list[Record]:
        """A plan with all records that a container has."""
        return [
            ("R", [bytes(self.root)]),
            ("H", [b"box"]),
            ("I", [b"0 %s 1\n" % ME[0], b"0 %s 1\n" % ME[1]]),
            ("V", []),
            ("M", [b"/proc", b"proc", b"", CLOSED]),
            ("M", [b"/dev", b"tmpfs", b"mode=755,size=65536k", b"2"]),
            ("M", [b"/dev/pts", b"devpts", b"newinstance,ptmxmode=0666", b"10"]),
            ("M", [b"/dev/shm", b"tmpfs", b"mode=1777", CLOSED]),
            ("M", [b"/sys", b"sysfs", b"", b"15"]),
            *(
                ("D", [b"/dev/" + name, b"c", b"1", minor, b"438", b"0", b"0"])
                for name, minor in [(b"null", b"3"), (b"zero", b"5")]
            ),
            ("B", [b"/data", bytes(self.directory), b"1"]),
            ("B", [b"/etc/some/file", b"/etc/passwd", b"1"]),
            ("X", [b"/proc/kcore"]),
            ("X", [b"/proc/acpi"]),
            ("X", [b"/sys/firmware"]),
            ("X", [b"/proc/tty"]),
            ("O", [b"/proc/sys"]),
            ("L", [b"7", b"64"]),
            ("U", [b"0", b"0"]),
            ("C", [b"263419"]),
            ("F", [ALLOW]),
            ("W", [b"/here/deep"]),
            ("E", [b"PATH=/nowhere:/bin"]),
            ("A", [b"command"]),
            ("A", [b"check"]),
        ]

    def run(self, records: list[Record]) -> tuple[int, str, str]:
        """Exit code, output, and the fault. The gate is open."""
        reading, writing = os.pipe2(os.O_CLOEXEC)
        os.write(writing, b"go\n")
        os.close(writing)
        plan = memory_file(make_plan([*records, ("G", [str(reading).encode()])]))
        status, log = self.directory / "status", self.directory / "log"
        status.unlink(missing_ok=True)
        log.unlink(missing_ok=True)
        try:
            ended = subprocess.run(
                ["lading-start", "run", str(plan), str(status), str(log)],
                executable=self.program,
                env={},
                pass_fds=[plan, reading],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=60,
                check=False,
            )
        finally:
            os.close(reading)
            os.close(plan)
        said = (log.read_bytes() + ended.stderr).decode(errors="replace")
        assert ended.returncode not in DAMAGED, said
        assert "Sanitizer" not in said
        assert "runtime error" not in said
        return ended.returncode, ended.stdout.decode(errors="replace"), said


def memory_file(content: bytes) -> int:
    descriptor = os.memfd_create("plan")
    os.write(descriptor, content)
    return descriptor


def changed(records: list[Record], letter: str, *fields: bytes) -> list[Record]:
    """The records, with another one in the place of all of this letter."""
    return [*(record for record in records if record[0] != letter), (letter, [*fields])]


@pytest.fixture
def box(program: Path, command: Path, tmp_path: Path) -> Box:
    made = Box(program, command, tmp_path)
    code, _, fault = made.run(made.records())
    need(code == 0, f"namespaces of this user ({fault.strip()})")
    return made


def test_a_container_is_made_and_tells_its_end(box: Box) -> None:
    assert box.run(box.records()) == (0, VERSION, "")
    lines = (box.directory / "status").read_text().splitlines()
    assert [line.partition(":")[0] for line in lines] == ['{"pid"', '{"ready"', '{"code"']
    assert (box.root / "here" / "deep").is_dir()


@pytest.mark.parametrize("path", [b"/new//deep/", b"/new/./deep/.", b"/bin/deep"])
def test_a_working_directory_is_made_by_any_spelling(box: Box, path: bytes) -> None:
    assert box.run(changed(box.records(), "W", path)) == (0, VERSION, "")
    assert (box.root / path.decode().lstrip("/")).is_dir()


def test_a_command_that_is_not_there_is_told(box: Box) -> None:
    code, _, fault = box.run([*changed(box.records(), "A", b"nothing")])
    assert (code, fault) == (
        125,
        "executable file `nothing` not found in $PATH: No such file or directory\n",
    )


def test_a_command_that_is_too_long_is_told(box: Box) -> None:
    # The kernel takes 128 KiB in one argument (execve(2), "Limits on size").
    code, _, fault = box.run([*box.records(), ("A", [b"x" * (128 << 10)])])
    assert (code, fault) == (
        125,
        "executable file `command` cannot be run: Argument list too long\n",
    )


def test_a_kept_container_ends_with_its_gate_and_can_be_entered(box: Box) -> None:
    # Its first process lets nobody look at it who has no rights over its namespaces.
    need_root()
    kept = [record for record in box.records() if record[0] != "A"] + [("K", [])]
    reading, writing = os.pipe2(os.O_CLOEXEC)
    plan = memory_file(make_plan([*kept, ("G", [str(reading).encode()])]))
    status = box.directory / "held"
    with subprocess.Popen(
        ["lading-start", "run", str(plan), str(status), str(box.directory / "log")],
        executable=box.program,
        env={},
        pass_fds=[plan, reading],
    ) as keeper:
        os.close(reading)
        try:
            for _ in range(10**6):
                if status.exists() and "ready" in status.read_text():
                    break
            first = os.pidfd_open(int(status.read_text().partition(":")[2].partition("}")[0]))
            own = "IVLUCFWEA"
            entry = [record for record in box.records() if record[0] in own]
            order = memory_file(make_plan([*entry, ("P", [str(first).encode()])]))
            entered = subprocess.run(
                ["lading-start", "exec", str(order), str(box.directory / "number")],
                executable=box.program,
                env={},
                pass_fds=[order, first],
                capture_output=True,
                timeout=60,
                check=False,
            )
        finally:
            os.close(writing)
    assert (entered.returncode, entered.stdout.decode(), entered.stderr) == (0, VERSION, b"")
    assert keeper.returncode == 137


@pytest.mark.parametrize("name", ["proc", "dev", "sys"])
def test_an_image_whose_directory_is_a_link_is_refused(box: Box, name: str) -> None:
    (box.root / name).rmdir()
    (box.root / name).symlink_to("/etc")
    code, out, _ = box.run(box.records())
    assert (code, out) == (125, "")


@pytest.mark.parametrize(
    "accounts",
    [b"", b":" * 100_000, b"\0" * 70_000, b"x:x:0:0::" + b"/" * 5000 + b":\n", b"a:b:0:0:c:/h:/s"],
)
def test_any_list_of_accounts_is_read(box: Box, accounts: bytes) -> None:
    (box.root / "etc" / "passwd").write_bytes(accounts)
    assert box.run(box.records())[:2] == (0, VERSION)


def test_a_pipe_in_the_place_of_the_accounts_is_not_waited_for(box: Box) -> None:
    os.mkfifo(box.root / "etc" / "passwd")
    assert box.run(box.records())[:2] == (0, VERSION)


@pytest.mark.parametrize(
    ("letter", "fields"),
    [
        ("W", (b"/proc/self/fd/3",)),
        ("W", (b"/proc/1/root",)),
        ("W", (b"/" + b"x" * 5000,)),
        ("W", (b"/" + b"x" * 300,)),
        ("W", (b"/" + b"x/" * 2047 + b"x" * 300,)),
        ("W", (b"/gone/deep",)),
        ("B", (b"/proc/self/fd/4/x", b"/etc/passwd", b"0")),
        ("B", (b"/bin/command/x", b"/etc/passwd", b"0")),
        ("B", (b"/data", b"/nowhere", b"0")),
        ("H", (b"h" * 65,)),
        ("L", (b"99", b"1")),
        ("F", (bytes(8),)),
        ("I", (b"0 0 0\n", b"")),
        ("D", (b"/", b"c", b"1", b"3", b"438", b"0", b"0")),
        ("D", (b"/dev/none", b"c", b"1", b"3", b"438", b"0", b"0")),
        ("D", (b"/dev/shm", b"c", b"1", b"3", b"438", b"0", b"0")),
        ("G", (b"18446744073709551615",)),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused_whole(
    box: Box, letter: str, fields: tuple[bytes, ...]
) -> None:
    code, out, fault = box.run(changed(box.records(), letter, *fields))
    assert (code, out) == (125, "")
    assert fault.endswith("\n")


def test_calls_that_name_nothing_to_do_start_nothing(box: Box) -> None:
    for arguments in ([], ["run"], ["run", "x", "y", "z"], ["exec", "999", "y"], ["init", "x"]):
        ended = subprocess.run(
            [box.program, *arguments],
            capture_output=True,
            cwd=box.directory,
            check=False,
            env={},
        )
        assert ended.returncode == 125


PATHS = st.sampled_from([
    b"/", b"//", b"/.", b"/bin", b"/bin/command", b"/proc/self/fd/3", b"/proc/1/ns", b"/dev/null",
    b"/x/y/z", b"/dev/pts", b"/" + b"n" * 255, b"/" + b"n" * 256, b"/n" * 2500, b"/sys/kernel",
])  # fmt: skip
NUMBERS = st.sampled_from([
    b"0", b"1", b"15", b"63", b"4096", b"4294967294", b"18446744073709551615",
])  # fmt: skip
IDS = st.sampled_from([b"0", b"1", b"65534", b"4294967294"])
WORDS = st.sampled_from([
    b"", b"command", b"/bin/command", b"check", b"tmpfs", b"proc", b"ro,size=1k,mode=700", b"=,=,,",
    b"PATH=" + b":" * 5000, b"PATH", b"HOME=", b"n" * 5000, b"c", b"\xff\n",
])  # fmt: skip
FIELDS = {"p": PATHS, "n": NUMBERS, "i": IDS, "s": WORDS}


def replacements() -> st.SearchStrategy[Record]:
    """Records whose effects stay in the container."""
    kinds = {
        "H": "s", "M": "pssn", "D": "psnnnii", "X": "p", "O": "p", "L": "nn", "U": "ii", "S": "i",
        "C": "n", "A": "s", "E": "s", "W": "p", "V": "", "K": "", "P": "n", "T": "n",
    }  # fmt: skip
    of_kind = [
        st.tuples(st.just(letter), st.tuples(*(FIELDS[kind] for kind in fields)).map(list))
        for letter, fields in kinds.items()
    ]
    binds = st.tuples(PATHS, st.just(b"/dev/null"), NUMBERS).map(list)
    filters = st.binary(min_size=8, max_size=64).map(lambda code: [code[: len(code) // 8 * 8]])
    return st.one_of(*of_kind, st.tuples(st.just("B"), binds), st.tuples(st.just("F"), filters))


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(replacements(), max_size=5), st.data())
def test_plans_at_random_do_no_damage(box: Box, more: list[Record], data: st.DataObject) -> None:
    records = box.records()
    for letter, fields in more:
        if data.draw(st.booleans()):
            records = [record for record in records if record[0] != letter]
        records.insert(data.draw(st.integers(0, len(records))), (letter, fields))
    # The user namespace stays: without it these would be users of the machine.
    code, _, fault = box.run(records)
    assert code == 0 or fault or code > 125
