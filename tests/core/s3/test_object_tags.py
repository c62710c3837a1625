from __future__ import annotations

from hashlib import md5

import pytest

from lading.core.data.filetree import File, Segment
from lading.core.s3.object_tags import EMPTY_TAG, joined_tag, tag_of

FIRST, LAST = md5(b"aa").hexdigest(), md5(b"b").hexdigest()
A, B = Segment(f"{FIRST}+2+Asigned@1", 0, 2), Segment(f"{LAST}+1", 0, 1)


@pytest.mark.parametrize(
    ("segments", "tag"),
    [((), EMPTY_TAG), ((A,), FIRST), ((A, B), joined_tag((FIRST, LAST)))],
)
def test_tags_of_whole_blocks(segments: tuple[Segment, ...], tag: str) -> None:
    assert tag_of(File(segments)) == tag


def test_a_known_tag_of_parts() -> None:
    parts = md5(bytes.fromhex(FIRST) + bytes.fromhex(LAST)).hexdigest()
    assert joined_tag((FIRST, LAST)) == f"{parts}-2"


def test_parts_of_blocks_have_tags_of_their_own() -> None:
    tags = {tag_of(File((Segment(f"{FIRST}+2", at, 1),))) for at in (0, 1)}
    assert len(tags) == 2
    assert all(tag.endswith("-1") for tag in tags)
