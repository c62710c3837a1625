"""Results of container requests, and the wait for them.

Changes arrive over the websocket; without one, the server is polled, at least once a second. One
list call queries hundreds of requests, however many wait.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lading.core.errors import LadingError, NotFound

# The client is imported when it is used: help and completion need none.
if TYPE_CHECKING:
    import asyncio

    from lading.client.api import ApiClient, Record

_SHORTEST, _LONGEST, _GROWTH = 0.05, 1.0, 1.6
_PAGE = 500
"""Requests of one list call: with 1,000 uuids in a filter the address of the call grows long."""
_SHOWN = ("uuid", "name", "state", "priority", "container_uuid", "output_uuid", "log_uuid")
_SHOWN_OF_CONTAINER = ("uuid", "state", "exit_code", "runtime_status", "output")


_TIMED_OUT, _NO_RESULT, _CANNOT_RUN, _NOT_FOUND = 124, 125, 126, 127


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """A request, and its container, if it has one."""

    request: Record
    container: Record | None

    @property
    def exit_code(self) -> int:
        """The exit code of the command. Without one: 124 after its max_run_time, 127 if it was not
        found, 126 if it cannot be run, else 125.
        """
        container = self.container
        if container is None:
            return _NO_RESULT
        if container["state"] != "Complete" or container["exit_code"] is None:
            return _code_of(container.get("runtime_status") or {})
        code = int(container["exit_code"])
        # Other values cannot be exit codes of a process.
        return code if 0 <= code < 256 else 1

    @property
    def fault(self) -> str:
        """One sentence with the reason why the request has not succeeded; "" after success."""
        container = self.container
        if container is None:
            return f"it never ran (see: lading request why {self.request['uuid']})"
        if container["state"] != "Complete":
            return reason(container)
        return f"exit code {container['exit_code']}" if self.exit_code else ""


def _code_of(status: Record) -> int:
    """The exit code for a container without one, as env(1) and timeout(1) give them."""
    error = str(status.get("error") or "")
    if status.get("failure") == "timeout":
        return _TIMED_OUT
    # `supervisor.engines` begin the message so; the rest is that of crun or of the daemon.
    if "the command cannot be started" not in error:
        return _NO_RESULT
    is_missing = re.search("not found|no such file", error, re.IGNORECASE)
    return _NOT_FOUND if is_missing and "chdir" not in error else _CANNOT_RUN


def reason(container: Record) -> str:
    """The reason of a container's cancellation, in one sentence."""
    status = container.get("runtime_status") or {}
    sentence = str(status.get("error") or "it was cancelled")
    return sentence.removeprefix(f"{container['uuid']}: ").rstrip(".")


async def wait_for_all(
    api: ApiClient, uuids: Sequence[str], progress: Callable[[int, int], None] | None = None
) -> list[RequestOutcome]:
    """Wait until all requests are Final; their outcomes, in the order of `uuids`.

    `progress` takes the number of ended requests, and of all. Raises NotFound for a request that
    was deleted, and the errors of the API.
    """
    ended: dict[str, RequestOutcome] = {}
    left, pause = list(dict.fromkeys(uuids)), _SHORTEST
    async with changes(api) as changed:
        while left:
            found = await ended_among(api, left)
            ended |= {str(one.request["uuid"]): one for one in found}
            left = [uuid for uuid in left if uuid not in ended]
            if progress is not None:
                progress(len(ended), len(ended) + len(left))
            pause = _SHORTEST if found else min(_LONGEST, pause * _GROWTH)
            if left:
                await until_changed(changed, pause)
    return [ended[uuid] for uuid in uuids]


async def ended_among(api: ApiClient, uuids: Sequence[str]) -> list[RequestOutcome]:
    """The outcomes of those requests that are Final. Raises NotFound for one that was deleted."""
    found = []
    for start in range(0, len(uuids), _PAGE):
        found += await _look(api, uuids[start : start + _PAGE])
    return found


@asynccontextmanager
async def changes(api: ApiClient) -> AsyncGenerator[asyncio.Event]:
    """An event that is set with each change that the websocket reports."""
    import asyncio

    from lading.client.api import events

    changed = asyncio.Event()

    async def listen() -> None:
        try:
            async with aclosing(events(api)) as heard:
                async for _ in heard:
                    changed.set()
        except LadingError:
            # The server has no websocket: the polls are enough.
            return

    listener = asyncio.create_task(listen(), name="events")
    try:
        yield changed
    finally:
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)


async def until_changed(changed: asyncio.Event, seconds: float) -> None:
    """Wait for a change, at most so long; several changes at a time are looked at together."""
    import asyncio

    try:
        await asyncio.wait_for(changed.wait(), seconds)
    except TimeoutError:
        return
    await asyncio.sleep(_SHORTEST)
    changed.clear()


async def _look(api: ApiClient, uuids: Sequence[str]) -> list[RequestOutcome]:
    rows = await api.list(
        "container_requests", filters=[["uuid", "in", uuids]], select=_SHOWN, limit=_PAGE
    )
    missing = set(uuids) - {row["uuid"] for row in rows}
    if missing:
        raise NotFound(f"{min(missing)}: was deleted")
    final = [row for row in rows if row["state"] == "Final"]
    held = await _containers(api, (row["container_uuid"] for row in final))
    return [RequestOutcome(row, held.get(row["container_uuid"] or "")) for row in final]


async def _containers(api: ApiClient, uuids: Iterable[str | None]) -> dict[str, Record]:
    wanted = sorted({uuid for uuid in uuids if uuid})
    if not wanted:
        return {}
    rows = await api.list(
        "containers", filters=[["uuid", "in", wanted]], select=_SHOWN_OF_CONTAINER, limit=_PAGE
    )
    return {row["uuid"]: row for row in rows}
