from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.supervisor.engines.crun import SealedProgram


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of echo, called `say`, on PATH."""
    path = tmp_path / "say"
    path.write_bytes(Path("/bin/echo").read_bytes())
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return path


@pytest.fixture
def program() -> Iterator[SealedProgram]:
    program = SealedProgram("say")
    yield program
    program.close()


def test_it_runs_from_memory_and_cannot_be_written(program: SealedProgram, script: Path) -> None:
    assert program.descriptor == -1
    program.seal()
    descriptor = program.descriptor
    done = subprocess.run(
        ["say", "hello"],
        executable=f"/proc/self/fd/{descriptor}",
        pass_fds=[descriptor],
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"hello\n"
    with pytest.raises(PermissionError):
        os.write(descriptor, b"x")
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)


def test_one_that_was_replaced_is_not_run_again(program: SealedProgram, script: Path) -> None:
    program.seal()
    script.unlink()
    assert program.descriptor == -1
    script.write_bytes(Path("/bin/true").read_bytes())
    assert program.descriptor == -1


def test_without_the_program_there_is_no_copy(
    program: SealedProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    program.seal()
    assert program.descriptor == -1


def test_without_memory_there_is_no_copy(
    program: SealedProgram, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", refuse)
    program.seal()
    assert program.descriptor == -1
