"""A process that goes on with the container of a supervisor that has ended.

It is forked by the forkserver, which has kept the handover (`lifecycle.handover`). It joins the
mount namespace of the first supervisor before it has a second thread, drives the rest of the life
cycle, and ends: another container gets a process of the usual kind. It talks to the forkserver as
a worker does, and hands the container over in its turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from lading.supervisor import journal, linux
from lading.supervisor.container_trace import close_tracer
from lading.supervisor.engines import EngineMaker
from lading.supervisor.lifecycle.driver import resumed_steps
from lading.supervisor.lifecycle.handover import MOUNTS, ReceivedHandover, receive
from lading.supervisor.process.serving import Signals, ignore_probes, live
from lading.supervisor.process.worker import LAST, keep_handover, say_free


def resume(
    connection: socket.socket, descriptors: Sequence[int], lock: int, *, engines: EngineMaker
) -> int:
    """Go on with the container of a handover; `lock` is the descriptor that locks its run
    directory. Returns the exit code of the process. Raises Malformed, OSError.
    """
    ignore_probes()
    handover = receive(descriptors)
    linux.join_mount_namespace(handover.descriptors[MOUNTS])
    try:
        return asyncio.run(_serve(connection, handover, lock, engines))
    finally:
        close_tracer(handover.config.tracing)


async def _serve(
    connection: socket.socket, handover: ReceivedHandover, lock: int, engines: EngineMaker
) -> int:
    connection.setblocking(False)
    signals = Signals()
    # Who finds this process there may send a signal.
    holder = journal.LockHolder(UUID=handover.config.container_uuid, PID=os.getpid())
    journal.write_holder(lock, holder)
    code = await live(
        handover.config,
        signals,
        engines=engines,
        on_idle=lambda: say_free(connection),
        hand_over=lambda descriptors: keep_handover(connection, descriptors),
        steps=resumed_steps(handover),
    )
    if not Path(handover.config.run_directory).exists():  # noqa: ASYNC240 - nothing else runs
        # Nobody needs to go on. Without a parent nobody could.
        with contextlib.suppress(OSError):
            connection.send(LAST)
    return code
