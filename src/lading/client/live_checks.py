"""`lading doctor --live`: numbered checks of a running site, the last of which run a container.

    1 server       it answers, with its version
    2 clock        the clocks of both sides agree
    3 token        it is that of an active user
    4 parts        database, dispatchers, storage and webhooks are well, as the server says
    5 blocks       a block is stored and read back
    6 collection   a collection of it is made
    7 files        its file is read over WebDAV
    8 events       a change of it is heard of
    9 image        there is one for the container
    10 container   a request with the collection as its input runs to its end
    11 output      its output and log are stored, and are the right ones
    12 clean up    the records of the test are removed

A check that fails says what to do. Checks that need its result are skipped, the others go on. The
records are removed in any case; what cannot be removed goes to the trash an hour later.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from lading.client.api import ApiClient, Record
from lading.client.blocks import BlockClient
from lading.client.checks import CheckFault, CheckRunner, CheckStep
from lading.client.files.collections import CollectionWriter
from lading.client.files.downloads import read_file
from lading.client.images.links import StoredImage, is_stored, list_images
from lading.client.record_events import Reconnected, RecordEvent, events
from lading.core.data import filetree
from lading.core.errors import LadingError, NotFound
from lading.core.quantities import format_time, parse_time

# Seconds by which the clocks may differ: signatures of blocks and times of requests depend on it.
_SKEW: Final = 60.0
# Bytes of the block that is stored and read.
_BLOCK: Final = 1 << 18
# Seconds until the event of a change, and after which the records of the test go to the trash.
_EVENT: Final = 15.0
_KEPT: Final = 3600.0
_RAM: Final = 64 << 20
_FILE: Final = "word"
_SCRIPT: Final = f'read word < /in/{_FILE}; echo "$word"; echo done >&2'


@dataclass(kw_only=True)
class LiveTest:
    """The checks of one site.

    `word` is any text that no earlier test used; `image` names the image, "" for the newest;
    `patience` are the seconds for the container. `clock` returns Unix seconds, `pause` are the
    seconds between two looks at the request.
    """

    api: ApiClient
    blocks: BlockClient
    word: str
    image: str = ""
    patience: float = 300.0
    clock: Callable[[], float] = time.time
    pause: float = 0.2
    _created: list[tuple[str, str]] = field(default_factory=list)
    _collection: Record = field(default_factory=dict)
    _request: Record = field(default_factory=dict)
    _container: Record = field(default_factory=dict)
    _image: str = ""

    async def run(self, tell: Callable[[CheckStep], None]) -> bool:
        """Carry out the checks, one after the other, and tell each that is over; whether all went
        well.
        """
        checks = self._checks()
        remedies = {name: remedy for name, _, _, remedy in checks}
        runner = CheckRunner(remedies, tell=tell, clock=time.perf_counter)
        try:
            for name, needs, check, _ in checks:
                missing = [needed for needed in needs if needed in runner.failed]
                if missing:
                    runner.skip(name, missing[0])
                else:
                    await runner.attempt(name, check())
        finally:
            # The caller may have stopped in the middle.
            if self._created:
                await self._remove_all()
        return not runner.failed

    def _checks(
        self,
    ) -> tuple[tuple[str, tuple[str, ...], Callable[[], Awaitable[str]], str], ...]:
        """Name, the names of the checks that it needs, the work, and what to do about a fault that
        says nothing about that itself.
        """
        log = "look at the server's log: log/server.log of the data directory, or journalctl"
        return (
            ("server", (), self._look_at_server, "start it with 'lading up', or name it"),
            ("clock", ("server",), self._compare_clocks, log),
            ("token", ("server",), self._look_at_token, "make another token, or log in again"),
            ("parts", ("token",), self._look_at_parts, log),
            ("blocks", ("token",), self._store_block, f"'lading admin status'; {log}"),
            ("collection", ("blocks",), self._make_collection, log),
            ("files", ("collection",), self._read_over_webdav, log),
            ("events", ("collection",), self._hear_of_change, "proxies must let websockets pass"),
            ("image", ("token",), self._find_image, "lading image add --from-host sh --name sh:1"),
            ("container", ("collection", "image"), self._run_container, "lading request why last"),
            ("output", ("container",), self._read_output, log),
            ("clean up", ("token",), self._clean_up, "remove the records named 'lading doctor'"),
        )

    async def _look_at_server(self) -> str:
        found = await self.api.request("GET", "/status.json")
        return f"lading {found['Version']}"

    async def _compare_clocks(self) -> str:
        answer = await self.api.raw("GET", "/status.json")
        said = answer.headers.get("date", "")
        if not said:
            return "the server tells no time"
        # The header has whole seconds.
        off = self.clock() - parsedate_to_datetime(said).timestamp()
        if abs(off) > _SKEW:
            raise CheckFault(
                f"this clock is {off:+.0f} s off the server's",
                "set both: timedatectl set-ntp true",
            )
        return f"within {max(1, round(abs(off)))} s"

    async def _look_at_token(self) -> str:
        user = await self.api.get("users", "current")
        if not user["is_active"]:
            raise CheckFault(
                f"{user['uuid']} is not active", "an admin activates users on the page"
            )
        return f"{user['email'] or user['uuid']}{', admin' if user['is_admin'] else ''}"

    async def _look_at_parts(self) -> str:
        health = await self.api.request("GET", "health")
        faults = [
            f"{component['name']}: {component['text'] or component['state']}"
            for component in health["parts"]
            # Without a dispatcher nothing runs; of another part nothing may be known for good.
            if component["state"] == "fault"
            or (component["name"] == "dispatchers" and component["state"] != "ok")
        ]
        if faults:
            raise CheckFault("; ".join(faults), "docs/troubleshooting.md; the logs of these parts")
        return ", ".join(
            str(component["name"]) for component in health["parts"] if component["state"] == "ok"
        )

    async def _store_block(self) -> str:
        data = (self.word.encode() * (_BLOCK // len(self.word) + 1))[:_BLOCK]
        locator = await self.blocks.put(data)
        if await self.blocks.get(locator) != data:
            raise CheckFault(f"{locator}: other bytes came back", "lading admin scrub")
        return f"{_BLOCK >> 10} KiB stored and read"

    async def _make_collection(self) -> str:
        async with CollectionWriter(self.blocks) as writer:
            await writer.add_bytes(_FILE, f"{self.word}\n".encode())
            manifest = await writer.finish()
        self._collection = await self.api.create(
            "collections",
            {
                "name": f"lading doctor {self.word}",
                "manifest_text": manifest,
                "trash_at": format_time(datetime.fromtimestamp(self.clock() + _KEPT, UTC)),
            },
        )
        self._created.append(("collections", str(self._collection["uuid"])))
        return str(self._collection["uuid"])

    async def _read_over_webdav(self) -> str:
        answer = await self.api.raw("GET", f"/c={self._collection['uuid']}/{_FILE}")
        if answer.body != f"{self.word}\n".encode():
            raise CheckFault("another content came back", "look at the server's log")
        return f"{len(answer.body)} bytes of {_FILE}"

    async def _hear_of_change(self) -> str:
        try:
            async with asyncio.timeout(_EVENT), aclosing(events(self.api)) as stream:
                async for event in stream:
                    if isinstance(event, Reconnected):
                        changes = {"properties": {"doctor": self.word}}
                        await self.api.update("collections", self._collection["uuid"], changes)
                    elif _is_about(event, self._collection):
                        return f"heard of {event.event_type}"
        except TimeoutError:
            pass
        raise CheckFault(
            f"no event within {_EVENT:.0f} s",
            "proxies must let websockets pass; programs that wait for events look more slowly",
        )

    async def _find_image(self) -> str:
        if self.image:
            if not await is_stored(self.api, self.image):
                raise NotFound(f"{self.image}: there is no such image")
            self._image = self.image
            return self.image
        known = await list_images(self.api)
        if not known:
            raise NotFound("there is no image that this token may use")
        self._image = known[0].pdh
        return _shown(known[0])

    async def _run_container(self) -> str:
        spec: Record = {
            "name": f"lading doctor {self.word}",
            "state": "Committed",
            "priority": 500,
            "use_existing": False,
            "container_image": self._image,
            "command": ["sh", "-c", _SCRIPT],
            "cwd": "/out",
            "output_path": "/out",
            "mounts": {
                "/out": {"kind": "tmp", "capacity": 1 << 20},
                "stdout": {"kind": "file", "path": f"/out/{_FILE}"},
                "/in": {
                    "kind": "collection",
                    "portable_data_hash": self._collection["portable_data_hash"],
                },
            },
            "runtime_constraints": {"vcpus": 1, "ram": _RAM},
        }
        self._request = await self.api.create("container_requests", spec)
        self._created.append(("container_requests", str(self._request["uuid"])))
        try:
            async with asyncio.timeout(self.patience):
                while self._request["state"] != "Final":
                    await asyncio.sleep(self.pause)
                    self._request = await self.api.get("container_requests", self._request["uuid"])
        except TimeoutError:
            raise await self._late() from None
        self._created += [
            ("collections", str(self._request[name]))
            for name in ("output_uuid", "log_uuid")
            if self._request[name]
        ]
        self._container = await self.api.get("containers", self._request["container_uuid"])
        return self._judge(self._container)

    async def _late(self) -> CheckFault:
        why = await self.api.action(
            "container_requests", self._request["uuid"], "why", method="GET"
        )
        reasons = [str(wait["sentence"]) for wait in why.get("waits") or ()]
        reason = " ".join(reasons) or str(why.get("scheduling_status") or "nothing is known")
        return CheckFault(
            f"it has not ended within {self.patience:.0f} s: {reason}",
            "act on the reason, or wait longer with --timeout",
        )

    def _judge(self, container: Record) -> str:
        if container["state"] != "Complete" or container["exit_code"] != 0:
            fault = (
                container["runtime_status"].get("error") or f"exit code {container['exit_code']}"
            )
            remedy = (
                "name an image with a shell: --image"
                if container["exit_code"] in (126, 127)
                else "docs/troubleshooting.md; the log of the dispatcher and of its machine"
            )
            raise CheckFault(f"{container['uuid']}: {fault}", remedy)
        waited = _between(container["created_at"], container["started_at"])
        ran = _between(container["started_at"], container["finished_at"])
        return f"{container['uuid']}: began after {waited:.1f} s, took {ran:.1f} s"

    async def _read_output(self) -> str:
        record = await self.api.get("collections", self._container["output"])
        node = filetree.get(filetree.from_manifest(record["manifest_text"]), _FILE)
        if not isinstance(node, filetree.File):
            raise CheckFault(f"{_FILE}: is no file of the output", "look at the supervisor's log")
        async with aclosing(read_file(self.blocks, node)) as pieces:
            data = b"".join([piece async for piece in pieces])
        if data != f"{self.word}\n".encode():
            raise CheckFault(f"the output is {data[:60]!r}", "look at the supervisor's log")
        if not self._container["log"]:
            raise CheckFault("the log was not stored", "look at the supervisor's log")
        return "output and log are stored"

    async def _clean_up(self) -> str:
        number = len(self._created)
        faults = await self._remove_all()
        if faults:
            raise CheckFault("; ".join(faults), "remove the records named 'lading doctor'")
        return f"{number} records removed"

    async def _remove_all(self) -> list[str]:
        """Cancel the request if it still runs, and remove the created records; the faults."""
        created, faults = self._created, list[str]()
        self._created = []
        if self._request and self._request["state"] != "Final":
            # Else its container would go on without it.
            with suppress(LadingError):
                await self.api.action("container_requests", self._request["uuid"], "cancel")
        for kind, uuid in sorted(created, key=lambda record: record[0] != "container_requests"):
            try:
                await self.api.delete(kind, uuid)
            except NotFound:
                continue
            except LadingError as error:
                faults.append(f"{uuid}: {error.message}")
        return faults


def _is_about(event: RecordEvent | Reconnected, collection: Record) -> bool:
    return isinstance(event, RecordEvent) and event.object_uuid == collection["uuid"]


def _shown(image: StoredImage) -> str:
    name = image.names[0] if image.names else image.digest
    return f"{name}, the newest"


def _between(start: str | None, end: str | None) -> float:
    if not start or not end:
        return 0.0
    return max(0.0, (parse_time(end) - parse_time(start)).total_seconds())
