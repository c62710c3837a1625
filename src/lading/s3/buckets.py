"""Buckets and objects: the collection and the path in it that a bucket and a key lead to.

The API decides on permissions: it is asked with the caller's token. In a bucket that is a project,
the first elements of a key are names of projects in it, then that of a collection.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, TypeAlias

from lading.client.api import ApiClient, Json, Record
from lading.core import ids
from lading.core.bounded_memory import LruMap
from lading.core.data import manifest
from lading.core.data.filetree import FileTree
from lading.core.errors import Forbidden, LadingError, NotFound
from lading.core.s3.bucket_names import BucketKind, BucketName, parse_bucket
from lading.core.s3.multipart import PROPERTY
from lading.core.s3.refusals import S3Refusal, shown_key
from lading.fileserving.collection_cache import CachedCollection
from lading.s3.requests import S3Request, S3Services

PROJECT: Final[list[Json]] = ["group_class", "=", "project"]
_HOMES: Final = LruMap[bytes, str](10_000)
# Projects in each other that a key goes through; each is a call of the API.
_LEVELS: Final = 100


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket that is there: a collection, by uuid or portable data hash, or a project."""

    kind: BucketKind
    uuid: str


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """The collection of an object, the beginning of the keys of its files in the bucket, and the
    rest of the key.
    """

    collection: str
    base: str
    key: str


@dataclass(frozen=True, slots=True)
class NewCollection:
    """The collection that a write makes: its project and its name there, and the path of the object
    in it as `key`.
    """

    project: str
    name: str
    key: str


WriteTarget: TypeAlias = ObjectPlace | NewCollection


@dataclass(frozen=True, slots=True)
class ProjectPlace:
    """The project that a key leads to, the beginning of the keys in it, and the rest of the key,
    whose first element is the name of nothing in it.
    """

    project: str
    base: str
    key: str


async def find_bucket(services: S3Services, request: S3Request) -> Bucket:
    """The bucket of a request. Raises S3Refusal."""
    return await find_named(services, request, request.address.bucket)


async def find_named(services: S3Services, request: S3Request, name: str) -> Bucket:
    """The bucket with a name, as the caller sees it. Raises S3Refusal."""
    api, bucket = request.api(services), parse_bucket(name)
    try:
        match bucket.kind:
            case BucketKind.NAMED:
                return await _find_in_home(api, request, bucket)
            case BucketKind.PROJECT:
                plural = "users" if ids.is_user(bucket.name) else "groups"
                await api.get(plural, bucket.name, select=("uuid",))
            case BucketKind.COLLECTION | BucketKind.CONTENT:
                await api.get("collections", bucket.name, select=("uuid", "portable_data_hash"))
    except NotFound:
        raise no_bucket(name) from None
    return Bucket(bucket.kind, bucket.name)


async def _find_in_home(api: ApiClient, request: S3Request, bucket: BucketName) -> Bucket:
    home = await find_home(api, request)
    for plural, kind in (("collections", BucketKind.COLLECTION), ("groups", BucketKind.PROJECT)):
        uuid = await find_owned(api, plural, home, bucket.name)
        if uuid:
            return Bucket(kind, uuid)
    raise no_bucket(bucket.name)


async def find_home(api: ApiClient, request: S3Request) -> str:
    """The uuid of the caller, whose home project has the same."""
    # A token never changes its user. Its hash, so that no token is kept in memory.
    key = hashlib.sha256(request.token.encode()).digest()
    home = _HOMES.get(key)
    if home is None:
        record = await api.request("GET", "users/current", params={"select": ["uuid"]})
        home = str(record["uuid"])
        _HOMES.put(key, home, 1)
    return home


async def find_owned(api: ApiClient, plural: str, owner: str, name: str) -> str:
    """The uuid of the project or collection of an owner with a name; "" without one."""
    filters: list[Json] = [["owner_uuid", "=", owner], ["name", "=", name]]
    if plural == "groups":
        filters.append(PROJECT)
    rows = await api.list(plural, filters=filters, select=("uuid",), limit=1)
    return str(rows[0]["uuid"]) if rows else ""


