"""Changes of collections, by reference: the server applies each as a whole.

Changes of one collection go one after another. Changes that come while another is sent become one
call, if none depends on the state before it. So thousands of small files cost few calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Protocol

from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree
from lading.core.data.splice import Origin
from lading.core.errors import Conflict, Full, LadingError, Unavailable

_MOST: Final = 1000
"""Changes of one call."""
_ATTEMPTS: Final = 30
"""Times that a change with a check is computed again; then Conflict."""
_CHANGED: Final = 412
"""Precondition Failed: the collection has another etag."""
Check = Callable[[FileTree], None]
"""Raises where a change cannot be applied to the present files."""


class ChangeApi(Protocol):
    """The calls of an `ApiClient` that changes need."""

    async def get(self, plural: str, uuid: str, *, select: Iterable[str] | None = None) -> Any:
        """One record."""

    async def request(
        self, method: str, path: str, *, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """One call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change: new files by path, and sources as `replace_files` takes them by path. A `check`
    sees the files that the change is applied to.
    """

    files: Mapping[str, File] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    check: Check | None = None

    @property
    def is_independent(self) -> bool:
        """Whether its effect does not depend on the state before it."""
        return self.check is None and not any(
            source.startswith(Origin.CURRENT) for source in self.sources.values()
        )

    def targets(self) -> Iterable[str]:
        """The changed paths."""
        return (*self.files, *self.sources)


@dataclass(slots=True)
class _Queue:
    """The changes of one collection that wait, each with its answer."""

    waiting: list[tuple[Change, asyncio.Future[None]]] = field(default_factory=list)
    sender: asyncio.Task[None] | None = None


class CollectionChanges:
    """Sends changes of collections."""

    def __init__(self, api: ChangeApi) -> None:
        self._api = api
        self._queues: dict[str, _Queue] = {}

    async def apply(self, uuid: str, change: Change) -> None:
        """Apply a change; it is durable then. Raises the errors of the API, and of its check;
        Conflict when others change the collection all the time.
        """
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue = self._queues.setdefault(uuid, _Queue())
        queue.waiting.append((change, answer))
        if queue.sender is None:
            queue.sender = asyncio.create_task(self._send(uuid, queue), name=f"change {uuid}")
        await answer

    async def close(self) -> None:
        """Cancel the changes that wait."""
        senders = [queue.sender for queue in self._queues.values() if queue.sender]
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)

    async def _send(self, uuid: str, queue: _Queue) -> None:
        try:
            while queue.waiting:
                batch = _first_batch(queue.waiting)
                del queue.waiting[: len(batch)]
                await self._settle(uuid, batch)
        finally:
            del self._queues[uuid]
            for _, answer in queue.waiting:
                answer.cancel()

    async def _settle(self, uuid: str, batch: list[tuple[Change, asyncio.Future[None]]]) -> None:
        try:
            await self._put(uuid, [change for change, _ in batch])
        except LadingError as error:
            # Only a refusal is the fault of one change. Of a server that does not answer each of a
            # thousand changes would wait for itself.
            if len(batch) == 1 or (isinstance(error, Unavailable) and not isinstance(error, Full)):
                _answer(batch, error)
                return
            # One of them is at fault: the others must not fail with it.
            for pair in batch:
                await self._settle(uuid, [pair])
        except BaseException:
            for _, answer in batch:
                answer.cancel()
            raise
        else:
            _answer(batch, None)

    async def _put(self, uuid: str, changes: list[Change]) -> None:
        check = changes[0].check
        body = _body(changes)
        if check is None:
            await self._api.request("PUT", f"collections/{uuid}", body=body)
            return
        for _ in range(_ATTEMPTS):
            record = await self._api.get("collections", uuid, select=("etag", "manifest_text"))
            check(await asyncio.to_thread(filetree.from_manifest, record["manifest_text"]))
            try:
                await self._api.request(
                    "PUT", f"collections/{uuid}", body=body, headers={"If-Match": record["etag"]}
                )
            except LadingError as error:
                if error.status != _CHANGED:
                    raise
                continue
            return
        raise Conflict(f"{uuid}: others change it all the time; try again")


def _first_batch(
    waiting: list[tuple[Change, asyncio.Future[None]]],
) -> list[tuple[Change, asyncio.Future[None]]]:
    """The first changes that one call can make: one, or independent ones of different paths."""
    batch = waiting[:1]
    if not batch[0][0].is_independent:
        return batch
    targets = list(batch[0][0].targets())
    for pair in waiting[1:]:
        further = [*targets, *pair[0].targets()]
        if len(further) > _MOST or not pair[0].is_independent:
            break
        targets = further
        batch.append(pair)
    # No target may lie inside another one, or twice: halved until none does.
    while len(batch) > 1 and _overlap([path for change, _ in batch for path in change.targets()]):
        batch = batch[: len(batch) // 2]
    return batch


def _overlap(paths: list[str]) -> bool:
    # The separator sorts first, so that a path stands directly before those inside of it.
    names = sorted(tuple(path.split("/")) for path in paths)
    return any(after[: len(before)] == before for before, after in pairwise(names))


def _body(changes: list[Change]) -> dict[str, Any]:
    """The body of the call: new files have numbers as names in its manifest."""
    files: dict[str, File] = {}
    sources: dict[str, str] = {}
    for change in changes:
        for path, file in change.files.items():
            name = f"f{len(files)}"
            files[name] = file
            sources[f"/{path}"] = f"{Origin.SUPPLIED}/{name}"
        sources |= {f"/{path}": source for path, source in change.sources.items()}
    attributes: dict[str, Any] = {}
    if files:
        attributes["manifest_text"] = filetree.to_manifest(FileTree(dict(files)))
    return {"collection": attributes, "replace_files": sources}


def _answer(batch: list[tuple[Change, asyncio.Future[None]]], error: LadingError | None) -> None:
    for _, answer in batch:
        # Its caller may have been cancelled.
        if answer.done():
            continue
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)
