from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from lading.supervisor.machine import Costing
from lading.supervisor.process.register import Register
from tests.supervisor.supervised import MOMENT, Bench

INSTANCE = {"Name": "big", "Price": 2.0, "VCPUs": 4, "RAM": 1000}
HALF = {"vcpus": 2, "ram": 500}


class Hours:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = MOMENT

    def __call__(self) -> Any:
        return self.now

    def advance(self, hours: float) -> None:
        self.now += timedelta(hours=hours)


def costing(bench: Bench, **settings: Any) -> tuple[Costing, Hours]:
    hours = Hours()
    return Costing(structs.replace(bench.assignment(), **settings), hours), hours


def test_what_has_no_price_costs_nothing(bench: Bench) -> None:
    assert costing(bench)[0].amount(HALF) is None


def test_the_price_of_the_instance_by_size(bench: Bench) -> None:
    made, hours = costing(bench, instance_type=INSTANCE)
    hours.advance(3)
    assert made.amount(HALF) == pytest.approx(3.0)
    assert made.amount({}) == 0.0


def test_the_preparation_of_a_container_is_not_charged(bench: Bench) -> None:
    made, hours = costing(bench, instance_type=INSTANCE)
    hours.advance(5)
    made.begin()
    hours.advance(3)
    assert made.amount(HALF) == pytest.approx(3.0)


def test_what_has_ended_costs_no_more_while_the_server_is_away(bench: Bench) -> None:
    made, hours = costing(bench, instance_type=INSTANCE)
    hours.advance(3)
    made.end()
    hours.advance(9)
    assert made.amount(HALF) == pytest.approx(3.0)
    assert made.ended == MOMENT + timedelta(hours=3)


def test_a_share_that_the_dispatcher_names(bench: Bench) -> None:
    made, hours = costing(bench, instance_type=INSTANCE, instance_share=1.0)
    hours.advance(1)
    assert made.amount(HALF) == pytest.approx(2.0)


def test_prices_of_the_register_win_and_are_looked_at_again(bench: Bench, tmp_path: Path) -> None:
    register = Register(tmp_path / "lock")
    made, hours = costing(
        bench, instance_type=INSTANCE, instance_share=1.0, lock_directory=str(tmp_path / "lock")
    )
    assert not made.look()
    register.write_prices(b'[{"StartTime": "2026-01-01T00:00:00Z", "Price": 10}]')
    assert made.look()
    assert not made.look()
    hours.advance(1)
    assert made.amount(HALF) == pytest.approx(10.0)
    register.write_prices(b"nonsense")
    assert not made.look()
    assert made.amount(HALF) == pytest.approx(10.0)
