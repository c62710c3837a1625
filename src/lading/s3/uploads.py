"""Uploads in parts: CreateMultipartUpload, UploadPart, UploadPartCopy, Complete, Abort, and their
lists.

An upload is a collection in its user's home project; each part is a file of it. So parts are
durable, and are kept until the collection's end: that of the upload, or `upload_seconds` after its
beginning.
"""

from __future__ import annotations

from contextlib import aclosing
from datetime import timedelta
from typing import Final

from lading.client.api import Json, Record
from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree
from lading.core.data.splice import Origin
from lading.core.errors import Forbidden, NotFound
from lading.core.quantities import format_time
from lading.core.s3 import multipart
from lading.core.s3.bucket_names import is_directory_key, writable_path
from lading.core.s3.checksums import CHECKSUMS, PREFIX
from lading.core.s3.edits import UPLOADED
from lading.core.s3.listing import read_limit
from lading.core.s3.object_tags import tag_of
from lading.core.s3.refusals import S3Refusal
from lading.core.s3.xml_documents import document, element, leaf
from lading.fileserving.byte_ranges import parse_ranges
from lading.fileserving.collection_cache import CachedCollection
from lading.fileserving.responses import FileResponse
from lading.s3.bodies import echo_checksums
from lading.s3.buckets import NewCollection, find_bucket, find_target, open_target
from lading.s3.listings import NEVER_CHANGED, xml_response
from lading.s3.requests import S3Request, S3Services, iso_time, quoted, read_document
from lading.s3.writing import find_source, name_file, store_body

# Bytes of the document of 10,000 parts with checksums.
_MOST_DOCUMENT: Final = 4 << 20
_MOST_UPLOADS: Final = 1000
_TYPE: Final = "intermediate"


async def create_upload(services: S3Services, request: S3Request) -> FileResponse:
    """CreateMultipartUpload."""
    address = request.address
    target = await find_target(services, request)
    writable_path(target.key)
    if is_directory_key(target.key):
        raise S3Refusal("InvalidRequest", "a key that ends in a slash has no content")
    # A collection that the caller may not write is refused before the first part is sent.
    await open_target(services, request, target)
    ends = services.clock() + timedelta(seconds=services.upload_seconds)
    attributes: Record = {
        "name": f"Upload of {address.key.rpartition('/')[2][:100]} at {iso_time(services.clock())}",
        "manifest_text": "",
        "trash_at": format_time(ends),
        "properties": {
            "type": _TYPE,
            multipart.PROPERTY: {"bucket": address.bucket, "key": address.key},
        },
    }
    api = request.api(services)
    upload = await api.create("collections", attributes, ensure_unique_name=True)
    content = (
        leaf("Bucket", address.bucket),
        leaf("Key", address.key),
        leaf("UploadId", str(upload["uuid"])),
    )
    return xml_response(document("InitiateMultipartUploadResult", content))


async def upload_part(services: S3Services, request: S3Request) -> FileResponse:
    """UploadPart."""
    upload, number = await _open_part(services, request)
    file = await store_body(services, request)
    await _name_part(services, request, upload, number, file)
    return FileResponse(headers={"ETag": quoted(tag_of(file)), **echo_checksums(request.headers)})


async def copy_part(services: S3Services, request: S3Request) -> FileResponse:
    """UploadPartCopy: a part of an object, or all of it, by reference."""
    upload, number = await _open_part(services, request)
    file = await find_source(services, request)
    header = request.headers.get("x-amz-copy-source-range")
    if header is not None:
        spans = parse_ranges(header, file.size)
        if (
            not spans
            or len(spans) > 1
            or spans[0].header(file.size) != _content_range(header, file)
        ):
            raise S3Refusal("InvalidArgument", "x-amz-copy-source-range: is not in the source")
        file = filetree.cut(file, spans[0].start, spans[0].end)
    await _name_part(services, request, upload, number, file)
    content = (
        leaf("LastModified", iso_time(services.clock())),
        leaf("ETag", quoted(tag_of(file))),
    )
    return xml_response(document("CopyPartResult", content))


def _content_range(header: str, file: File) -> str:
    """The range that a header names, whether the source has it or not."""
    return f"bytes {header.partition('=')[2].strip()}/{file.size}"


async def _open_part(services: S3Services, request: S3Request) -> tuple[CachedCollection, int]:
    number = multipart.read_part_number(request.parameters.get("partNumber", ""))
    return await _open_upload(services, request), number


async def _open_upload(services: S3Services, request: S3Request) -> CachedCollection:
    """The collection of the upload that a request names. Raises S3Refusal."""
    uuid = multipart.check_upload_id(request.parameters.get("uploadId", ""))
    try:
        collection = await services.changes.open(uuid, request.token)
    except (NotFound, Forbidden):
        raise multipart.no_upload() from None
    goal = {"bucket": request.address.bucket, "key": request.address.key}
    # Otherwise any collection could be emptied by the end of an upload.
    if collection.properties.get(multipart.PROPERTY) != goal:
        raise multipart.no_upload()
    return collection


