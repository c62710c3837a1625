"""A child ends with its parent and says when it serves."""

from __future__ import annotations

import io
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from lading.wiring.process import READY, StartReport, ended, private_files, say


def test_a_child_of_another_parent_leaves() -> None:
    code = "from lading.wiring.process import end_with_parent; end_with_parent(1); print('stayed')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b""


def test_a_child_of_its_parent_stays() -> None:
    code = (
        "from lading.wiring.process import end_with_parent; "
        f"end_with_parent({os.getpid()}); print('stayed')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"stayed\n"


def test_a_priority_counts_among_all_sessions_of_the_machine() -> None:
    code = """
import os
from lading.wiring.process import come_before
come_before(19)
come_before(19)
print(os.getpriority(os.PRIO_PROCESS, 0), os.getsid(0) == os.getpid())
try:
    print(open("/proc/self/autogroup").read())
except OSError:
    pass
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    own, *group = done.stdout.strip().splitlines()
    assert own == "19 True"
    # A kernel without such groups shows none, and who is not root may be told to wait.
    assert not group or os.geteuid() != 0 or group[0].endswith("nice 19")


def test_short_turns_are_asked_for() -> None:
    """Read back with sched_getattr(2), whose number follows; before Linux 6.12 a turn is 0 long
    there.
    """
    number = {"x86_64": 315, "aarch64": 275}.get(platform.machine())
    code = f"""
import ctypes, struct
from lading.wiring.process import come_before
come_before(19)
told = ctypes.create_string_buffer(48)
number, own, size, flags = map(ctypes.c_long, ({number}, 0, 48, 0))
ctypes.CDLL(None).syscall(number, own, told, size, flags)
print(*struct.unpack("=IIQiIQQQ", told.raw))
"""
    if number is not None:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True, text=True
        )
        assert done.stdout.split()[1:] in (
            ["0", "0", "19", "0", turn, "0", "0"] for turn in ("0", "1300000")
        )


def test_as_many_files_may_be_open_as_the_machine_allows() -> None:
    code = """
import resource
from lading.wiring.process import open_many_files
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (100, most))
open_many_files()
print(resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most))
"""
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        == b"True\n"
    )


def test_a_child_says_once_that_it_serves(capsys: pytest.CaptureFixture[str]) -> None:
    read, write = os.pipe()
    start = StartReport(write)
    start.succeeded()
    start.failed("it ended later")
    assert (os.read(read, 64), os.read(read, 64)) == (READY, b"")
    assert capsys.readouterr().err == "it ended later\n"
    os.close(read)


def test_a_child_says_why_it_does_not_though_its_log_cannot_grow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, write = os.pipe()
    with io.TextIOWrapper(io.FileIO("/dev/full", "w"), write_through=True) as full:
        monkeypatch.setattr(sys, "stderr", full)
        StartReport(write).failed("no room")
    assert (os.read(read, 64), os.read(read, 64)) == (b"no room\n", b"")
    os.close(read)


async def test_the_end_of_a_child_is_noticed_and_its_status_kept() -> None:
    child = subprocess.Popen(["sh", "-c", "exit 3"])
    await ended(child.pid)
    assert child.wait() == 3
    await ended(child.pid)


def test_files_are_private_for_a_while(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with private_files():
            (tmp_path / "private").write_text("")
            subprocess.run(["touch", tmp_path / "by a child"], check=True)
        (tmp_path / "as usual").write_text("")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"private": 0o600, "by a child": 0o600, "as usual": 0o666}


def test_one_thing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    say("something")
    assert capsys.readouterr() == ("", "lading: something\n")
