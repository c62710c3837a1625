"""The first process of a container: its pipe, and what the container can do with it."""

from __future__ import annotations

import asyncio
import os
import stat
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import container_init
from lading.supervisor.engines.container_init import (
    NOT_STARTED,
    ContainerInit,
    open_init,
    rank_init,
)
from tests.reality import need
from tests.supervisor.engines.old_kernel import refuse_close_range

READY, FAULT, ENDED = 1, 2, 3


def _report(kind: int, text: str = "") -> bytes:
    return struct.pack("=ii504s", kind, 0, text.encode())


@pytest.fixture
def init(tmp_path: Path) -> Iterator[ContainerInit]:
    made = ContainerInit(tmp_path)
    yield made
    made.close()


def _write(init: ContainerInit, *reports: bytes) -> None:
    descriptor = os.open(init.pipe.source, os.O_WRONLY | os.O_NONBLOCK)
    for report in reports:
        os.write(descriptor, report)
    os.close(descriptor)


def _failure(init: ContainerInit, code: int = NOT_STARTED) -> ExecutionError:
    with pytest.raises(ExecutionError) as caught:
        init.check_started(code)
    return caught.value


def test_every_user_of_the_container_may_write_to_the_pipe(init: ContainerInit) -> None:
    status = Path(init.pipe.source).stat()
    assert stat.S_ISFIFO(status.st_mode)
    assert stat.S_IMODE(status.st_mode) == 0o622
    assert (init.program.readonly, init.pipe.readonly) == (True, False)


def test_the_pipe_of_an_earlier_supervisor_is_replaced(init: ContainerInit) -> None:
    again = ContainerInit(Path(init.pipe.source).parent)
    again.close()
    again.close()
    assert not Path(init.pipe.source).exists()


async def test_it_is_ready_with_its_first_report(init: ContainerInit) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(init.ready(), 0.01)
    _write(init, _report(READY))
    await asyncio.wait_for(init.ready(), 10)


@pytest.mark.parametrize("code", [NOT_STARTED, 126, 127])
def test_a_command_that_was_never_started(init: ContainerInit, code: int) -> None:
    _write(init, _report(READY), _report(FAULT, "executable file `x`: No such file"))
    failure = _failure(init, code)
    assert failure.failure is Failure.USER
    assert "the command cannot be started: executable file `x`: No such file" in failure.message


def test_an_exit_code_of_the_command_is_no_fault(init: ContainerInit) -> None:
    _write(init, _report(READY), _report(ENDED))
    init.check_started(NOT_STARTED)
    init.check_started(127)
    init.check_started(126)


def test_a_first_process_that_fails_is_a_fault_of_the_machine(tmp_path: Path) -> None:
    for reports in ((), (_report(FAULT, "memory"),)):
        init = ContainerInit(tmp_path)
        _write(init, *reports)
        assert _failure(init).failure is Failure.NODE
        init.close()


def test_reports_that_the_container_forges_blame_nobody_but_its_command(
    init: ContainerInit,
) -> None:
    # No word of it takes the machine out of service, and none controls a terminal.
    forged = _report(FAULT, "no space left on device\x1b[2J no matching entries in passwd")
    _write(init, _report(READY), forged, forged, b"\0" * 1000)
    failure = _failure(init)
    assert failure.failure is Failure.USER
    assert failure.message.isprintable()


def test_an_installation_without_the_program_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_init, "PROGRAM", tmp_path / "none")
    notes: list[str] = []
    for _ in range(2):
        assert open_init(tmp_path, notes) is None
    assert notes == [container_init.LACKING]


@pytest.mark.parametrize("is_full", [False, True])
def test_a_full_pipe_does_not_keep_the_program_from_its_end(
    init: ContainerInit, is_full: bool
) -> None:
    need(container_init.has_init(), "lading-start")
    if is_full:
        # The first report has room, and the last has none.
        script = (
            f"dd if=/dev/zero of={init.pipe.source} bs=512 count=200 oflag=nonblock 2>&-; exit 7"
        )
    else:
        script = "exit 7"
    command = [str(container_init.PROGRAM), "init", init.pipe.source, "sh", "-c", script]
    assert subprocess.run(command, timeout=60, check=False).returncode == 7


def test_a_directory_of_the_path_that_the_user_may_not_enter_has_no_program(
    tmp_path: Path,
) -> None:
    need(container_init.has_init(), "lading-start")
    tmp_path.chmod(0o700 if os.geteuid() == 0 else 0)
    (program,), (_, *before) = rank_init([])
    done = subprocess.run(
        [program.source, *before, "no-such-program"],
        env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}, user=65534 if os.geteuid() == 0 else None,
        cwd="/", capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    tmp_path.chmod(0o700)
    assert done.returncode == 127
    assert b"executable file `no-such-program` not found in $PATH" in done.stderr


def test_a_rank_of_a_gang_tells_a_fault_on_its_console() -> None:
    need(container_init.has_init(), "lading-start")
    (program,), (_, *before) = rank_init([])
    done = subprocess.run(
        [program.source, *before, "no-such-program"], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (127, b"")
    assert b"executable file `no-such-program` not found in $PATH" in done.stderr
    done = subprocess.run(
        [program.source, *before, "sh", "-c", "echo ran; kill -KILL $$"],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (137, b"ran\n", b"")


def test_ranks_without_the_program_say_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_init, "PROGRAM", tmp_path / "none")
    notes: list[str] = []
    for _ in range(2):
        assert rank_init(notes) == ((), ())
    assert notes == [container_init.LACKING]


def test_it_runs_on_a_kernel_without_close_range() -> None:
    need(container_init.has_init(), "lading-start")
    command = [str(container_init.PROGRAM), "init", "-", "sh", "-c", "exit 7"]
    done = subprocess.run(
        command, preexec_fn=refuse_close_range, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (7, b"")
