"""An engine's service for a test session: started in a directory of its own, awaited, ended, its
leavings removed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lading.supervisor import linux

_PATIENCE = 180.0
Command = Callable[[Path, Path], list[str]]


@contextmanager
def running_service(
    prefix: str, command: Command, answers: Callable[[Path], bool], environment: Mapping[str, str]
) -> Iterator[Path]:
    """The socket of the service that `command` makes of a directory and a socket; it runs when it
    `answers` there.

    Raises FileNotFoundError for a program that is not installed, RuntimeError with the end of its
    log otherwise.
    """
    # The path of a Unix socket must be short, so pytest's directories will not do.
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    process = None
    try:
        socket = directory / "s.sock"
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                command(directory, socket), stdout=log, stderr=log, start_new_session=True,
                cwd=directory, env=os.environ | environment,
            )  # fmt: skip
        until = time.monotonic() + _PATIENCE
        while not answers(socket):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(
                    f"it did not start: {(directory / 'log').read_text(errors='replace')[-2000:]}"
                )
            time.sleep(0.05)
        yield socket
    finally:
        if process is not None:
            _end(process)
        _remove(directory)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _remove(directory: Path) -> None:
    """It may still be at work on what it left."""
    until = time.monotonic() + _PATIENCE
    while directory.exists():
        with contextlib.suppress(OSError):
            for point in linux.mounts_below(str(directory)):
                linux.unmount(point)
            shutil.rmtree(directory)
        if time.monotonic() > until:
            raise RuntimeError(f"{directory} cannot be removed")
