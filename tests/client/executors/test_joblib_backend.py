"""Containers as a backend of joblib; here threads stand for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from math import sqrt
from typing import Any

import pytest

joblib = pytest.importorskip("joblib")
from lading.client.executors.joblib_backend import JoblibBackend, gathered  # noqa: E402


@pytest.fixture
def backend() -> Iterator[JoblibBackend]:
    with ThreadPoolExecutor(4) as executor:
        yield JoblibBackend(executor)


def fail(number: int) -> int:
    """Fails for 3."""
    if number == 3:
        raise OverflowError("three")
    return number


@pytest.mark.parametrize(("jobs", "batch"), [(2, "auto"), (-1, 3), (None, 1)])
def test_calls_in_order(backend: JoblibBackend, jobs: int | None, batch: Any) -> None:
    with joblib.parallel_config(backend=backend, n_jobs=jobs):
        roots = joblib.Parallel(batch_size=batch)(
            joblib.delayed(sqrt)(number**2) for number in range(20)
        )
    assert roots == list(range(20))


def test_the_first_failure_is_raised(backend: JoblibBackend) -> None:
    with joblib.parallel_config(backend=backend), pytest.raises(OverflowError, match="three"):
        joblib.Parallel()(joblib.delayed(fail)(number) for number in range(10))


def test_results_as_they_come(backend: JoblibBackend) -> None:
    with joblib.parallel_config(backend=backend):
        results = joblib.Parallel(return_as="generator")(
            joblib.delayed(fail)(number) for number in range(3)
        )
        assert list(results) == [0, 1, 2]


def test_it_is_registered_by_a_name_with_options() -> None:
    joblib.register_parallel_backend("lading", JoblibBackend)
    with joblib.parallel_config(backend="lading", image="tools:1"):
        assert joblib.effective_n_jobs() == 512
    with pytest.raises(ValueError, match="no meaning"):
        JoblibBackend().effective_n_jobs(0)


def test_a_batch_ends_once() -> None:
    futures = [Future[int]() for _ in range(3)]
    batch = gathered(futures, lambda _: None)
    threads = [
        threading.Thread(target=future.set_exception, args=(OSError(),)) for future in futures
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert isinstance(batch.exception(), OSError)
    assert gathered([], lambda _: None).result() == []


class _Refusing(ThreadPoolExecutor):
    """Begins nothing, and refuses `fail`."""

    def __init__(self) -> None:
        super().__init__(1)
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A call that waits."""
        if fn is fail:
            raise ValueError("it cannot be sent")
        self.futures.append(Future())
        return self.futures[-1]


def test_calls_before_one_that_cannot_be_sent_are_cancelled() -> None:
    class Batch:
        items: Any = ((sqrt, (4,), {}), (fail, (1,), {}))

    with _Refusing() as executor:
        with pytest.raises(ValueError, match="cannot be sent"):
            JoblibBackend(executor).submit(Batch)
        assert [future.cancelled() for future in executor.futures] == [True]
