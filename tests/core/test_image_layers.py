from __future__ import annotations

import pytest

from lading.core import image_layers
from lading.core.image_layers import Attribute, attribute, attribute_fault, place_of_layer

IDS = tuple(f"sha256:{letter * 64}" for letter in "abc")


@pytest.mark.parametrize(
    ("name", "treatment"),
    [
        ("user.note", Attribute.SET),
        ("security.capability", Attribute.SET),
        ("system.posix_acl_access", Attribute.SET),
        ("com.apple.provenance", Attribute.LEFT_OUT),
        ("system.other", Attribute.LEFT_OUT),
        ("trusted.overlay.redirect", Attribute.REFUSED),
        ("user.overlay.opaque", Attribute.REFUSED),
    ],
)
def test_attributes(name: str, treatment: Attribute) -> None:
    assert attribute(name) is treatment
    assert bool(attribute_fault(name)) is (treatment is not Attribute.SET)


def test_devices() -> None:
    assert image_layers.is_kept_device(is_character=True, number=(1, 3))
    assert not image_layers.is_kept_device(is_character=False, number=(1, 3))
    assert not image_layers.is_kept_device(is_character=True, number=(1, 1))


def test_remarks_name_the_entry() -> None:
    remark = image_layers.device_left_out("'dev/sda'", is_character=False, number=(8, 0))
    assert remark == "'dev/sda' is left out: the block device 8:0 is not for containers"
    assert "character" in image_layers.device_left_out("x", is_character=True, number=(1, 1))
    said = image_layers.attribute_left_out("'f'", "com.x", "which Linux does not know")
    assert said == "the attribute 'com.x' of 'f' is left out: which Linux does not know"
    assert image_layers.shown_name("f") == "'f'"
    assert len(image_layers.shown_name("f" * 5000)) < 110


def test_a_layer_has_a_name_of_its_own_unless_it_depends_on_lower_ones() -> None:
    assert place_of_layer(IDS, 1, is_bound=False) == f"{'b' * 64}.any"
    bound = place_of_layer(IDS, 1, is_bound=True)
    assert bound == place_of_layer(IDS[:2], 1, is_bound=True)
    assert bound != place_of_layer((IDS[2], IDS[1]), 1, is_bound=True)
    assert bound.startswith("b" * 64)


@pytest.mark.parametrize(("layers", "merged"), [(1, 0), (100, 0), (101, 2), (510, 411)])
def test_the_lowest_of_many_layers_are_merged(layers: int, merged: int) -> None:
    assert image_layers.merged_below(layers) == merged
