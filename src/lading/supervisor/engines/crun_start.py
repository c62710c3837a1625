"""How the native engine starts crun in its container's cgroup, and what a failed start means."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import ContainerSpec

# Joins every cgroup named before `--`, then becomes the program after it.
_JOIN = 'while [ "$1" != -- ]; do echo 0 > "$1" || exit 125; shift; done; shift; exec "$@"'
_Answer = TypeVar("_Answer")


def joining(files: Sequence[str]) -> list[str]:
    """Command prefix that joins the cgroups with these files."""
    # $0 is "sh"; the files and the command follow.
    return ["/bin/sh", "-c", _JOIN, "sh", *files, "--"] if files else []


def spawn(
    spec: ContainerSpec,
    command: list[str],
    executable: str | None = None,
    *,
    environment: dict[str, str],
    program: int = -1,
) -> subprocess.Popen[bytes]:
    """Start crun, or the conductor of a gang, with the streams of the container. Raises OSError."""
    null = subprocess.DEVNULL
    return subprocess.Popen(
        command,
        executable=executable,
        stdin=spec.stdin if spec.stdin >= 0 else null,
        stdout=spec.stdout if spec.stdout >= 0 else null,
        stderr=spec.stderr if spec.stderr >= 0 else null,
        env=environment,
        cwd="/",
        pass_fds=[
            *(one for one in (program, spec.notices) if one >= 0),
            *(spec.spread.descriptors if spec.spread else ()),
        ],
    )


def in_thread_of_its_own(work: Callable[[], _Answer]) -> _Answer:
    """Do some work in a thread that ends with it. This saves one exec against a shell that joins
    the cgroup and becomes crun.
    """
    answers: list[_Answer] = []
    faults: list[OSError] = []

    def do() -> None:
        try:
            answers.append(work())
        except OSError as error:
            faults.append(error)

    # Until the kernel has removed the thread the cgroup seems to contain this whole process
    # (`Cgroup.processes`).
    thread = threading.Thread(target=do, name="start")
    thread.start()
    thread.join()
    for fault in faults:
        raise fault
    return answers[0]


def failure(said: str) -> ExecutionError:
    """The error for a message of crun about a command that was never started."""
    # Words of crun's messages about the command itself; others are faults of the machine.
    if "executable" in said or "exec " in said or "chdir" in said:
        return ExecutionError(
            f"the command cannot be started: {said};"
            " is the program, or the interpreter it names, in the image?",
            Failure.USER,
        )
    return ExecutionError(f"the container cannot be started: {said}", Failure.NODE)
