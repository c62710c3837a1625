"""On which machine a container runs or ran: from its log, or before that is saved in the words of
its dispatcher.
"""

from __future__ import annotations

from typing import Final

from lading.client import explanations
from lading.core.containers.log_files import machine_name
from lading.core.errors import LadingError
from lading.web.visit import Visit

_HEAD: Final = 1024
"""Bytes of the file within which the name of the machine is."""


async def describe(visit: Visit, request: str, container: str) -> str:
    """The name of the machine, or the sentence of the dispatcher; "" if neither is known."""
    return await _named(visit, request, container) or await _placement_sentence(
        visit, request, container
    )


async def _named(visit: Visit, request: str, container: str) -> str:
    path = f"container_requests/{request}/log/{container}/node-info.txt"
    try:
        answer = await visit.api.raw("GET", path, headers={"Range": f"bytes=0-{_HEAD - 1}"})
    except LadingError:
        # The file is saved with the log, at the end at the latest.
        return ""
    return machine_name(answer.body.decode(errors="replace"))


async def _placement_sentence(visit: Visit, request: str, container: str) -> str:
    try:
        why = await visit.api.action("container_requests", request, "why", method="GET")
    except LadingError:
        return ""
    return explanations.place_text(why.get("dispatch") or (), container)
