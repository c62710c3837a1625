"""Shapes of documents, each with its faults."""

from __future__ import annotations

import pytest

from lading.core.tes.document_shapes import (
    DocumentFault,
    Shape,
    amount_shape,
    array_shape,
    flag_shape,
    object_shape,
    text_shape,
    texts_shape,
)
from lading.core.values import Json

PAIR = object_shape({"name": text_shape, "flags": array_shape(flag_shape, most=2)}, "name")


@pytest.mark.parametrize(
    ("shape", "value", "at"),
    [
        (text_shape, "a\0", ""),
        (amount_shape(is_whole=True), 1.5, ""),
        (amount_shape(is_whole=False), True, ""),
        (texts_shape, {"a/b": 1}, "/a~1b"),
        (array_shape(text_shape, least=1), [], ""),
        (PAIR, {"name": "n", "flags": [True, "no"]}, "/flags/1"),
        (PAIR, {"name": "n", "flags": [True] * 3}, "/flags"),
        (PAIR, {"name": ""}, "/name"),
        (PAIR, [], ""),
    ],
)
def test_a_fault_has_the_pointer_of_its_value(shape: Shape, value: Json, at: str) -> None:
    faults: list[DocumentFault] = []
    shape(value, "", faults)
    assert [one.pointer for one in faults] == [at]


def test_unknown_values_and_nulls_are_left_out() -> None:
    faults: list[DocumentFault] = []
    assert PAIR({"name": "n", "flags": None, "odd": 1}, "", faults) == {"name": "n"}
    assert not faults
