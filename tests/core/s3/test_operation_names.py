from __future__ import annotations

from lading.core.s3.operation_names import Operation


def test_names_are_those_of_the_reference() -> None:
    assert {"GetObject", "PutObject", "ListObjectsV2"} < set(Operation)
