from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import Invalid
from lading.core.resources import Price, cost, read_prices
from lading.core.resources import machine_share as share

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        ((), 0.0),
        ((Price(at(0), 2.0),), 8.0),
        ((Price(at(0), 2.0), Price(at(3), 1.0)), 7.0),
        ((Price(at(2), 2.0), Price(at(3), 1.0)), 7.0),
        ((Price(at(-9), 2.0), Price(at(-5), 1.0)), 4.0),
        ((Price(at(0), 1.0), Price(at(9), 5.0)), 4.0),
    ],
)
def test_each_price_counts_for_its_time(prices: tuple[Price, ...], expected: float) -> None:
    assert cost(prices, at(0), at(4)) == pytest.approx(expected)
    assert cost(prices, at(0), at(4), share=0.5) == pytest.approx(expected / 2)


def test_a_history_is_ordered_and_without_repetitions() -> None:
    history = [
        {"StartTime": "2026-01-01T03:00:00Z", "Price": 1},
        {"StartTime": "2026-01-01T02:00:00Z", "Price": 2.0},
        {"StartTime": "2026-01-01T00:00:00Z", "Price": 2},
    ]
    assert read_prices(history) == (Price(at(0), 2.0), Price(at(3), 1.0))
    assert read_prices([]) == ()


@pytest.mark.parametrize(
    "history",
    [
        {},
        [1],
        [{"Price": 1}],
        [{"StartTime": "soon", "Price": 1}],
        [{"StartTime": "2026-01-01", "Price": "1"}],
        [{"StartTime": "2026-01-01", "Price": True}],
        [{"StartTime": "2026-01-01", "Price": -1}],
        [{"StartTime": "2026-01-01", "Price": float("nan")}],
    ],
)
def test_what_is_no_history_is_refused(history: Any) -> None:
    with pytest.raises(Invalid, match="price history"):
        read_prices(history)


@pytest.mark.parametrize(
    ("instance", "expected"),
    [
        ({}, 1.0),
        ({"VCPUs": 4}, 0.5),
        ({"VCPUs": 4, "RAM": 1000}, 0.3),
        ({"VCPUs": 1, "RAM": 0}, 1.0),
    ],
)
def test_a_share_is_the_mean_of_cpus_and_memory(instance: dict[str, int], expected: float) -> None:
    assert share(instance, vcpus=2, ram=100) == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)), min_size=1))
def test_containers_that_fit_on_a_machine_pay_at_most_all_of_it(
    sizes: list[tuple[int, int]],
) -> None:
    instance = {"VCPUs": sum(cpus for cpus, _ in sizes), "RAM": sum(ram for _, ram in sizes)}
    assert sum(share(instance, vcpus=cpus, ram=ram) for cpus, ram in sizes) <= 1.0 + 1e-9
