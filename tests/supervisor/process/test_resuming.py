"""A process that goes on with a container, against a server that is not there."""

from __future__ import annotations

import os
import select
import socket
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from lading.core.errors import Malformed
from lading.supervisor import journal, linux
from lading.supervisor.engines.adoption import PROCESS
from lading.supervisor.journal import JournalHeader, RunJournal
from lading.supervisor.lifecycle.handover import MOUNTS, Handover
from lading.supervisor.process.resuming import resume
from lading.supervisor.process.worker import LAST
from lading.supervisor.supervisor_config import SupervisorConfig
from lading.testing.supervising import CONTAINER, SUPERVISOR_TOKEN
from tests.reality import need_root
from tests.supervisor.lifecycle.adopting import RUNNING, AdoptingStub

# Seconds for a process of the test to end.
_PATIENCE = 60.0


def test_it_clears_away_and_says_that_it_was_the_last(tmp_path: Path) -> None:
    need_root()
    config = SupervisorConfig(
        container_uuid=CONTAINER,
        supervisor_token=SUPERVISOR_TOKEN,
        run_directory=str(tmp_path / CONTAINER),
        cache_directory=str(tmp_path / "cache"),
        api_socket=str(tmp_path / "none.sock"),
        unreachable_timeout=0.0,
        is_started=True,
    )
    lock = journal.acquire_lock(Path(config.run_directory))
    begun = RunJournal(Path(config.run_directory))
    begun.open(JournalHeader(engine="stub", settings=config.engine_settings))
    begun.close()
    mounts = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    handover = Handover(
        config=structs.replace(config), container=RUNNING, base=(0, 0), names=(PROCESS, MOUNTS)
    )
    file = linux.memory_file("handover", msgspec.json.encode(handover))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            code = resume(
                theirs,
                (file, lock, mounts),
                lock,
                engines=lambda name, settings: AdoptingStub(settings),
            )
        finally:
            os._exit(code)
    with ours, theirs:
        for descriptor in (lock, mounts, file):
            os.close(descriptor)
        assert select.select([ours], [], [], _PATIENCE)[0]
        assert ours.recv(100) == LAST
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert list(tmp_path.iterdir()) == []


def test_without_a_readable_handover_nothing_is_touched(tmp_path: Path) -> None:
    file = linux.memory_file("handover", b"")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, pytest.raises(Malformed):
        resume(theirs, (file,), -1, engines=lambda name, settings: AdoptingStub(settings))
    os.close(file)
