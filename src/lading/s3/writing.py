"""PutObject, CopyObject, DeleteObject and DeleteObjects; CreateBucket and DeleteBucket.

Data is durable before the collection names it, and the collection before the answer. A change is
worked out from the present collection, so that writers at the same time never lose each other's
objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lading.client.blocks import BlockClient
from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree
from lading.core.errors import Forbidden, LadingError, NotFound
from lading.core.s3 import edits
from lading.core.s3.bucket_names import (
    BucketKind,
    is_bucket_name,
    is_directory_key,
    parse_bucket,
    parse_path,
    readable_path,
    writable_path,
)
from lading.core.s3.edits import UPLOADED
from lading.core.s3.object_tags import EMPTY_TAG, tag_of
from lading.core.s3.operations import COPY_SOURCE
from lading.core.s3.refusals import S3Refusal, code_of, shown_key
from lading.core.s3.xml_documents import document, element, leaf, parse_document
from lading.fileserving import conditions
from lading.fileserving.changes import Edit
from lading.fileserving.collection_cache import RETRY, CachedCollection
from lading.fileserving.conditions import ConditionResult, ResourceState
from lading.fileserving.responses import FileResponse
from lading.s3.bodies import echo_checksums
from lading.s3.buckets import (
    NewCollection,
    ObjectPlace,
    ProjectPlace,
    WriteTarget,
    find_bucket,
    find_home,
    find_object_place,
    find_owned,
    find_place,
    find_target,
    make_target,
    no_key,
    open_target,
)
from lading.s3.listings import xml_response
from lading.s3.reading import find_file, tag_headers, unmet
from lading.s3.requests import S3Request, S3Services, iso_time, quoted, read_document

# Bytes of a DeleteObjects with 1,000 keys of 1 KiB, each byte of which may be an entity.
_MOST_DOCUMENT: Final = 8 << 20
_MOST_DELETED: Final = 1000
_CODE_OF_DIRECTORY: Final = "InvalidRequest"
_DELETE_CONDITIONS: Final = "x-amz-if-match-"
# Elements of a key in DeleteObjects.
_PLAIN_KEY: Final = frozenset(("Key", "VersionId"))
_SOURCE_CONDITIONS: Final = "x-amz-copy-source-"


async def put_object(services: S3Services, request: S3Request) -> FileResponse:
    """PutObject: a file, or with a slash at the end of its key an empty directory."""
    target = await find_target(services, request)
    path = writable_path(target.key)

    def plan_directory(present: CachedCollection) -> Edit:
        return Edit(edits.put_directory(present.tree, path), 200)

    present = await open_target(services, request, target)
    # Refuse an invalid write before the body is read.
    check_conditions(request, present, target.key)
    if is_directory_key(request.address.key):
        edits.put_directory(present.tree, path)
        if await read_document(request, _MOST_DOCUMENT):
            raise S3Refusal(_CODE_OF_DIRECTORY, "a key that ends in a slash has no content")
        tag = EMPTY_TAG
        uuid = await make_target(services, request, target)
        await services.changes.apply(uuid, request.token, plan_directory)
    else:
        edits.put_file(present.tree, path)
        file = await store_body(services, request)
        await name_file(services, request, target, file)
        tag = tag_of(file)
    return FileResponse(headers={"ETag": quoted(tag), **echo_checksums(request.headers)})


async def store_body(services: S3Services, request: S3Request) -> File:
    """The file of a body, whose blocks are durable."""
    blocks = BlockClient(services.files.collections.transport, request.token, retry=RETRY)
    return await services.files.intake.store(
        blocks, request.body, length=request.length, holder=request.holder
    )


async def name_file(
    services: S3Services, request: S3Request, target: WriteTarget, file: File
) -> None:
    """Let a collection name a file whose blocks are stored."""
    path = writable_path(target.key)

    def plan(collection: CachedCollection) -> Edit:
        check_conditions(request, collection, target.key)
        return Edit(edits.put_file(collection.tree, path), 200)

    if isinstance(target, NewCollection):
        # A write that is refused makes no collection.
        plan(await open_target(services, request, target))
    uuid = await make_target(services, request, target)
    uploaded = filetree.to_manifest(FileTree({UPLOADED: file}))
    await services.changes.apply(uuid, request.token, plan, uploaded=uploaded)


def check_conditions(request: S3Request, collection: CachedCollection, key: str) -> None:
    """Raise S3Refusal unless the conditions of a write hold."""
    path = readable_path(key)
    node = None if path is None else filetree.find(collection.tree, path)
    state = ResourceState()
    if isinstance(node, File):
        state = ResourceState(tag_of(node), collection.modified)
    headers = tag_headers(request.headers)
    if "if-match" in headers and not state.tag:
        raise no_key(request.address.key)
    if conditions.judge_conditions(headers, state, reads=False) is not ConditionResult.GO_ON:
        raise unmet(request.address.key)


async def copy_object(services: S3Services, request: S3Request) -> FileResponse:
    """CopyObject, by reference: no data is moved."""
    is_replaced = request.headers.get("x-amz-metadata-directive", "").upper() == "REPLACE"
    file = await find_source(services, request)
    target = await find_target(services, request)
    if not is_replaced and await _is_same(services, request, target):
        raise S3Refusal(
            "InvalidRequest", "the copy is its source; nothing would change without new metadata"
        )
    await name_file(services, request, target, file)
    content = (
        leaf("LastModified", iso_time(services.clock())),
        leaf("ETag", quoted(tag_of(file))),
    )
    return xml_response(document("CopyObjectResult", content))


async def find_source(services: S3Services, request: S3Request) -> File:
    """The file that `x-amz-copy-source` names, under its conditions. Raises S3Refusal."""
    object_place, key = await _source_place(services, request)
    collection = await services.files.collections.open(object_place.collection, request.token)
    file = find_file(collection, object_place.key, key)
    state = ResourceState(tag_of(file), collection.modified)
    headers = tag_headers(request.headers, _SOURCE_CONDITIONS)
    if conditions.judge_conditions(headers, state, reads=True) is not ConditionResult.GO_ON:
        raise S3Refusal("PreconditionFailed", f"{shown_key(key)}: a condition on the source fails")
    return file


async def _source_place(services: S3Services, request: S3Request) -> tuple[ObjectPlace, str]:
    raw, _, version = request.headers[COPY_SOURCE].partition("?versionId=")
    if version not in ("", "null"):
        raise S3Refusal("NotImplemented", "versionId: objects have no versions here")
    address = parse_path(raw.removeprefix("/"), prefix="")
    if not address.bucket or not address.key:
        raise S3Refusal("InvalidArgument", f"{COPY_SOURCE}: must be /BUCKET/KEY")
    object_place = await find_object_place(services, request, address.bucket, address.key)
    return object_place, address.key


async def _is_same(services: S3Services, request: S3Request, target: WriteTarget) -> bool:
    source, _ = await _source_place(services, request)
    return isinstance(target, ObjectPlace) and (source.collection, source.key) == (
        target.collection,
        target.key,
    )


async def delete_object(services: S3Services, request: S3Request) -> FileResponse:
    """DeleteObject; a key that is not there is deleted, too."""
    for name in request.headers:
        # To ignore a condition would delete what the client wants to keep.
        if name.startswith(_DELETE_CONDITIONS):
            raise S3Refusal("NotImplemented", f"{name[:60]}: is not offered")
    key = request.address.key
    bucket = await find_bucket(services, request)
    object_place = await find_place(services, request, bucket, key)
    if isinstance(object_place, ObjectPlace):
        await _delete(services, request, object_place.collection, [object_place.key])
    elif "if-match" in request.headers:
        raise no_key(key)
    return FileResponse(status=204)


async def _delete(
    services: S3Services, request: S3Request, collection: str, keys: Sequence[str]
) -> None:
    is_conditional = len(keys) == 1 and "if-match" in request.headers

    def plan(now: CachedCollection) -> Edit:
        if is_conditional:
            check_conditions(request, now, keys[0])
        return Edit(edits.delete_keys(now.tree, keys), 204)

    await services.changes.apply(collection, request.token, plan)


@dataclass(frozen=True, slots=True)
class _Deletion:
    """A key of DeleteObjects with the error of its deletion, None for success."""

    key: str
    error: LadingError | None = None


async def delete_objects(services: S3Services, request: S3Request) -> FileResponse:
    """DeleteObjects: one change for each collection. A key that is refused lets no other fail."""
    root = parse_document(await read_document(request, _MOST_DOCUMENT), "Delete")
    objects = [child for child in root.children if child.name == "Object"]
    keys = [child.value("Key") for child in objects]
    for child in objects:
        if any(condition.name not in _PLAIN_KEY for condition in child.children):
            raise S3Refusal("NotImplemented", "conditions on single keys are not offered")
    if not keys or len(keys) > _MOST_DELETED:
        raise S3Refusal("MalformedXML", f"the document names no key, or more than {_MOST_DELETED}")
    deletions = await _delete_all(services, request, keys)
    is_quiet = root.value("Quiet").strip() == "true"
    content = [
        element("Deleted", leaf("Key", deletion.key))
        for deletion in deletions
        if deletion.error is None and not is_quiet
    ]
    content += [
        element(
            "Error",
            leaf("Key", deletion.key),
            leaf("Code", code_of(deletion.error)),
            leaf("Message", deletion.error.message),
        )
        for deletion in deletions
        if deletion.error is not None
    ]
    return xml_response(document("DeleteResult", content))


async def _delete_all(
    services: S3Services, request: S3Request, keys: Sequence[str]
) -> list[_Deletion]:
    bucket = await find_bucket(services, request)
    groups: dict[str, dict[str, str]] = {}
    deletions = []
    for key in dict.fromkeys(keys):
        object_place = await find_place(services, request, bucket, key)
        if isinstance(object_place, ProjectPlace):
            deletions.append(_Deletion(key))
        else:
            groups.setdefault(object_place.collection, {})[key] = object_place.key
    for collection, places in groups.items():
        try:
            await _delete(services, request, collection, list(places.values()))
        except LadingError as error:
            deletions += [_Deletion(key, error) for key in places]
        else:
            deletions += [_Deletion(key) for key in places]
    return deletions


async def create_bucket(services: S3Services, request: S3Request) -> FileResponse:
    """CreateBucket: an empty collection of this name in the caller's home project."""
    name, api = request.address.bucket, request.api(services)
    if not is_bucket_name(name):
        # Also raises for a name that no bucket can have.
        kind = parse_bucket(name).kind
        raise S3Refusal("BucketAlreadyExists", f"{name}: names a {kind}, which is made by the API")
    await read_document(request, 1 << 16)
    home = await find_home(api, request)
    for plural in ("collections", "groups"):
        if await find_owned(api, plural, home, name):
            raise S3Refusal("BucketAlreadyOwnedByYou", f"{name}: you have this bucket already")
    await api.create("collections", {"name": name, "manifest_text": ""})
    return FileResponse(headers={"Location": f"/{name}"})


async def delete_bucket(services: S3Services, request: S3Request) -> FileResponse:
    """DeleteBucket: puts an empty collection into the trash."""
    bucket = await find_bucket(services, request)
    if bucket.kind is not BucketKind.COLLECTION:
        raise Forbidden("Forbidden: projects and contents are not deleted by S3; use the API")
    collection = await services.changes.open(bucket.uuid, request.token)
    if collection.tree.entries:
        raise S3Refusal("BucketNotEmpty", f"{request.address.bucket}: delete its objects first")
    headers = {"If-Match": quoted(collection.etag)}
    api = request.api(services)
    try:
        await api.request("DELETE", f"collections/{bucket.uuid}", headers=headers)
    except NotFound:
        raise S3Refusal("NoSuchBucket", f"{request.address.bucket}: is gone already") from None
    return FileResponse(status=204)
