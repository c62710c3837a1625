"""Network namespaces for tests."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def other_network(*more: str) -> Iterator[int]:
    """A process in a network namespace of its own (and in others that `unshare` is told); its
    number.
    """
    command = ["unshare", "--net", *more, "sh", "-c", "echo ready; exec sleep 600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            assert (
                Path(f"/proc/{process.pid}/ns/net").readlink()
                != Path("/proc/self/ns/net").readlink()
            )
            yield process.pid
        finally:
            process.kill()
