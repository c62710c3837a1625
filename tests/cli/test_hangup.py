"""Terminals that are closed, and full disks."""

from __future__ import annotations

import errno
import os
import pty
import subprocess
import sys
from collections.abc import Iterator

import pytest

from lading.cli.hangup import full_stream, is_hangup, unread

FAILED = OSError(errno.EIO, "Input/output error")


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A terminal, open at both ends: ours and that of its user."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(theirs)


def test_a_terminal_that_was_closed(terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    assert not is_hangup(FAILED, [theirs])
    os.close(ours)
    assert is_hangup(FAILED, [theirs])
    assert is_hangup(BaseExceptionGroup("", [FAILED, ExceptionGroup("", [FAILED])]), [theirs])


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, ""), ValueError(), BaseExceptionGroup("", [FAILED, ValueError()])],
)
def test_other_errors(terminal: tuple[int, int], error: BaseException) -> None:
    ours, theirs = terminal
    os.close(ours)
    assert not is_hangup(error, [theirs])


def test_a_disk_that_fails_beside_streams_that_are_no_terminals() -> None:
    ours, theirs = os.pipe()
    assert not is_hangup(FAILED, [ours, theirs])
    os.close(ours)
    os.close(theirs)


def test_output_that_nobody_reads_is_dropped() -> None:
    script = (
        "import sys; from lading.cli import display; from lading.cli.hangup import unread\n"
        "display.note('first'); display.note('second')\n"
        "with unread(): print('text', flush=True)\n"
        "print('more', flush=True); sys.exit(7)"
    )
    ours, theirs = os.pipe()
    os.close(ours)
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, stdout=theirs, stderr=theirs, check=False, timeout=60)
    os.close(theirs)
    assert done.returncode == 7


def test_other_faults_of_output_are_raised() -> None:
    with pytest.raises(OSError, match="No space"), unread():
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--help"], ["doctor"], ["doctor", "--json"]])
def test_a_full_disk_of_standard_output_is_told(arguments: list[str], unbuffered: str) -> None:
    words = [sys.executable, "-m", "lading", *arguments]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            words,
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 1
    assert "standard output: its disk is full; make room there" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("{" if "--json" in arguments else "lading: ")


def test_messages_to_a_full_disk_are_dropped() -> None:
    script = "import sys; from lading.cli import display; display.note('text'); sys.exit(7)"
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-c", script], stderr=full, check=False, timeout=60)
    assert done.returncode == 7


def test_a_full_disk_of_another_file() -> None:
    assert full_stream(OSError(errno.ENOSPC, "No space left on device")) == ""
    assert full_stream(ValueError()) == ""
