from __future__ import annotations

from msgspec import structs

from lading.core.resources import GIB, Resources
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.supervisor_assignment import gang_share


def test_it_pays_for_its_part_of_every_vm() -> None:
    large = InstanceType(name="l", provider_type="l", resources=Resources(8, 8 * GIB), price=4.0)
    small = structs.replace(large, name="s", resources=Resources(2, 2 * GIB), price=1.0)
    each = Resources(2, 2 * GIB)
    assert gang_share(large, [(large, 4)], each=each) == 1.0
    assert gang_share(large, [(large, 3), (small, 1), (None, 1)], each=each) == 1.0
    assert gang_share(structs.replace(large, price=0.0), [(large, 2)], each=each) == 0.5
