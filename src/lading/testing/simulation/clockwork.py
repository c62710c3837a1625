"""An event loop that owns neither a clock nor sockets: its time moves when told, nothing comes from outside."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from heapq import heappop
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class _Blind(selectors.BaseSelector):
    """Nothing ever becomes ready."""

    def __init__(self) -> None:
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._keys[fileobj] = selectors.SelectorKey(fileobj, 0, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        del timeout
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class Clockwork(asyncio.SelectorEventLoop):
    """Runs tasks in the order in which they became ready, timers when `advance` has reached them."""

    def __init__(self) -> None:
        self._moment = 0.0
        super().__init__(_Blind())
        self.faults: list[BaseException] = []
        self.set_exception_handler(self._note)

    def time(self) -> float:
        """Seconds since it was made."""
        return self._moment

    def advance(self, to: float) -> None:
        """Move the time; call `settle` to have timers that are due run."""
        self._moment = max(self._moment, to)

    def next_timer(self) -> float | None:
        """When the next timer is due, None when there is none."""
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        # It is a heap, and the loop itself drops cancelled ones from its top like this.
        while timers and timers[0].cancelled():
            self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
            heappop(timers)._scheduled = False  # type: ignore[attr-defined]
        return timers[0].when() if timers else None

    def settle(self) -> None:
        """Run until nothing can go on without a message or the time. Raises what a task raised that nobody awaits."""
        ready: Any = self._ready  # type: ignore[attr-defined]
        run_once: Callable[[], None] = self._run_once  # type: ignore[attr-defined]
        asyncio._set_running_loop(self)
        try:
            run_once()
            while ready:
                run_once()
        finally:
            asyncio._set_running_loop(None)
        if self.faults:
            raise self.faults[0]

    def complete(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine that waits for nothing outside, to its end; call it while nothing runs."""
        task = self.create_task(work)
        self.settle()
        return task.result()

    def _note(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.faults.append(error if isinstance(error, BaseException) else AssertionError(str(context["message"])))
