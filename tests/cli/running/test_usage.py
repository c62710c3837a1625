"""What commands used, beside what was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from lading.cli.running import usage

_GIB = 1 << 30


def container(used: Any, *, seconds: int = 10, vcpus: int = 4, ram: int = 4 * _GIB) -> Any:
    return {
        "usage": used,
        "runtime_constraints": {"vcpus": vcpus, "ram": ram},
        "started_at": "2026-01-02T03:00:00Z",
        "finished_at": f"2026-01-02T03:00:{seconds:02}Z",
    }


def test_amounts_beside_what_was_asked_for() -> None:
    one = container({"memory": 3 * _GIB, "cpu": 39.2})
    assert usage.shown_memory(one) == "75% of 4.0 GiB"
    assert usage.shown_cpu(one) == "98% of 4"
    assert usage.describe(one) == [
        ("memory", "3.0 GiB at most, 75% of 4.0 GiB"),
        ("cpu", "39 s, 98% of 4 vcpus"),
    ]


def test_suggestions_where_it_is_far_less() -> None:
    described = dict(usage.describe(container({"memory": _GIB, "cpu": 12.0})))
    assert described["memory"].endswith("25% of 4.0 GiB; --ram 1280MiB would do")
    assert described["cpu"] == "12 s, 30% of 4 vcpus; --vcpus 2 would do"
    small = dict(usage.describe(container({"memory": 1e6, "cpu": 0.1}, ram=512 << 20, vcpus=2)))
    assert small["memory"].endswith("--ram 64MiB would do")
    assert small["cpu"].endswith("--vcpus 1 would do")


@pytest.mark.parametrize(
    "one",
    [
        container({"memory": 1e6, "cpu": 0.1}, ram=256 << 20, vcpus=1),
        container({"memory": 3e9, "cpu": 1.0}, seconds=4),
    ],
)
def test_no_suggestion_for_what_is_small_or_short(one: Any) -> None:
    assert not any("would do" in text for _, text in usage.describe(one))


@pytest.mark.parametrize("used", [None, {}, {"memory": "x", "cpu": -1}, {"memory": None}])
def test_what_is_not_known_is_left_out(used: Any) -> None:
    one = container(used)
    assert (usage.shown_memory(one), usage.shown_cpu(one), usage.describe(one)) == ("", "", [])


def test_without_times_or_constraints() -> None:
    one = {"usage": {"memory": 5.0, "cpu": 2.0}}
    assert (usage.shown_memory(one), usage.shown_cpu(one)) == ("", "")
    assert usage.describe(one) == [("cpu", "2.0 s")]
