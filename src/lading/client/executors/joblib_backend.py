"""Containers as a backend of joblib.

    joblib.register_parallel_backend("lading", lading.JoblibBackend)
    with joblib.parallel_config(backend="lading", image="tools:1"):
        joblib.Parallel()(joblib.delayed(count)(path) for path in paths)

Each call is one of `lading.Executor`: functions and values are those of `Site.function`.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from joblib.parallel import ParallelBackendBase

from lading.client.executor import Executor

_ALL: Final = 512
"""Calls that are submitted ahead where the user sets no number."""


class JoblibBackend(ParallelBackendBase):  # type: ignore[misc]
    """Calls of joblib in containers. `executor` is one that the user closes; without one,
    `options` are those of `lading.Executor`. `n_jobs` is the number of calls submitted at a time.
    """

    supports_retrieve_callback = True
    default_n_jobs = -1

    def __init__(
        self,
        executor: concurrent.futures.Executor | None = None,
        nesting_level: int | None = None,
        inner_max_num_threads: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(nesting_level, inner_max_num_threads)
        self._executor, self._options = executor, options
        self._own: Executor | None = None
        self._pending: set[concurrent.futures.Future[Any]] = set()

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """The number of calls submitted at a time. Raises ValueError for 0."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        return _ALL if n_jobs is None or n_jobs < 0 else n_jobs

    def submit(
        self, func: Any, callback: Callable[[Any], None] | None = None
    ) -> concurrent.futures.Future[list[Any]]:
        """Submit the calls of a batch; a future of their values. Raises Invalid for a function that
        cannot be sent.
        """
        if self._executor is None and self._own is None:
            self._own = Executor(**self._options)
        executor = self._executor or self._own
        assert executor is not None
        futures: list[concurrent.futures.Future[Any]] = []
        try:
            for function, arguments, options in func.items:
                futures.append(executor.submit(function, *arguments, **options))
        except Exception:
            # Nothing would wait for those before the one that cannot be sent.
            for future in futures:
                future.cancel()
            raise
        self._pending.update(futures)
        batch = gathered(futures, self._pending.discard)
        if callback is not None:
            batch.add_done_callback(callback)
        return batch

    def retrieve_result_callback(self, out: concurrent.futures.Future[list[Any]]) -> list[Any]:
        """The values of a batch that has ended. Raises the error of the first that failed."""
        return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancel the calls that have not ended."""
        del ensure_ready
        for future in list(self._pending):
            future.cancel()

    def terminate(self) -> None:
        """Close the connection, if this backend has made it."""
        if self._own is not None:
            self._own.shutdown(wait=False)
            self._own = None


def gathered(
    futures: Sequence[concurrent.futures.Future[Any]],
    ended: Callable[[concurrent.futures.Future[Any]], None],
) -> concurrent.futures.Future[list[Any]]:
    """A future of all values, which has the error of the first one that fails; `ended` is called
    with each.
    """
    batch: concurrent.futures.Future[list[Any]] = concurrent.futures.Future()
    deciding, left = threading.Lock(), set(futures)

    def settle(future: concurrent.futures.Future[Any]) -> None:
        ended(future)
        # Several may end at a time, in threads of their own: one of them settles the batch.
        with deciding:
            left.discard(future)
            error = _error_of(future)
            is_last = not batch.done() and (error is not None or not left)
            if is_last and error is not None:
                left.clear()
        if is_last and error is not None:
            batch.set_exception(error)
        elif is_last:
            batch.set_result([each.result() for each in futures])

    for future in futures:
        future.add_done_callback(settle)
    if not futures:
        batch.set_result([])
    return batch


def _error_of(future: concurrent.futures.Future[Any]) -> BaseException | None:
    try:
        return future.exception()
    except concurrent.futures.CancelledError as error:
        return error
