"""The program `nvidia-smi`, asked with a bound of time.

A GPU that hangs makes the program hang in the kernel, where no signal ends it. Such a process is
left behind, and while it is there no other one is started: the caller gets no answer.
"""

from __future__ import annotations

import os
import selectors
import shutil
import stat
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from lading.core.gpus.readings import (
    FIELDS,
    OLD_FIELDS,
    GpuReading,
    read_cuda_version,
    read_query,
)

PROGRAM: Final = "nvidia-smi"
_PATH: Final = "usr/bin/nvidia-smi"
# Seconds: without its daemon the driver of NVIDIA begins anew for each call.
TIMEOUT: Final = 10.0
_MOST_BYTES: Final = 1 << 20
_PIECE: Final = 1 << 16
_ROOT: Final = Path("/")
_hanging: set[subprocess.Popen[bytes]] = set()
_gate = threading.Lock()


def find_program(root: Path = _ROOT) -> Path | None:
    """The program of the machine whose directories are below `root`, if only root or this user can
    have written it.
    """
    path: Path | None = root / _PATH
    if path is not None and not path.is_file():
        other = shutil.which(PROGRAM) if root == _ROOT else None
        path = Path(other) if other else None
    if path is None:
        return None
    status = path.stat()
    is_own = status.st_uid in (0, os.geteuid())
    return path if is_own and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


def query_gpus(root: Path = _ROOT, *, timeout: float = TIMEOUT) -> tuple[GpuReading, ...]:
    """Readings of the GPUs of NVIDIA; () without the program or an answer in `timeout`
    seconds.
    """
    for fields in (FIELDS, OLD_FIELDS):
        arguments = (f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")
        answer = _run(root, arguments, timeout=timeout)
        # The program of an older driver does not know all fields, and says so at once.
        if answer is None or (readings := read_query(answer, fields)):
            return () if answer is None else readings
    return ()


def query_cuda_version(root: Path = _ROOT, *, timeout: float = TIMEOUT) -> str:
    """The version of CUDA that the driver supports; "" where it is not known."""
    return read_cuda_version(_run(root, (), timeout=timeout) or "")


def _run(root: Path, arguments: Sequence[str], *, timeout: float) -> str | None:
    """The output of the program, whatever its exit code; None if it does not end in time."""
    program = find_program(root)
    with _gate:
        _hanging.difference_update([process for process in _hanging if process.poll() is not None])
        if program is None or _hanging:
            return None
    try:
        process = subprocess.Popen(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C"},
        )
    except OSError:
        return None
    output = _output(process, until=time.monotonic() + timeout)
    if process.stdout is not None:
        process.stdout.close()
    if output is None:
        process.kill()
        with _gate:
            _hanging.add(process)
        return None
    return output.decode(errors="replace")


def _output(process: subprocess.Popen[bytes], *, until: float) -> bytes | None:
    """The output of a program that ends until a moment; None for another one, and for one that
    prints too much.
    """
    output = bytearray()
    with selectors.DefaultSelector() as selector, suppress(subprocess.TimeoutExpired):
        if process.stdout is not None:
            selector.register(process.stdout, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0 and len(output) <= _MOST_BYTES:
            for key, _ in selector.select(left):
                piece = os.read(key.fd, _PIECE)
                output += piece
                if not piece:
                    process.wait(left)
                    return bytes(output)
    return None
