"""Submits runs: stores their inputs and sends their requests, many in one call.

Requests that are queued within some milliseconds are one call. If that is refused, smaller calls
find the runs at fault, so that an error ends the runs that it belongs to and no others.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from lading.client.api import ApiClient, Record
from lading.client.blocks import BlockClient
from lading.client.files.deposits import ContentSearch, arrange, deposit, label_of
from lading.client.images.links import newest_own
from lading.client.request_options import check_sendable
from lading.client.runs import Output, Run, Source, errors_refuse, follow
from lading.core.errors import Invalid, TooLarge
from lading.process.concurrency import together

_Answer = TypeVar("_Answer")
_TOGETHER = 0.005
"""Seconds for which submissions are collected: less than one call takes."""
_LONGER = 2.0
"""Factor of this time for each next call, while inputs of further runs are stored: calls for few
runs each would delay these inputs."""
_LONGEST = 0.1
"""Seconds at most."""
_BATCH = 1000
"""Requests of one call, the most that a server accepts."""
_UPLOADS = 8
"""Inputs that are stored at the same time. With more the disk of the server is the limit."""
_TEXT = 1 << 16
"""Bytes of an input that are a part of the request; a longer one is a collection."""


class RunSubmitter:
    """Submits the runs of one site. All methods are called in the loop of the site."""

    def __init__(self, api: ApiClient, blocks: BlockClient) -> None:
        self._api, self._blocks = api, blocks
        self._queue: list[tuple[Run, Record]] = []
        self._shared: dict[object, asyncio.Task[Any]] = {}
        self._uploads = asyncio.Semaphore(_UPLOADS)
        self._search = ContentSearch(api)
        self._sending = False
        self._pause = _TOGETHER
        self._preparing = 0
        self._all_prepared = asyncio.Event()

    async def submit(
        self, run: Run, body: Record, inputs: dict[str, Source], after: list[Run]
    ) -> None:
        """Store the inputs of a run and send its request; an error ends the run."""
        self._preparing += 1
        try:
            with errors_refuse(run.refuse):
                await self._complete(body, inputs, after)
        finally:
            self._preparing -= 1
            if not self._preparing:
                self._all_prepared.set()
                self._pause = _TOGETHER
        if run.placed.done():
            return
        self._queue.append((run, body))
        run.queued.set_result(None)
        # One task sends for all: what is queued meanwhile goes with its next batch.
        if not self._sending:
            self._sending = True
            await self._send()

    async def _complete(self, body: Record, inputs: dict[str, Source], after: list[Run]) -> None:
        """Store the inputs, and wait until the runs before this one are queued."""
        if body["container_image"] is None:
            body["container_image"] = await self._once("image", self._newest_image)
        # All inputs begin to be stored before the inputs of later runs, so that the first of many
        # runs is not submitted last.
        mounts: dict[str, Record | Output] = {}
        await together(*(self._find(mounts, *item) for item in inputs.items()))
        body["mounts"] |= {target: mounts[target] for target in inputs}
        body["depends_on"] = after
        sources = [mount.run for mount in body["mounts"].values() if isinstance(mount, Output)]
        # A batch may name runs before it by their number, so they have to be queued first.
        for earlier in (*sources, *after):
            await follow(earlier.queued)

    async def _send(self) -> None:
        """Send the queued runs, in batches, until none is left."""
        try:
            while self._queue:
                await self._collect(self._pause)
                self._pause = min(self._pause * _LONGER, _LONGEST)
                batch, self._queue = self._queue[:_BATCH], self._queue[_BATCH:]
                await self._send_batch(batch)
        finally:
            self._sending = False

    async def _collect(self, seconds: float) -> None:
        """Wait for further runs, at most so long while inputs of some are being stored."""
        await asyncio.sleep(_TOGETHER)
        # Its end is the time of the next call.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds - _TOGETHER):
                while self._preparing:
                    self._all_prepared.clear()
                    await self._all_prepared.wait()

    async def _send_batch(self, batch: list[tuple[Run, Record]]) -> None:
        """Send runs in one call. An error ends the runs that it belongs to and no others."""
        bodies = dict(self._bodies(batch))
        sent = [(run, body) for run, body in batch if run in bodies]

        def refuse(error: Exception) -> None:
            for run in bodies:
                if not run.placed.done():
                    run.refuse(error)

        with errors_refuse(refuse):
            try:
                await self._post(bodies)
            except (Invalid, TooLarge):
                if len(sent) < 2:
                    raise
                # The call is refused for the fault of some of its runs: smaller calls find them.
                middle = len(sent) // 2
                await self._send_batch(sent[:middle])
                await self._send_batch(sent[middle:])

    async def _post(self, bodies: Mapping[Run, Record]) -> None:
        if not bodies:
            return
        answer = await self._api.action(
            "container_requests",
            None,
            "batch",
            # Not atomic: a wrong request of one caller must not refuse the requests of others.
            body={
                "container_requests": [*bodies.values()],
                "atomic": False,
                "select": ["uuid"],
            },
        )
        for run, item in zip(bodies, answer["items"], strict=True):
            if "uuid" in item:
                run.accept(item["uuid"])
            else:
                run.refuse(Invalid("; ".join(item["errors"])))

    def _bodies(self, batch: list[tuple[Run, Record]]) -> Iterator[tuple[Run, Record]]:
        """The requests of a call by their runs; a run whose request cannot be sent is refused."""
        # Runs of the same call have no uuid yet.
        numbers: dict[Run, str] = {}
        for run, body in batch:
            with errors_refuse(run.refuse):
                mounts = {
                    target: _bound(mount, numbers) if isinstance(mount, Output) else mount
                    for target, mount in body["mounts"].items()
                }
                named = [numbers.get(run) or run.uuid for run in body["depends_on"]]
                request = {**body, "mounts": mounts, "depends_on": named}
                check_sendable(request)
                numbers[run] = f"#{len(numbers)}"
                yield run, request

    async def _find(self, mounts: dict[str, Record | Output], target: str, source: Source) -> None:
        mounts[target] = await self._mount(source)

    async def _mount(self, source: Source) -> Record | Output:
        match source:
            case Run():
                return source.output
            case Output():
                return source
            case bytes():
                return await self._store(source)
            case Mapping():
                return dict(source)
            case _:
                path = Path(os.path.abspath(source))  # noqa: ASYNC240, PTH100 - no wait
                return dict(await self._once(path, lambda: self.deposit(path)))

    async def _store(self, content: bytes) -> Record:
        if len(content) <= _TEXT:
            with contextlib.suppress(UnicodeDecodeError):
                return {"kind": "text", "content": content.decode()}
        with tempfile.TemporaryDirectory(prefix="lading-input-") as folder:
            path = Path(folder, "content")
            await asyncio.to_thread(path.write_bytes, content)
            return await self.deposit(path)

    async def _once(self, key: object, work: Callable[[], Coroutine[Any, Any, _Answer]]) -> _Answer:
        """Do the same work once for all that ask for it at the same time."""
        if (task := self._shared.get(key)) is None:
            task = self._shared[key] = asyncio.create_task(work())
            task.add_done_callback(lambda _: self._shared.pop(key))
        # Others wait for the same work: it goes on when one of them is cancelled.
        found: _Answer = await asyncio.shield(task)
        return found

    async def deposit(self, path: Path) -> Record:
        """Store a file or directory; the mount that shows it."""
        sources = arrange([path])
        async with self._uploads:
            stored = await deposit(
                self._api, self._blocks, sources, label=label_of(path), search=self._search
            )
        mount = {"kind": "collection", "portable_data_hash": stored.portable_data_hash}
        return mount if "" in sources else {**mount, "path": next(iter(sources))}

    async def _newest_image(self) -> str:
        return (await newest_own(self._api)).pdh


def _bound(output: Output, numbers: Mapping[Run, str]) -> Record:
    return output.mount(numbers.get(output.run) or output.run.uuid)
