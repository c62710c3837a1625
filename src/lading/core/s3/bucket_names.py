"""Names of buckets, and addresses of objects.

A bucket is named by the uuid of a collection or of a project, by a portable data hash, or by the
name that the caller gave to a collection or project of the home project. Source: docs/spec/s3,
section Buckets and keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lading.core import ids
from lading.core.data import manifest
from lading.core.s3.refusals import S3Refusal, shown_key
from lading.core.tes.locations import decode

LONGEST_KEY: Final = 1024
"""Bytes of a key."""
_HASH: Final = re.compile(r"([0-9a-f]{32})[-+]([0-9]+)")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ADDRESS: Final = re.compile(r"[0-9]+(?:\.[0-9]+){3}")
# Characters of a path in a request, percent-encoded.
_LONGEST_PATH: Final = 8 << 10


class BucketKind(StrEnum):
    """The records that a bucket name leads to."""

    COLLECTION = "collection"
    CONTENT = "content"
    PROJECT = "project"
    NAMED = "named"


@dataclass(frozen=True, slots=True)
class BucketName:
    """A bucket; `name` is a uuid, a portable data hash, or the name of a record."""

    kind: BucketKind
    name: str


@dataclass(frozen=True, slots=True)
class ObjectAddress:
    """The address of a request: the bucket, "" for the service, and the key, "" for the bucket."""

    bucket: str
    key: str


def parse_path(raw: str, *, prefix: str, host_bucket: str = "") -> ObjectAddress:
    """The address in a raw, percent-encoded path below `prefix`, or of a bucket whose name is in
    the name of the host. Raises S3Refusal.
    """
    if len(raw) > _LONGEST_PATH:
        raise S3Refusal("KeyTooLongError", f"the path has more than {_LONGEST_PATH} characters")
    path = decode(raw[len(prefix) :].removeprefix("/"))
    bucket, key = (host_bucket, path) if host_bucket else path.partition("/")[::2]
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise S3Refusal("InvalidArgument", "the key is not UTF-8") from None
    if size > LONGEST_KEY:
        raise S3Refusal("KeyTooLongError", f"the key has {size} bytes; at most {LONGEST_KEY}")
    return ObjectAddress(bucket, key)


def parse_bucket(name: str) -> BucketName:
    """The bucket of a name. Raises S3Refusal for a name that no bucket has."""
    if ids.is_uuid(name):
        kinds = {
            str(ids.Infix.COLLECTION): BucketKind.COLLECTION,
            str(ids.Infix.GROUP): BucketKind.PROJECT,
            # The home project of a user.
            str(ids.Infix.USER): BucketKind.PROJECT,
        }
        kind = kinds.get(ids.infix_of(name))
        if kind is None:
            raise S3Refusal("NoSuchBucket", f"{name}: is no collection and no project")
        return BucketName(kind, name)
    match = _HASH.fullmatch(name)
    if match is not None:
        return BucketName(BucketKind.CONTENT, f"{match[1]}+{match[2]}")
    if not is_bucket_name(name):
        raise S3Refusal(
            "InvalidBucketName",
            f"bucket {shown_key(name)}: give the uuid of a collection or project, or a name of 3 to"
            " 63 lower-case letters, digits, '-' and '.'",
        )
    return BucketName(BucketKind.NAMED, name)


def is_bucket_name(name: str) -> bool:
    """Whether clients of S3 take a name, which is no uuid and no hash, as that of a bucket."""
    return (
        _NAME.fullmatch(name) is not None
        and not any(pair in name for pair in ("..", ".-", "-."))
        and _ADDRESS.fullmatch(name) is None
        and not ids.is_uuid(name)
        and _HASH.fullmatch(name) is None
    )


def readable_path(key: str) -> str | None:
    """The path of the file or directory that a key may name; None where no file has the key.

    The key of a directory ends in a slash, which its path has not.
    """
    path = key.removesuffix("/")
    return None if not path or manifest.fault_of(path) else path


def writable_path(key: str) -> str:
    """The path of a key that is to be written. Raises S3Refusal."""
    path = key.removesuffix("/")
    fault = manifest.fault_of(path) if path else "a key needs a name"
    if fault:
        raise S3Refusal("InvalidArgument", f"key {shown_key(key)}: cannot be a file: {fault}")
    return path


def is_directory_key(key: str) -> bool:
    """Whether a key is that of a directory."""
    return key.endswith("/")
