"""Concurrent work that ends with its caller: several coroutines, and long work in a thread. And a
small queue between such work.

A thread cannot be cancelled from outside. So the work in it gets a function that returns whether it
should end, and descriptors of its own, so that the caller may close its own ones at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Generic, TypeVar

from lading.core.errors import LadingError
from lading.process.cancellation import Stop

_Answer = TypeVar("_Answer")
_Item = TypeVar("_Item")


class WorkCancelled(LadingError):
    """The work was cancelled because its result is not wanted any more."""


async def together(*work: Coroutine[Any, Any, None]) -> None:
    """Run all coroutines concurrently; when one fails, cancel the others and raise the first
    failure.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in work:
                group.create_task(coroutine)
    except BaseExceptionGroup as failures:
        if task.cancelling() > before:
            # Python 3.11's TaskGroup cancels its own task and leaves the count of cancellations; no
            # later asyncio.timeout would raise TimeoutError.
            task.uncancel()
        raise failures.exceptions[0] from None


async def cancel_all(*tasks: asyncio.Future[Any]) -> None:
    """Cancel the tasks and wait until they have ended; their results and errors are dropped."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def finish_within(work: Awaitable[_Answer], seconds: float) -> _Answer:
    """Result of `work`, which is cancelled after so many seconds. Raises TimeoutError then.

    In the place of `asyncio.wait_for`, which in Python 3.11 drops the cancellation of its caller
    when the work ends at that moment: the caller then goes on. `asyncio.timeout` of Python 3.11.2
    raises no TimeoutError in a task that was cancelled before, such as one that tidies up.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task,), timeout=seconds)
    except asyncio.CancelledError:
        await cancel_all(task)
        raise
    if not task.done():
        await cancel_all(task)
        if task.cancelled():
            raise TimeoutError
    return task.result()


