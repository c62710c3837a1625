"""An event loop whose clock jumps to the next timer whenever only timers are left to wait for.

While a thread works for the loop, a child process lives or a socket or pipe is watched, time passes
as usual: each of them may be what a timer limits. So a test of pauses, grace periods and time-outs
takes no time, and one that runs a command waits for the command.

Threads and processes that the loop did not start are unknown to it: a test that waits for them
needs an ordinary loop. `@jumping` runs a test on such a loop.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, ParamSpec, TypeVar, TypeVarTuple
from weakref import WeakSet

_Arguments = TypeVarTuple("_Arguments")
_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop on a clock of its own."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._executing = 0
        self._children: WeakSet[asyncio.SubprocessTransport] = WeakSet()
        super().__init__(_JumpingSelector(self._jump))

    def time(self) -> float:
        """Seconds of the system's clock, and all that were jumped over."""
        return super().time() + self._ahead

    def run_in_executor(
        self,
        executor: Executor | None,
        func: Callable[[*_Arguments], _Result],
        *args: *_Arguments,
    ) -> asyncio.Future[_Result]:
        """As any loop; time passes as usual until the thread has ended."""
        future = super().run_in_executor(executor, func, *args)
        self._executing += 1
        future.add_done_callback(self._note_executed)
        return future

    async def _make_subprocess_transport(self, *args: Any, **options: Any) -> Any:
        transport = await super()._make_subprocess_transport(*args, **options)  # type: ignore[misc]
        self._children.add(transport)
        return transport

    def _note_executed(self, _: asyncio.Future[Any]) -> None:
        self._executing -= 1

    def _jump(self, seconds: float) -> bool:
        """Jump over so many seconds, unless something else than a timer may happen meanwhile."""
        is_busy = self._executing or any(child.get_returncode() is None for child in self._children)
        if not is_busy:
            self._ahead += seconds
        return not is_busy


def jumping(
    test: Callable[_Parameters, Coroutine[Any, Any, None]],
) -> Callable[_Parameters, None]:
    """Run an async test on a loop whose clock jumps. Its fixtures are sync ones."""

    @functools.wraps(test)
    def run(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> None:
        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


async def pass_time(seconds: float) -> None:
    """Let so much time go by on the clock of this loop."""
    assert isinstance(asyncio.get_running_loop(), JumpingLoop)
    await asyncio.sleep(seconds)


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for nothing but watched descriptors. The loop itself watches one, to be woken."""

    def __init__(self, jump: Callable[[float], bool]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        if timeout is not None and len(self.get_map()) <= 1 and self._jump(timeout):
            return []
        return super().select(timeout)