async def _name_part(
    services: S3Services, request: S3Request, upload: CachedCollection, number: int, file: File
) -> None:
    """Let the collection of an upload name a part."""
    body: Record = {
        "collection": {"manifest_text": filetree.to_manifest(FileTree({UPLOADED: file}))},
        "replace_files": {f"/{multipart.part_name(number)}": f"{Origin.SUPPLIED}/{UPLOADED}"},
        "select": ["uuid"],
    }
    # Without an etag: the parts of an upload come at the same time, and each changes its own file.
    try:
        await request.api(services).request("PUT", f"collections/{upload.uuid}", body=body)
    except NotFound:
        raise multipart.no_upload() from None


async def complete_upload(services: S3Services, request: S3Request) -> FileResponse:
    """CompleteMultipartUpload. It may be repeated: a client may have lost the answer."""
    # The header is not of this document, and to read the whole object takes too long.
    if any(name.removeprefix(PREFIX) in CHECKSUMS for name in request.headers):
        raise S3Refusal(
            "NotImplemented", "the checksum of a whole object is not offered; send those of parts"
        )
    named = multipart.read_completion(await read_document(request, _MOST_DOCUMENT))
    tag = multipart.expected_tag(named)
    target = await find_target(services, request)
    try:
        upload = await _open_upload(services, request)
    except S3Refusal:
        if isinstance(target, NewCollection):
            raise
        collection = await services.files.collections.open(target.collection, request.token)
        node = filetree.find(collection.tree, writable_path(target.key))
        if not isinstance(node, File) or not tag or tag_of(node) != tag:
            raise
    else:
        file = multipart.joined_file(multipart.parts_of(upload.tree), named)
        multipart.check_size(file, request.headers.get("x-amz-mp-object-size"))
        await name_file(services, request, target, file)
        tag = tag_of(file)
        await _delete_upload(services, request, upload)
    address = request.address
    content = (
        leaf("Location", f"/{address.bucket}/{address.key}"),
        leaf("Bucket", address.bucket),
        leaf("Key", address.key),
        leaf("ETag", quoted(tag)),
    )
    return xml_response(document("CompleteMultipartUploadResult", content))


async def abort_upload(services: S3Services, request: S3Request) -> FileResponse:
    """AbortMultipartUpload."""
    upload = await _open_upload(services, request)
    await _delete_upload(services, request, upload)
    return FileResponse(status=204)


async def _delete_upload(
    services: S3Services, request: S3Request, upload: CachedCollection
) -> None:
    try:
        await request.api(services).delete("collections", upload.uuid)
    except NotFound:
        # Another call has ended it.
        return


async def list_parts(services: S3Services, request: S3Request) -> FileResponse:
    """ListParts."""
    upload = await _open_upload(services, request)
    limit = read_limit(request.parameters.get("max-parts", ""), "max-parts")
    marker = request.parameters.get("part-number-marker", "")
    after = read_limit(marker, "part-number-marker", multipart.MOST_PARTS) if marker else 0
    parts = [pair for pair in multipart.parts_of(upload.tree).items() if pair[0] > after]
    shown = parts[:limit]
    content = [
        leaf("Bucket", request.address.bucket),
        leaf("Key", request.address.key),
        leaf("UploadId", upload.uuid),
        leaf("PartNumberMarker", after),
        leaf("NextPartNumberMarker", shown[-1][0] if shown else after),
        leaf("MaxParts", limit),
        leaf("IsTruncated", len(parts) > len(shown)),
        leaf("StorageClass", "STANDARD"),
    ]
    modified = iso_time(upload.modified or NEVER_CHANGED)
    content += [
        element(
            "Part",
            leaf("PartNumber", number),
            leaf("LastModified", modified),
            leaf("ETag", quoted(tag_of(file))),
            leaf("Size", file.size),
        )
        for number, file in shown
    ]
    return xml_response(document("ListPartsResult", content))


async def list_uploads(services: S3Services, request: S3Request) -> FileResponse:
    """ListMultipartUploads: those of the caller in this bucket, at most 1,000."""
    await find_bucket(services, request)
    api, bucket = request.api(services), request.address.bucket
    prefix = request.parameters.get("prefix", "")
    filters: list[Json] = [["properties", "exists", multipart.PROPERTY]]
    rows: list[tuple[str, str, str]] = []
    pages = api.pages("collections", filters=filters, select=("uuid", "properties", "created_at"))
    async with aclosing(pages):
        async for records in pages:
            for record in records:
                goal = record["properties"].get(multipart.PROPERTY)
                if not isinstance(goal, dict) or goal.get("bucket") != bucket:
                    continue
                key = str(goal.get("key"))
                if key.startswith(prefix):
                    rows.append((key, str(record["uuid"]), str(record["created_at"])))
            if len(rows) >= _MOST_UPLOADS:
                break
    content = [leaf("Bucket", bucket), leaf("Prefix", prefix), leaf("IsTruncated", False)]
    content += [
        element("Upload", leaf("Key", key), leaf("UploadId", uuid), leaf("Initiated", created))
        for key, uuid, created in sorted(rows)[:_MOST_UPLOADS]
    ]
    return xml_response(document("ListMultipartUploadsResult", content))
