"""Containers as a scheduler of Dask; here threads stand for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

dask = pytest.importorskip("dask")
from lading.client.executors.dask_scheduler import DaskScheduler  # noqa: E402


class Recording(ThreadPoolExecutor):
    """Notes the names of the functions that are submitted."""

    def __init__(self) -> None:
        super().__init__(4)
        self.names: list[str] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.names.append(fn.__name__)
        return super().submit(fn, *args, **kwargs)


@pytest.fixture
def executor() -> Iterator[Recording]:
    with Recording() as recording:
        yield recording


def double(number: int) -> int:
    """Twice as much."""
    return 2 * number


def total(numbers: list[int], *, start: int = 0) -> int:
    """The sum."""
    return sum(numbers, start)


def fail(number: int) -> int:
    """Never."""
    raise OverflowError(number)


def test_functions_of_the_user_are_submitted(executor: Recording) -> None:
    doubled = [dask.delayed(double)(number) for number in range(5)]
    answer = dask.delayed(total)(doubled, start=dask.delayed(double)(1)) + 1
    assert dask.compute(answer, doubled[4], scheduler=DaskScheduler(executor)) == (23, 8)
    assert sorted(executor.names) == ["double"] * 6 + ["total"]


def test_only_what_is_needed_is_computed(executor: Recording) -> None:
    graph = {"a": (double, 1), "b": (double, "a"), "c": (fail, "b"), "d": ["a", "b"]}
    get = DaskScheduler(executor)
    assert get(graph, "b") == 4
    assert get(graph, ["a", ["b"]]) == (2, (4,))
    assert get(graph, "d") == [2, 4]


def test_a_failure_is_raised(executor: Recording) -> None:
    with pytest.raises(OverflowError):
        dask.delayed(double)(dask.delayed(fail)(1)).compute(scheduler=DaskScheduler(executor))
