"""Following processes; that it works end to end is shown in test_code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from lading.hpc.processes import WAIT_ALL, Tracer

# A process of its own: a tracer waits for every child of its process.
_FOLLOW = """
import os, subprocess, sys
from lading.hpc.processes import WAIT_ALL, Tracer
tracer, ends = Tracer(), []
gate, opener = os.pipe()
script = "read x; sh -c 'exit 7'; sh -c 'kill -9 $$'; exit 0"
first = subprocess.Popen(["sh", "-c", script], stdin=gate)
tracer.seize(first.pid)
os.write(opener, b"go\\n")
while True:
    try:
        pid, status = os.waitpid(-1, WAIT_ALL)
    except ChildProcessError:
        break
    if os.WIFSTOPPED(status):
        tracer.stopped(pid, status)
    elif tracer.ended(pid):
        ends.append(os.waitstatus_to_exitcode(status))
first.returncode = 0
print(ends, tracer.processes)
"""


def test_the_end_of_every_process_is_seen() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FOLLOW], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "[7, -9, 0] set()\n"


def test_what_is_not_there_cannot_be_traced() -> None:
    tracer = Tracer()
    with pytest.raises(OSError, match="process 4194305"):
        tracer.seize(4_194_305)
    assert not tracer.ended(4_194_305)


def test_news_of_a_process_that_is_gone_is_no_fault() -> None:
    tracer = Tracer()
    tracer.stopped(4_194_305, (signal.SIGTRAP << 8) | 0x7F)
    assert os.WIFSTOPPED((signal.SIGTRAP << 8) | 0x7F)
    assert tracer.processes == set()
    assert WAIT_ALL == 1 << 30
