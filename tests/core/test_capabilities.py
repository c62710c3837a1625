"""Capabilities of machines that requests ask for by name."""

from __future__ import annotations

import pytest

from lading.core import capabilities
from lading.core.errors import Invalid
from lading.core.values import Json


@pytest.mark.parametrize("value", [True, False, 3, 2.5, "x86-64-v3", [1, 2], [0.5, 0.5]])
def test_values_of_a_request(value: Json) -> None:
    capabilities.check({"clock": value})


@pytest.mark.parametrize(
    "value", ["", "x" * 201, "a\nb", [], [1], [2, 1], [True, 2], ["a", "b"], {}, 1 << 63]
)
def test_other_values_are_refused(value: Json) -> None:
    with pytest.raises(Invalid, match=r"Runtime constraints \[clock\]: must be true, false"):
        capabilities.check({"clock": value})


def test_names() -> None:
    for name in ("", "9x", "a b", "x" * 65):
        with pytest.raises(Invalid, match="unexpected keys"):
            capabilities.check({name: True})
    with pytest.raises(Invalid, match="more than 50 names"):
        capabilities.check({f"c{number}": True for number in range(51)})


@pytest.mark.parametrize(
    ("wanted", "lacks"),
    [
        ({}, ""),
        ({"clock": True}, ""),
        ({"clock": False}, "no clock"),
        ({"fpga": True}, "fpga"),
        ({"fpga": False}, ""),
        ({"level": True}, ""),
        ({"level": 3}, ""),
        ({"level": 4}, "level 4"),
        ({"level": [1, 3]}, ""),
        ({"level": [4, 9]}, "level [4,9]"),
        ({"level": False}, "no level"),
        ({"isa": "v3"}, ""),
        ({"isa": [1, 2]}, "isa [1,2]"),
        ({"clock": 1}, "clock 1"),
        ({"off": True}, "off"),
        ({"fpga": [1, 2]}, "fpga [1,2]"),
    ],
)
def test_what_a_machine_lacks(wanted: dict[str, Json], lacks: str) -> None:
    offered = capabilities.read_offered({"level": 3, "isa": "v3", "off": False})
    assert capabilities.lacking(wanted, offered).replace(", ", ",") == lacks


def test_what_cannot_be_offered() -> None:
    for given in ({"a b": True}, {"level": [1, 2]}, {"level": ""}):
        with pytest.raises(Invalid, match=r"Containers\.Capabilities"):
            capabilities.read_offered(given)  # type: ignore[arg-type]
