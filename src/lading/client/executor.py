"""`lading.Executor`: containers behind the interface of `concurrent.futures`.

    with lading.Executor(image="tools:1", vcpus=2) as executor:
        futures = [executor.submit(["sort", "/in"], inputs={"/in": path}) for path in paths]
        for future in concurrent.futures.as_completed(futures):
            print(future.result().stdout)

Runs that are submitted within some milliseconds are one call of the API.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ParamSpec, TypeVar, overload

from lading.client.functions import RemoteFunction
from lading.client.runs import Run, RunFuture
from lading.client.site import Site, connect, fill
from lading.core.errors import Invalid, LadingError

_Parameters = ParamSpec("_Parameters")
_Value = TypeVar("_Value")
_OF_FUNCTIONS = ("python", "verbose")
"""Options that commands do not have."""


class Executor(concurrent.futures.Executor):
    """Runs commands, and Python functions, in containers.

    `site` is the server; without one, that of `lading.connect()`, which is closed at the end.
    `options` are those of `Site.run` for each command, and of `Site.function` for each function.
    """

    def __init__(self, site: Site | None = None, **options: Any) -> None:
        self.site = site or connect()
        self._is_ours = site is None
        self._options = options
        self._functions: dict[Callable[..., Any], RemoteFunction[..., Any]] = {}
        self._futures: list[RunFuture[Any]] = []
        self._is_shut = False

    @overload
    def submit(
        self,
        fn: Callable[_Parameters, _Value],
        /,
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> RunFuture[_Value]: ...

    @overload
    def submit(self, fn: Sequence[str], /, *args: Any, **kwargs: Any) -> RunFuture[Run]: ...

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> RunFuture[Any]:
        """Submit a command or a function, and return at once.

        A command is a list of words, `kwargs` are options as for `Site.run`; `args` take the places
        of `{}`, or of `{0}`, `{1}`, ... (see `Site.map`). Its result is the run; a failed one
        raises RunFailed. A function is called in a container (see `RemoteFunction`).
        """
        if self._is_shut:
            raise RuntimeError("cannot submit after shutdown")
        if isinstance(fn, str):
            raise Invalid(f"{fn}: give the command as a list of words")
        future = self._call(fn, args, kwargs) if callable(fn) else self._run(fn, args, kwargs)
        self._futures = [pending for pending in self._futures if not pending.done()] + [future]
        return future

    def map(
        self,
        fn: Any,
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        **options: Any,
    ) -> Iterator[Any]:
        """Submit a command or a function for each item of the iterables; the results, in their
        order. `options` as for `submit`; `chunksize` has no effect: the runs are sent in few calls.

        Raises TimeoutError when a result is not there `timeout` seconds after this call; calls that
        have not ended are then cancelled.
        """
        del chunksize
        end = None if timeout is None else time.monotonic() + timeout
        futures: list[RunFuture[Any]] = []
        try:
            for items in zip(*iterables, strict=False):
                futures.append(self.submit(fn, *items, **options))
        except LadingError:
            for future in futures:
                future.cancel()
            raise
        return _results(futures, end)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no further calls. `wait`: return when all runs have ended; `cancel_futures`:
        cancel the others. Containers continue if nothing waits for them.
        """
        self._is_shut = True
        if cancel_futures:
            for future in self._futures:
                future.cancel()
        if wait:
            concurrent.futures.wait(self._futures)
        if self._is_ours:
            self.site.close()

    def _call(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> RunFuture[Any]:
        if isinstance(function, RemoteFunction):
            return function.submit(*args, **kwargs)
        if function not in self._functions:
            self._functions[function] = RemoteFunction(self.site, function, **self._options)
        return self._functions[function].submit(*args, **kwargs)

    def _run(
        self, command: Sequence[str], items: Sequence[Any], options: dict[str, Any]
    ) -> RunFuture[Run]:
        of_commands = {
            name: value for name, value in self._options.items() if name not in _OF_FUNCTIONS
        }
        chosen = {**of_commands, **options}
        filled = fill(command, items, **chosen) if items else {"command": command, **chosen}
        run = self.site.run(**filled)
        future = RunFuture[Run](run)
        self.site.follow(future.settle(_ended(run)))
        return future


async def _ended(run: Run) -> Run:
    return await run


def _results(futures: Sequence[RunFuture[Any]], end: float | None) -> Iterator[Any]:
    try:
        for future in futures:
            yield future.result(None if end is None else end - time.monotonic())
    finally:
        # A failure, or a loop that is left early, cancels the other runs, as in
        # `concurrent.futures`.
        for future in futures:
            future.cancel()
