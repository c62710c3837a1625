"""Starts each program of an image once, in a container of the site, and names failing programs."""

from __future__ import annotations

import asyncio
import math
import posixpath
import re
from collections.abc import Sequence
from contextlib import suppress

from lading.client.api import ApiClient
from lading.core.errors import LadingError
from lading.core.program_starts import SECONDS, faults, script

# Seconds for which the check may wait in the queue, for its image to be unpacked too, and between
# two looks.
_QUEUED, _PREPARED, _PAUSE = 5.0, 300.0, 0.1
# Seconds besides the time of the programs.
_MORE = 30
_STAMP = re.compile(r"^\d{4}-\d\d-\d\dT[0-9:.]+Z ", re.MULTILINE)


async def check_programs(
    api: ApiClient, pdh: str, programs: Sequence[str], *, queued: float = _QUEUED
) -> tuple[str, ...]:
    """Remarks about programs of the image `pdh` that do not start. The request is deleted
    afterwards.
    """
    names = sorted({posixpath.basename(name) for name in programs})
    body = {
        "state": "Committed",
        "name": "check of an image: do its programs start?",
        "command": ["sh", "-c", script(names)],
        "container_image": pdh,
        "cwd": "/tmp",  # noqa: S108 - a path inside the container
        "output_path": "/out",
        "mounts": {"/out": {"kind": "tmp"}},
        "runtime_constraints": {"vcpus": 1, "ram": 512 << 20},
        "scheduling_parameters": {"max_run_time": _MORE + 2 * (SECONDS + 1) * len(names)},
        "container_count_max": 1,
        "priority": 1000,
    }
    try:
        request = await api.create("container_requests", body)
    except LadingError as error:
        return (f"whether its programs start is not known: {error.message}",)
    uuid = request["uuid"]
    try:
        if not await _ends(api, uuid, queued):
            return ("whether its programs start is not known: no worker was free to try them",)
        request = await api.get("container_requests", uuid)
        path = f"container_requests/{uuid}/log/{request['container_uuid']}/stdout.txt"
        text = (await api.raw("GET", path)).body.decode("utf-8", "replace")
        return faults(names, _STAMP.sub("", text))
    except LadingError as error:
        return (f"whether its programs start is not known: {error.message}",)
    finally:
        with suppress(LadingError):
            await api.update("container_requests", uuid, {"priority": 0})
        with suppress(LadingError):
            await api.delete("container_requests", uuid)


async def _ends(api: ApiClient, uuid: str, queued: float) -> bool:
    """Wait for the end of a request; False if its container is not begun in time."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        request = await api.get("container_requests", uuid, select=["state", "container_uuid"])
        if request["state"] == "Final":
            return True
        container = request["container_uuid"] and await api.get(
            "containers", request["container_uuid"], select=["state"]
        )
        state = container["state"] if container else "Queued"
        limits = {"Queued": queued, "Locked": _PREPARED}
        if loop.time() - began > limits.get(state, math.inf):
            return False
        await asyncio.sleep(_PAUSE)
