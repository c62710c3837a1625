"""Values of options as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lading.client.request_options import (
    LEAST_RAM,
    parse_moment,
    parse_seconds,
    parse_span,
    request_attributes,
)
from lading.core.errors import Invalid
from lading.core.quantities import parse_size

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def _attributes(command: Any = ("x",), **changes: Any) -> dict[str, Any]:
    options: dict[str, Any] = {
        "vcpus": 1, "ram": "1GiB", "tmp": (), "stdout": None, "network": False, "durations": {},
        "moments": {}, "attributes": {}, "gpu": (None, None, (), None),
    }  # fmt: skip
    return request_attributes(command, now=NOW, **{**options, **changes})


def test_durations() -> None:
    values = ("90", 90, "1m30s", timedelta(seconds=90))
    assert [parse_seconds(value) for value in values] == [90] * 4


@pytest.mark.parametrize("value", ["1GiB-2GiB", (1 << 30, 2 << 30), ["1GiB", "2GiB"]])
def test_ranges(value: object) -> None:
    assert parse_span(value, parse_size, example="x", least=LEAST_RAM) == [1 << 30, 2 << 30]


@pytest.mark.parametrize("value", ["2-1", "1-2-3", "", "x", -1, None])
def test_what_is_no_range(value: object) -> None:
    with pytest.raises(Invalid, match="write an amount, or the least and the most"):
        parse_span(value, int, example="2-8")


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("13:00", "2026-01-02T13:00:00"),
        ("11:00", "2026-01-03T11:00:00"),
        ("2h", "2026-01-02T14:00:00"),
        ("2026-03-01T00:00:00+00:00", "2026-03-01T00:00:00"),
        (datetime(2026, 3, 1, tzinfo=UTC), "2026-03-01T00:00:00"),
    ],
)
def test_moments(value: str | datetime, moment: str) -> None:
    assert parse_moment(value, now=NOW).startswith(moment)


def test_attributes_of_a_request() -> None:
    body = _attributes(
        tmp=["/a"], stdout="log", network=True, durations={"max_run_time": 60},
        moments={"deadline": "2h", "expires": None},
        attributes={"scheduling_parameters": {"partitions": ["p"]}},
    )  # fmt: skip
    assert body["mounts"]["/a"] == {"kind": "tmp"}
    assert body["mounts"]["stdout"]["path"] == "/out/log"
    assert body["runtime_constraints"]["internet"]
    scheduling = body["scheduling_parameters"]
    assert (scheduling["partitions"], scheduling["max_run_time"]) == (["p"], 60)
    assert scheduling["deadline"].startswith("2026-01-02T14")
    assert set(_attributes(tmp="/b")["mounts"]) == {"/out", "/b"}


def test_gpus_are_a_constraint() -> None:
    assert "gpu" not in _attributes()["runtime_constraints"]
    constraint = _attributes(gpu=(2, "16GiB", ["ampere"], 12.4))["runtime_constraints"]["gpu"]
    assert constraint == {
        "device_count": 2, "vram": 16 << 30, "hardware_target": ["ampere"], "stack": "cuda",
        "driver_version": "12.4",
    }  # fmt: skip
    assert _attributes(gpu=(None, None, "gfx90a", None))["runtime_constraints"]["gpu"] == {
        "device_count": 1, "vram": 0, "hardware_target": ["gfx90a"], "stack": "rocm",
        "driver_version": "0.0",
    }  # fmt: skip
    for gpu, message in (
        (("x", None, (), None), "gpus: 'x': write a number"),
        ((None, "16", (), None), "gpu_memory: '16': is 16 bytes"),
        ((None, None, "", None), "gpu_type: is empty"),
        ((None, None, (), "new"), "cuda: 'new': write a version"),
        ((0, None, (), "12.4"), "ask for 1 or leave these out"),
    ):
        with pytest.raises(Invalid, match=message):
            _attributes(gpu=gpu)


def test_what_is_no_command() -> None:
    for command in ((), "sort x", b"sort", 5):
        with pytest.raises(Invalid, match="give it as a list of words"):
            _attributes(command)
