"""Limits of a container that no control group enforces: in its bundle, and by samples of its
memory (`limit_ways` tells which).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final

from msgspec import structs

from lading.supervisor import linux
from lading.supervisor.engines import Exit
from lading.supervisor.limits import counters
from lading.supervisor.limits.limit_ways import LimitWays
from lading.supervisor.limits.memory_samples import MemoryLimit

SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - a path inside the container


def with_limits(config: dict[str, Any], ways: LimitWays) -> dict[str, Any]:
    """The configuration of a bundle with the limits that need no control group. Files in /dev/shm
    are memory that no process needs to have open.
    """
    if ways.nproc:
        row = {"type": "RLIMIT_NPROC", "hard": ways.nproc, "soft": ways.nproc}
        config["process"]["rlimits"].append(row)
    if ways.sampled_ram:
        for mount in config["mounts"]:
            if mount["destination"] == SHARED_MEMORY and mount["type"] == "tmpfs":
                mount["options"] = [*mount["options"], f"size={ways.sampled_ram}"]
    return config


async def end_above(
    ram: int, running: Coroutine[Any, Any, Exit], runtime_pid: Callable[[], int | None]
) -> Exit:
    """The end of a command that runs, with its container ended when a sample finds more than `ram`
    bytes. `runtime_pid` is the process that runs the container.
    """

    def find_first() -> int | None:
        pid = runtime_pid()
        return linux.find_init(counters.descendants(pid)) if pid else None

    limit = MemoryLimit(ram, find_first, _kill)
    watching = asyncio.create_task(limit.run(), name="memory samples")
    try:
        ended = await running
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    if not limit.excess:
        return ended
    return structs.replace(ended, out_of_memory=True, sampled_memory=limit.excess)


def _kill(first: int) -> None:
    # Its pid namespace ends with it. It has ended already.
    with contextlib.suppress(ProcessLookupError):
        os.kill(first, signal.SIGKILL)
