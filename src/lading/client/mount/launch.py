"""Starting a mount in a process of its own, and ending it. These functions block.

The process (`client.mount.__main__`) and its parent exchange lines of `net.rpc`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, Any

from lading.client.mount.service import MountSettings
from lading.core.errors import RequestError, Unavailable
from lading.core.protocols import messages
from lading.net import rpc

# Seconds until the mount must be established, and for its orderly end; then it is killed.
_START_TIME = 60.0
_END_TIME = 8.0


def launch(
    settings: MountSettings,
    *,
    log: int | IO[bytes] | None = None,
    pass_fds: Sequence[int] = (),
    limit: float = _START_TIME,
) -> subprocess.Popen[bytes]:
    """Start a process and wait until it has mounted. Its log goes to `log` (None: our standard
    error).

    Unless the settings are `tied`, it continues when this process ends. Raises Unavailable with its
    reason.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "lading.client.mount"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        # Ctrl-C must reach only the parent, which then ends the mount.
        start_new_session=True,
        pass_fds=pass_fds,
    )
    try:
        _tell(process, settings)
        answer = _answer(process, limit)
    except BaseException:
        process.kill()
        finish(process)
        raise
    if "error" in answer:
        finish(process)
        raise Unavailable(str(answer["error"]))
    return process


def finish(process: subprocess.Popen[bytes], *, limit: float = _END_TIME) -> dict[str, Any]:
    """End the mount; return its statistics, {} if it was killed after `limit` seconds.
    Idempotent.
    """
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    return wait(process, limit=limit)


def wait(process: subprocess.Popen[bytes], *, limit: float | None = None) -> dict[str, Any]:
    """Wait for the end of the process, which is killed after `limit` seconds; return its
    statistics.
    """
    if process.stdout is None or process.stdout.closed:
        return {}
    # Closing standard input would end a tied mount, and `communicate` closes it if it knows it.
    kept, process.stdin = process.stdin, None
    try:
        said, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {}
    finally:
        process.stdin = kept
        if kept is not None and process.returncode is not None:
            kept.close()
    for line in (said or b"").splitlines():
        found = messages.read_object(line).get("statistics")
        if isinstance(found, dict):
            return found
    return {}


def _tell(process: subprocess.Popen[bytes], settings: MountSettings) -> None:
    assert process.stdin is not None
    try:
        rpc.write_line(process.stdin.fileno(), settings)
        if not settings.tied:
            process.stdin.close()
            process.stdin = None
    except BrokenPipeError as error:
        raise Unavailable("the process of the mount ended at once") from error


def _answer(process: subprocess.Popen[bytes], limit: float) -> dict[str, Any]:
    assert process.stdout is not None
    try:
        answer = rpc.read_line(process.stdout.fileno(), dict[str, Any], timeout=limit)
    except TimeoutError as error:
        raise Unavailable(f"nothing was mounted within {limit:g} s") from error
    except RequestError:
        answer = None
    if not answer:
        raise Unavailable("the process of the mount ended at once; its log says why")
    return answer
