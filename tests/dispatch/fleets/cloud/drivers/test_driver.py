from __future__ import annotations

import pytest

from lading.core.errors import Invalid
from lading.dispatch.fleets.cloud.drivers.driver import find_driver, refuse_unknown, text
from lading.dispatch.fleets.cloud.drivers.loopback import open_loopback


def test_drivers_are_found_by_name() -> None:
    assert find_driver("loopback") is open_loopback
    with pytest.raises(
        Invalid, match=r"CloudVMs\.Driver: 'moon' is no installed driver; there are .*loopback"
    ):
        find_driver("moon")


def test_a_parameter_is_a_text() -> None:
    assert text({"Region": "x"}, "Region") == "x"
    assert text({}, "Region", "y") == "y"
    for odd in ({}, {"Region": 5}, {"Region": ""}):
        with pytest.raises(
            Invalid, match=r"DriverParameters\.Region: .*it must be the name of a region"
        ):
            text(odd, "Region", allowed="the name of a region")


def test_unknown_parameters_are_refused() -> None:
    refuse_unknown({"a": 1}, ("a", "b"))
    with pytest.raises(
        Invalid, match=r"unknown key Containers\.CloudVMs\.DriverParameters\.c; known here: a, b"
    ):
        refuse_unknown({"c": 1}, ("a", "b"))
