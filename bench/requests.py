"""Submitting containers, seeing them end, and reading what they left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.files.downloads import read_file
from lading.client.record_events import RecordEvent, events
from lading.core.data import filetree
from lading.core.quantities import parse_time

_LIMIT = 120.0
_OUTPUT = "/out"
_REQUEST = "arvados#containerRequest"


class Watch:
    """Hears of finished requests as they finish. Use `follow` as a task."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._ends: dict[str, float] = {}
        self._change = asyncio.Condition()
        self.listening = asyncio.Event()

    async def follow(self) -> None:
        """Take note of every request that becomes Final, with the time at which it was heard."""
        async for item in events(self._client, kinds=(_REQUEST,)):
            if not isinstance(item, RecordEvent):
                self.listening.set()
            elif item.object_kind == _REQUEST and _new_state(item) == "Final":
                async with self._change:
                    self._ends[item.object_uuid] = time.time()
                    self._change.notify_all()

    async def end(self, uuid: str, *, limit: float = _LIMIT) -> float:
        """The time (seconds since 1970) at which the end of a request was heard. Raises
        TimeoutError.
        """
        async with asyncio.timeout(limit), self._change:
            await self._change.wait_for(lambda: uuid in self._ends)
            return self._ends[uuid]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One container after its end: times in seconds since 1970, and the texts of what it saved."""

    queued: float
    finished: float
    heard: float
    log: dict[str, str]
    output: dict[str, str]


def request_body(
    image: str, command: list[str], *, ram: int = 64 << 20, **more: object
) -> dict[str, Any]:
    """A committed request for one small container that is never reused. `more` are further
    attributes.
    """
    return {
        "state": "Committed",
        "name": "bench",
        "priority": 500,
        "use_existing": False,
        "container_image": image,
        "command": command,
        "cwd": _OUTPUT,
        "output_path": _OUTPUT,
        "mounts": {_OUTPUT: {"kind": "tmp", "capacity": 1 << 20}},
        "runtime_constraints": {"vcpus": 1, "ram": ram},
        **more,
    }


async def submit(
    client: ApiClient, image: str, command: list[str], *, ram: int = 64 << 20, **more: object
) -> str:
    """Commit one such request; its uuid."""
    body = request_body(image, command, ram=ram, **more)
    return str((await client.create("container_requests", body))["uuid"])


async def submit_batch(client: ApiClient, bodies: Sequence[dict[str, Any]]) -> list[str]:
    """Create all requests in one call, at most 1,000; their uuids."""
    answer = await client.action(
        "container_requests",
        None,
        "batch",
        body={"container_requests": list(bodies), "select": ["uuid"]},
    )
    return [str(item["uuid"]) for item in answer["items"]]


async def inspect(client: ApiClient, blocks: BlockClient, uuid: str, *, heard: float) -> Outcome:
    """Read what a request left. Raises RuntimeError when it did not end well or saved nothing."""
    request = await client.get("container_requests", uuid)
    container = await client.get("containers", request["container_uuid"])
    if container["state"] != "Complete" or container["exit_code"] != 0:
        raise RuntimeError(
            f"{container['uuid']} ended {container['state']}, exit code {container['exit_code']}"
        )
    if request["container_count"] != 1:
        log = await _texts(client, blocks, request["log_uuid"])
        said = "; ".join(text for path, text in log.items() if path.endswith("/crunch-run.txt"))
        raise RuntimeError(
            f"{uuid} took {request['container_count']} attempts; the supervisors said: {said}"
        )
    if not request["log_uuid"] or not request["output_uuid"]:
        raise RuntimeError(f"{uuid} has no log or no output")
    return Outcome(
        queued=_seconds(parse_time(container["created_at"])),
        finished=_seconds(parse_time(container["finished_at"])),
        heard=heard,
        log=await _texts(client, blocks, request["log_uuid"]),
        output=await _texts(client, blocks, request["output_uuid"]),
    )


def lines_of(outcome: Outcome, name: str) -> list[str]:
    """The lines of a log file, their time stamps taken off."""
    return [line.partition(" ")[2] for line in outcome.log.get(name, "").splitlines()]


async def _texts(client: ApiClient, blocks: BlockClient, uuid: str) -> dict[str, str]:
    record: dict[str, Any] = await client.get("collections", uuid)
    tree = filetree.from_manifest(record["manifest_text"])
    found = {}
    for path, file in filetree.files(tree):
        found[path] = b"".join([chunk async for chunk in read_file(blocks, file)]).decode(
            errors="replace"
        )
    return found


def _new_state(item: RecordEvent) -> str:
    attributes = item.properties.get("new_attributes")
    return str(attributes.get("state")) if isinstance(attributes, dict) else ""


def _seconds(moment: datetime) -> float:
    return moment.timestamp()
