"""Which image a request means."""

from __future__ import annotations

import pytest

from lading.core import images
from lading.core.errors import Invalid
from lading.core.images import ImageLink, Term
from tests.records import IMAGE

V2 = ("sha256:" + "a" * 64 + ".tar",)
V1 = ("a" * 64 + ".tar",)


@pytest.mark.parametrize(
    ("text", "pdh", "name"),
    [
        (IMAGE, IMAGE, ""),
        (IMAGE + "+Kxyz", IMAGE, ""),
        ("debian", None, "debian:latest"),
        ("debian:12", None, "debian:12"),
        ("debian:", None, "debian:latest"),
        ("host:5000/debian", None, "host:5000/debian:latest"),
        ("host:5000/debian:12", None, "host:5000/debian:12"),
    ],
)
def test_terms(text: str, pdh: str | None, name: str) -> None:
    assert images.parse_reference(text) == Term(text, pdh, name)


def test_a_uuid_names_a_collection() -> None:
    uuid = "zzzzz-4zz18-000000000000001"
    assert images.parse_reference(uuid) == Term(uuid, None, "", uuid)


@pytest.mark.parametrize(
    ("text", "is_hash"),
    [
        ("sha256:abcd", True),
        ("a" * 64, True),
        ("sha256:", False),
        ("sha", False),
        ("abc", False),
        ("debian:12", False),
    ],
)
def test_the_start_of_a_hash(text: str, is_hash: bool) -> None:
    assert images.parse_reference(text).is_hash is is_hash


def link(
    pdh: str, *, files: tuple[str, ...] = V2, created: str = "1", stamp: str | None = None
) -> ImageLink:
    return ImageLink(
        collection_uuid="", pdh=pdh, files=files, created_at=created, image_timestamp=stamp
    )


def test_the_newest_image_is_chosen() -> None:
    links = [
        link("a", created="9"),
        link("b", stamp="1"),
        link("c", stamp="2"),
        link("d", created="5", stamp="2"),
    ]
    assert images.choose_image(images.parse_reference("x"), links, formats=["v2"]) == "d"


def test_an_incompatible_image_is_passed_over() -> None:
    links = [link("a", files=V1, stamp="9"), link("b", files=(*V2, "more")), link("c", files=())]
    assert images.choose_image(images.parse_reference("x"), links, formats=["v1"]) == "a"
    with pytest.raises(Invalid, match="incompatible with 'docker_image_formats'"):
        images.choose_image(images.parse_reference("x"), links, formats=["v2"])


def test_an_image_that_nobody_added() -> None:
    with pytest.raises(Invalid, match='docker image "x:1" not found'):
        images.choose_image(images.parse_reference("x:1"), [], formats=["v2"])
