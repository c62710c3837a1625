from __future__ import annotations

import msgspec
import pytest

from lading.core.containers.container import Container
from lading.core.containers.request import ContainerRequest
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.schema import RecordType


@pytest.mark.parametrize(("kind", "value"), [(CONTAINERS, Container), (REQUESTS, ContainerRequest)])
def test_every_attribute_of_a_rule_is_a_column(
    kind: RecordType, value: type[msgspec.Struct]
) -> None:
    attributes = set(value.__struct_fields__)
    assert attributes <= {one.name for one in kind.columns}
