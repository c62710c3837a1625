"""The kinds of cloud VMs."""

from __future__ import annotations

import pytest

from lading.config.instance_types import instance_types
from lading.config.site import load
from lading.core.errors import Invalid
from lading.core.resources import GIB

SMALL = {"VCPUs": 2, "RAM": "4GiB", "Price": 0.1, "IncludedScratch": "8GiB", "AddedScratch": "2GiB"}


def test_a_type_has_the_disk_that_is_added() -> None:
    declared = load(None, {"InstanceTypes": {"small": SMALL}}).InstanceTypes
    (small,) = instance_types(declared, 0.0)
    assert (small.name, small.provider_type, small.price) == ("small", "small", 0.1)
    assert (small.resources.ram, small.resources.disk, small.added) == (4 * GIB, 10 * GIB, 2 * GIB)


def test_a_factor_gives_each_type_a_preemptible_twin() -> None:
    declared = load(None, {"InstanceTypes": {"small": SMALL}}).InstanceTypes
    prices = {one.preemptible: one.price for one in instance_types(declared, 0.5)}
    assert prices == {False: 0.1, True: 0.05}


def test_gpus_are_of_a_known_kind() -> None:
    gpu = {"DeviceCount": 1, "Stack": "metal"}
    declared = load(None, {"InstanceTypes": {"fast": {**SMALL, "GPU": gpu}}}).InstanceTypes
    with pytest.raises(Invalid, match=r"InstanceTypes\.fast\.GPU\.Stack: 'metal'"):
        instance_types(declared, 0.0)