async def find_place(
    services: S3Services, request: S3Request, bucket: Bucket, key: str
) -> ObjectPlace | ProjectPlace:
    """The place that a key leads to; a ProjectPlace where no collection has the key."""
    if bucket.kind is not BucketKind.PROJECT:
        return ObjectPlace(bucket.uuid, "", key)
    api, project, base, below = request.api(services), bucket.uuid, "", key
    for _ in range(_LEVELS):
        name, slash, remainder = below.partition("/")
        if not slash or not is_shown(name):
            break
        child = await find_owned(api, "groups", project, name)
        if not child:
            collection = await find_owned(api, "collections", project, name)
            if collection:
                return ObjectPlace(collection, f"{base}{name}/", remainder)
            break
        project, base, below = child, f"{base}{name}/", remainder
    return ProjectPlace(project, base, below)


async def find_object_place(
    services: S3Services, request: S3Request, bucket_name: str, key: str
) -> ObjectPlace:
    """The place of an object that is read. Raises S3Refusal where no collection has the key."""
    bucket = await find_named(services, request, bucket_name)
    object_place = await find_place(services, request, bucket, key)
    if isinstance(object_place, ProjectPlace):
        raise no_key(key)
    return object_place


async def find_target(services: S3Services, request: S3Request) -> WriteTarget:
    """The place of an object that is written; a NewCollection where the bucket is a project that
    has no collection of this name. Raises S3Refusal.
    """
    bucket, key = await find_bucket(services, request), request.address.key
    object_place = await find_place(services, request, bucket, key)
    if isinstance(object_place, ObjectPlace):
        return object_place
    name, _, below = object_place.key.partition("/")
    if not below or not is_shown(name):
        raise S3Refusal(
            "InvalidArgument",
            f"key {shown_key(key)}: a project holds collections; write COLLECTION/PATH",
        )
    return NewCollection(object_place.project, name, below)


async def open_target(
    services: S3Services, request: S3Request, target: WriteTarget
) -> CachedCollection:
    """The present state of the collection of a target, which has no files if it is to be made.
    Raises Forbidden where the caller may not write.
    """
    if isinstance(target, ObjectPlace):
        return await services.changes.open(target.collection, request.token)
    # Whoever may not write learns it before the body is sent; a home tells it at the end.
    if not ids.is_user(target.project):
        project = await request.api(services).get(
            "groups", target.project, select=("uuid", "can_write")
        )
        if not project["can_write"]:
            raise Forbidden(f"Forbidden: {target.project} is a project that you may only read")
    return CachedCollection(uuid="", pdh="", etag="", name=target.name, tree=FileTree())


async def make_target(services: S3Services, request: S3Request, target: WriteTarget) -> str:
    """The uuid of the collection of a target, which is made if there is none."""
    if isinstance(target, ObjectPlace):
        return target.collection
    return await make_collection(request.api(services), target.project, target.name)


async def make_collection(api: ApiClient, owner: str, name: str) -> str:
    """The uuid of a new collection, or of the one that another writer has just made."""
    attributes: Record = {"name": name, "owner_uuid": owner, "manifest_text": ""}
    try:
        return str((await api.create("collections", attributes))["uuid"])
    except LadingError:
        uuid = await find_owned(api, "collections", owner, name)
        if not uuid:
            raise
        return uuid


def is_shown(name: str) -> bool:
    """Whether a record with this name is a directory of its project: a name with a slash is not."""
    return bool(name) and "/" not in name and not manifest.fault_of(name)


def no_bucket(name: str) -> S3Refusal:
    """The refusal of a bucket that is not there, or not for the caller."""
    return S3Refusal("NoSuchBucket", f"{name[:80]}: there is no such bucket that you can see")


def no_key(key: str) -> S3Refusal:
    """The refusal of a key that is not there."""
    return S3Refusal("NoSuchKey", f"{shown_key(key)}: the bucket has no such key")


async def shown_children(api: ApiClient, project: str, most: int) -> Sequence[tuple[str, str, str]]:
    """The projects and collections in a project, at most `most` of each: name, plural and uuid, in
    the order of their keys. Of a project and a collection with one name the project counts.
    """
    children: dict[str, tuple[str, str, str]] = {}
    for plural in ("collections", "groups"):
        filters: list[Json] = [["owner_uuid", "=", project]]
        filters += [PROJECT] if plural == "groups" else []
        count = 0
        pages = api.pages(plural, filters=filters, select=("uuid", "name", "properties"))
        async with aclosing(pages):
            async for records in pages:
                for record in records:
                    name = str(record.get("name") or "")
                    if is_shown(name) and PROPERTY not in (record["properties"] or {}):
                        children[name] = (name, plural, str(record["uuid"]))
                count += len(records)
                if count >= most:
                    break
    return sorted(children.values(), key=lambda child: f"{child[0]}/")