async def wait_at_most(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, for at most so many seconds."""
    # A time-out is a result here: the caller looks again in any case.
    with contextlib.suppress(TimeoutError):
        await finish_within(event.wait(), seconds)


class StopEvent(asyncio.Event):
    """An event that, when set, also interrupts the work of tasks in `unless`."""

    def __init__(self) -> None:
        super().__init__()
        self._scopes: list[_Scope] = []

    def set(self) -> None:
        """Set the event, and interrupt the work that waits in `unless`."""
        super().set()
        for scope in self._scopes:
            scope.stop()

    @contextlib.contextmanager
    def interrupting(self, scope: _Scope) -> Iterator[None]:
        """Let the event stop the scope while the context is open."""
        self._scopes.append(scope)
        try:
            if self.is_set():
                scope.stop()
            yield
        finally:
            self._scopes.remove(scope)
            scope.close()


class _Scope:
    """Cancels a task once, some seconds after its stop was set."""

    def __init__(self, task: asyncio.Task[Any], grace: float, deaf: float) -> None:
        self.has_cancelled = False
        self._task, self._grace = task, grace
        self._loop = asyncio.get_running_loop()
        self._hears_from = self._loop.time() + deaf if deaf else 0.0
        self._timer: asyncio.TimerHandle | None = None

    def stop(self) -> None:
        if self._timer is None and self._loop.time() >= self._hears_from:
            # Never at once: a task that cancels itself would receive it only at its next wait,
            # which may lie after the scope.
            self._timer = self._loop.call_later(self._grace, self._cancel)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _cancel(self) -> None:
        self.has_cancelled = True
        self._task.cancel()


async def unless(
    stop: StopEvent, work: Awaitable[_Answer], *, grace: float = 0.0, deaf: float = 0.0
) -> _Answer:
    """Result of `work`, which is cancelled `grace` seconds after `stop` was set.

    For the first `deaf` seconds setting it has no effect. The work runs in the task of the caller:
    a task of its own and one for the event took 60 us, some twenty times for each container.
    Raises WorkCancelled.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    scope = _Scope(task, grace, deaf)
    try:
        with stop.interrupting(scope):
            try:
                return await work
            finally:
                if scope.has_cancelled and task.cancelling() > before:
                    task.uncancel()
    except (asyncio.CancelledError, Exception) as error:
        # A second cancellation, from outside, stays one.
        if scope.has_cancelled and task.cancelling() <= before:
            raise WorkCancelled("told to stop") from error
        raise


async def drain(
    task: asyncio.Task[None], stop: asyncio.Event, *, limit: float, grace: float
) -> None:
    """Wait for the task: `limit` seconds, or `grace` seconds once `stop` is set. Raises its error.

    A task that does not end in time continues.
    """
    stopped = asyncio.create_task(stop.wait(), name="drain")
    try:
        await asyncio.wait((task, stopped), timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if stopped.done() and not task.done():
            await asyncio.wait((task,), timeout=grace)
    finally:
        stopped.cancel()
        await asyncio.gather(stopped, return_exceptions=True)
    if task.done():
        await task


async def in_thread(
    work: Callable[[Stop, tuple[int, ...]], _Answer], *descriptors: int, is_waited_for: bool = False
) -> _Answer:
    """Run `work(stop, descriptors)` in a thread, with copies of the descriptors that are closed at
    its end; return its result.

    When the caller is cancelled `stop()` returns true, and work that was not begun never is. The
    caller does not wait then, unless the work `is_waited_for`: work that writes must be over before
    its files are removed.
    """
    copies = tuple(os.dup(descriptor) for descriptor in descriptors)
    # The lock is taken by whichever comes first, the start of the work or the cancellation; the
    # other one then does nothing, so the copies are closed exactly once.
    stopped, taken = threading.Event(), threading.Lock()

    def close() -> None:
        for descriptor in copies:
            os.close(descriptor)

    def run() -> _Answer:
        if not taken.acquire(blocking=False):
            raise asyncio.CancelledError
        try:
            return work(stopped.is_set, copies)
        finally:
            close()

    running = asyncio.get_running_loop().run_in_executor(None, run)
    try:
        return await (asyncio.shield(running) if is_waited_for else running)
    finally:
        stopped.set()
        if taken.acquire(blocking=False):
            close()
        elif is_waited_for and not running.done():
            await asyncio.gather(running, return_exceptions=True)


class SmallQueue(Generic[_Item]):
    """At most `most` items, in order, from any number of senders to one receiver. It takes little
    memory while it is empty.

    A queue of asyncio has four deques of 760 bytes and an event. A thousand clients with two or
    three queues each would take several megabytes more.
    """

    __slots__ = ("_arrived", "_items", "_most", "_room")

    def __init__(self, most: int) -> None:
        self._most = most
        self._items: list[_Item] = []
        self._arrived: asyncio.Future[None] | None = None
        self._room: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._items)

    @property
    def is_full(self) -> bool:
        """Whether the next sender has to wait."""
        return len(self._items) >= self._most

    def put_at_once(self, item: _Item) -> None:
        """Add an item. Raises asyncio.QueueFull."""
        if self.is_full:
            raise asyncio.QueueFull
        self._items.append(item)
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    async def put(self, item: _Item) -> None:
        """Add an item as soon as there is room."""
        while self.is_full:
            if self._room is None:
                self._room = asyncio.Event()
            await self._room.wait()
        self.put_at_once(item)

    async def get(self) -> _Item:
        """The next item, which stays in the queue if this is cancelled."""
        await self.arrival()
        return self.get_at_once()

    async def arrival(self) -> None:
        """Wait until there is an item."""
        while not self._items:
            self._arrived = asyncio.get_running_loop().create_future()
            try:
                await self._arrived
            finally:
                self._arrived = None

    async def arrival_by(self, when: float) -> bool:
        """Wait until there is an item, until a time of the loop; whether there is one."""
        while not self._items:
            loop = asyncio.get_running_loop()
            if loop.time() >= when:
                return False
            future = self._arrived = loop.create_future()
            # Cheaper than `asyncio.timeout`, which counts where a thousand receivers wait.
            timer = loop.call_at(when, _end, future)
            try:
                await future
            finally:
                timer.cancel()
                self._arrived = None
        return True

    def get_at_once(self) -> _Item:
        """The next item. Raises IndexError when the queue is empty."""
        item = self._items.pop(0)
        self._make_room()
        return item

    def clear(self) -> None:
        """Drop all items."""
        self._items.clear()
        self._make_room()

    def _make_room(self) -> None:
        if self._room is not None:
            # All senders that wait look again whether there is room.
            self._room.set()
            self._room = None


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
