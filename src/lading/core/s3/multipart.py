"""Uploads in parts: their names, the order that completes them, and the file that they make.

An upload is a collection of its user: its files are the parts, so that their blocks are durable and
are kept, and the end of the collection is the expiry of the upload. Source: docs/spec/s3, section
Uploads in parts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lading.core import ids
from lading.core.data.filetree import File, FileTree, Segment
from lading.core.s3.object_tags import joined_tag, tag_of
from lading.core.s3.refusals import S3Refusal
from lading.core.s3.xml_documents import XmlElement, parse_document

PROPERTY: Final = "s3_upload"
"""Property of the collection of an upload: the bucket and the key."""
MOST_PARTS: Final = 10_000
LEAST_PART: Final = 5 << 20
"""Bytes of each part but the last."""
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,4}")
_PLAIN: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class NamedPart:
    """A part as the client names it: its number, and its tag without quotes."""

    number: int
    tag: str


def check_upload_id(upload: str) -> str:
    """The uuid of the collection of an upload. Raises S3Refusal."""
    if not ids.is_uuid(upload, ids.Infix.COLLECTION):
        raise no_upload()
    return upload


def no_upload() -> S3Refusal:
    """The refusal of an upload that is not there."""
    return S3Refusal(
        "NoSuchUpload", "this upload was completed, aborted, or has expired; begin a new one"
    )


def read_part_number(parameter: str) -> int:
    """The number of a part. Raises S3Refusal."""
    if _NUMBER.fullmatch(parameter) is None or int(parameter) > MOST_PARTS:
        raise S3Refusal("InvalidArgument", f"partNumber: must be a number from 1 to {MOST_PARTS}")
    return int(parameter)


def part_name(number: int) -> str:
    """The name of the file of a part; names sort as numbers."""
    return f"{number:05}"


def parts_of(tree: FileTree) -> dict[int, File]:
    """The parts of an upload by their numbers, in order."""
    return {
        int(name): node
        for name, node in sorted(tree.entries.items())
        if isinstance(node, File) and name.isascii() and name.isdigit()
    }


def read_completion(body: bytes) -> list[NamedPart]:
    """The parts that the client names, in ascending order. Raises S3Refusal."""
    root = parse_document(body, "CompleteMultipartUpload")
    parts = [_read_part(child) for child in root.children if child.name == "Part"]
    if not parts:
        raise S3Refusal("MalformedXML", "the document names no part")
    numbers = [named.number for named in parts]
    if numbers != sorted(set(numbers)):
        raise S3Refusal("InvalidPartOrder", "the parts must be in ascending order, each once")
    return parts


def _read_part(element: XmlElement) -> NamedPart:
    number, tag = element.value("PartNumber").strip(), element.value("ETag").strip()
    return NamedPart(read_part_number(number), tag.strip('"'))


def joined_file(parts: Mapping[int, File], named: Sequence[NamedPart]) -> File:
    """The file of the named parts. Raises S3Refusal."""
    segments: list[Segment] = []
    for position, named_part in enumerate(named, 1):
        file = parts.get(named_part.number)
        if file is None or tag_of(file) != named_part.tag:
            raise S3Refusal(
                "InvalidPart",
                f"part {named_part.number}: is not there, or has another ETag; send it again",
            )
        if position < len(named) and file.size < LEAST_PART:
            raise S3Refusal(
                "EntityTooSmall",
                f"part {named_part.number}: has {file.size} bytes;"
                f" all but the last have {LEAST_PART} or more",
            )
        segments += file.segments
    return File(tuple(segments))


def check_size(file: File, expected: str | None) -> None:
    """Raise S3Refusal unless a file has the bytes that the client expects; None expects nothing."""
    if expected is not None and expected.strip() != str(file.size):
        raise S3Refusal(
            "InvalidRequest",
            f"x-amz-mp-object-size: the parts have {file.size} bytes; name all of them",
        )


def expected_tag(named: Sequence[NamedPart]) -> str:
    """The tag of the object of these parts, "" where it does not follow from their tags: a part of
    several blocks has none of its own.
    """
    tags = [named_part.tag for named_part in named]
    if not all(map(_PLAIN.fullmatch, tags)):
        return ""
    return tags[0] if len(tags) == 1 else joined_tag(tags)
