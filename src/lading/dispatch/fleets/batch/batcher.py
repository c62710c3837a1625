"""Calls of a batch system's programs that are collected and made together.

- `Batcher` groups requests that arrive during earlier work, similar ones in one batch, so that the
  number of calls stays small. A single request is carried out at once: nothing waits for a timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from lading.core.errors import LadingError, Unavailable

_Request = TypeVar("_Request")


@dataclass(frozen=True, slots=True)
class _Pending(Generic[_Request]):
    request: _Request
    answer: asyncio.Future[None]


class Batcher(Generic[_Request]):
    """Carries out requests in batches of up to `most` similar ones, with `workers` batches at a
    time.

    An error of `work` is raised for each request of the batch.
    """

    def __init__(
        self,
        work: Callable[[Sequence[_Request]], Awaitable[None]],
        *,
        alike: Callable[[_Request], Hashable],
        most: int,
        workers: int,
    ) -> None:
        self._work = work
        self._alike = alike
        self._most = most
        self._workers = workers
        self._waiting: list[_Pending[_Request]] = []
        self._arrived = asyncio.Condition()

    async def ask(self, request: _Request) -> None:
        """Have a request carried out; returns when it is done. Raises the errors of `work`."""
        entry = _Pending(request, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        async with self._arrived:
            self._arrived.notify()
        await entry.answer

    async def run(self) -> None:
        """Carry out requests until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._workers):
                    tasks.create_task(self._serve())
        finally:
            for entry in self._waiting:
                entry.answer.cancel()

    async def _serve(self) -> None:
        while True:
            async with self._arrived:
                await self._arrived.wait_for(lambda: bool(self._waiting))
            await self._carry_out(self._take())

    def _take(self) -> list[_Pending[_Request]]:
        """The first request and similar ones; none if another worker took them."""
        # Requests whose caller was cancelled meanwhile are dropped.
        self._waiting = [entry for entry in self._waiting if not entry.answer.done()]
        if not self._waiting:
            return []
        # The first one decides, so that no kind of request waits for ever behind another.
        kind = self._alike(self._waiting[0].request)
        batch = [entry for entry in self._waiting if self._alike(entry.request) == kind][
            : self._most
        ]
        taken = {id(entry) for entry in batch}
        self._waiting = [entry for entry in self._waiting if id(entry) not in taken]
        return batch

    async def _carry_out(self, batch: list[_Pending[_Request]]) -> None:
        if not batch:
            return
        failure: LadingError | None = None
        try:
            await self._work([entry.request for entry in batch])
        except LadingError as error:
            failure = error
        except BaseException:
            # The callers of this batch must not wait for ever.
            failure = Unavailable("The dispatcher is being stopped.")
            raise
        finally:
            for entry in batch:
                if entry.answer.done():
                    continue
                if failure is None:
                    entry.answer.set_result(None)
                else:
                    entry.answer.set_exception(failure)
