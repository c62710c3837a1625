from __future__ import annotations

import pytest

from lading.core.data.filetree import File, FileTree, Segment
from lading.core.s3.multipart import (
    LEAST_PART,
    NamedPart,
    check_size,
    check_upload_id,
    expected_tag,
    joined_file,
    part_name,
    parts_of,
    read_completion,
    read_part_number,
)
from lading.core.s3.object_tags import joined_tag, tag_of
from lading.core.s3.refusals import S3Refusal

LARGE = File((Segment(f"{'a' * 32}+{LEAST_PART}", 0, LEAST_PART),))
SMALL = File((Segment(f"{'b' * 32}+1", 0, 1),))
PARTS = {1: LARGE, 2: SMALL, 3: SMALL}


def named(*numbers: int) -> list[NamedPart]:
    """Parts by their numbers."""
    return [NamedPart(number, tag_of(PARTS[number])) for number in numbers]


def test_parts_are_joined() -> None:
    file = joined_file(PARTS, named(1, 3))
    assert file.segments == (*LARGE.segments, *SMALL.segments)
    assert expected_tag(named(1, 3)) == joined_tag(("a" * 32, "b" * 32)) == tag_of(file)
    assert expected_tag(named(2)) == "b" * 32
    assert expected_tag([NamedPart(1, f"{'a' * 32}-2")]) == ""


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([NamedPart(4, "b" * 32)], "InvalidPart"),
        ([NamedPart(2, "c" * 32)], "InvalidPart"),
        (named(2, 3), "EntityTooSmall"),
    ],
)
def test_parts_that_cannot_be_joined(parts: list[NamedPart], code: str) -> None:
    with pytest.raises(S3Refusal) as caught:
        joined_file(PARTS, parts)
    assert caught.value.code == code


def listed(*pairs: tuple[object, str]) -> bytes:
    """A document that completes an upload."""
    parts = "".join(
        f"<Part><ETag>{tag}</ETag><PartNumber> {number} </PartNumber></Part>"
        for number, tag in pairs
    )
    return (
        '<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Other/>{parts}</CompleteMultipartUpload>"
    ).encode()


def test_documents() -> None:
    parts = [NamedPart(1, "a"), NamedPart(3, "b")]
    assert read_completion(listed((1, '"a"'), (3, "b"))) == parts


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (listed(), "MalformedXML"),
        (listed((2, "a"), (1, "b")), "InvalidPartOrder"),
        (listed((1, "a"), (1, "b")), "InvalidPartOrder"),
        (listed((0, "a")), "InvalidArgument"),
        (listed((10001, "a")), "InvalidArgument"),
    ],
)
def test_documents_that_complete_nothing(body: bytes, code: str) -> None:
    with pytest.raises(S3Refusal) as caught:
        read_completion(body)
    assert caught.value.code == code


def test_names() -> None:
    assert read_part_number("10000") == 10000
    tree = FileTree({part_name(2): SMALL, part_name(10): LARGE, "other": SMALL, "3": FileTree({})})
    assert list(parts_of(tree)) == [2, 10]
    assert check_upload_id("zzzzz-4zz18-000000000000001") == "zzzzz-4zz18-000000000000001"
    for upload in ("", "zzzzz-j7d0g-000000000000001", "../a"):
        with pytest.raises(S3Refusal, match="begin a new one"):
            check_upload_id(upload)


def test_the_size_that_a_client_expects() -> None:
    check_size(LARGE, None)
    check_size(LARGE, f" {LEAST_PART}")
    with pytest.raises(S3Refusal, match="name all of them") as caught:
        check_size(LARGE, str(LEAST_PART + 1))
    assert caught.value.code == "InvalidRequest"
