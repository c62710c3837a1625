"""GetObject and HeadObject: files, in whole or in one range, and directories as objects without
data.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final

from lading.core.data import filetree
from lading.core.data.filetree import File
from lading.core.s3.bucket_names import is_directory_key, readable_path
from lading.core.s3.object_tags import tag_of
from lading.core.s3.refusals import S3Refusal, shown_key
from lading.core.s3.xml_documents import error_document
from lading.fileserving import byte_ranges, conditions, media_types
from lading.fileserving.byte_ranges import Span
from lading.fileserving.collection_cache import CachedCollection
from lading.fileserving.conditions import ConditionResult, ResourceState, http_date
from lading.fileserving.responses import FileResponse, begin_stream
from lading.s3.buckets import find_object_place, no_key
from lading.s3.listings import NEVER_CHANGED
from lading.s3.requests import XML, S3Request, S3Services, quoted

DIRECTORY_TYPE: Final = "application/x-directory; charset=UTF-8"
# Headers of an answer that a signed request may choose, by its parameters.
_OVERRIDES: Final[Mapping[str, str]] = {
    "response-cache-control": "Cache-Control",
    "response-content-disposition": "Content-Disposition",
    "response-content-encoding": "Content-Encoding",
    "response-content-language": "Content-Language",
    "response-content-type": "Content-Type",
    "response-expires": "Expires",
}
_LONGEST_OVERRIDE: Final = 1000


async def read_object(services: S3Services, request: S3Request) -> FileResponse:
    """GetObject, HeadObject. Raises S3Refusal, NotFound and the errors of blocks."""
    address = request.address
    object_place = await find_object_place(services, request, address.bucket, address.key)
    collection = await services.files.collections.open(object_place.collection, request.token)
    file = find_file(collection, object_place.key, address.key)
    is_directory = is_directory_key(address.key)
    state = ResourceState(tag_of(file), collection.modified or NEVER_CHANGED)
    headers = _headers(request, state, is_directory=is_directory)
    match conditions.judge_conditions(tag_headers(request.headers), state, reads=True):
        case ConditionResult.NOT_MODIFIED:
            return FileResponse(status=304, headers=headers)
        case ConditionResult.REFUSED:
            raise unmet(address.key)
    span = _find_span(request, state, file.size)
    if span is None:
        return _no_range(request, file.size)
    if "range" in request.headers and len(span) != file.size:
        headers["Content-Range"] = span.header(file.size)
    status = 206 if "Content-Range" in headers else 200
    headers["Content-Length"] = str(len(span))
    if request.method == "HEAD" or not len(span):
        return FileResponse(status=status, headers=headers)
    stream = _pieces(services, request, file, span)
    return FileResponse(status=status, headers=headers, stream=await begin_stream(stream))


def unmet(key: str) -> S3Refusal:
    """The refusal of a request whose conditions do not hold."""
    return S3Refusal("PreconditionFailed", f"{shown_key(key)}: a condition does not hold")


def find_file(collection: CachedCollection, path: str, key: str) -> File:
    """The file at a path that is the end of a key; of a directory one without data. Raises
    S3Refusal.
    """
    readable = readable_path(path)
    # The directory of a collection in a project.
    is_root = not path and is_directory_key(key)
    node = None if readable is None else filetree.find(collection.tree, readable)
    if is_root:
        node = collection.tree
    if node is None or isinstance(node, File) == is_directory_key(key):
        raise no_key(key)
    return node if isinstance(node, File) else File()


def tag_headers(headers: Mapping[str, str], prefix: str = "") -> dict[str, str]:
    """The conditions of a request, below `prefix`; S3 takes tags without quotation marks."""
    tagged: dict[str, str] = {}
    for name in ("if-match", "if-none-match", "if-modified-since", "if-unmodified-since"):
        value = headers.get(f"{prefix}{name}", "").strip()
        if not value:
            continue
        is_tag = name.endswith("match") and value != "*" and '"' not in value
        tagged[name] = quoted(value) if is_tag else value
    return tagged


def _find_span(request: S3Request, state: ResourceState, size: int) -> Span | None:
    """The bytes asked for; None for a range outside of the file. Several ranges are none, and so is
    one of an earlier file (If-Range).
    """
    if not conditions.range_holds(request.headers, state):
        return Span(0, size)
    spans = byte_ranges.parse_ranges(request.headers.get("range"), size)
    if spans is None or len(spans) > 1:
        return Span(0, size)
    return spans[0] if spans else None


def _no_range(request: S3Request, size: int) -> FileResponse:
    message = f"Range: the object has {size} bytes"
    body = error_document("InvalidRange", message, resource=request.address.key, request_id="")
    headers = {"Content-Range": f"bytes */{size}", "Content-Type": XML}
    return FileResponse(status=416, headers=headers, body=body)


def _headers(request: S3Request, state: ResourceState, *, is_directory: bool) -> dict[str, str]:
    name = request.address.key.rpartition("/")[2]
    headers = dict(media_types.headers_of(name, attachment=False))
    if is_directory:
        headers = {"Content-Type": DIRECTORY_TYPE, **media_types.SAFE_HEADERS}
    # Clients take an object for what it is; a browser downloads or shows it by its type.
    headers.pop("Content-Disposition", None)
    headers |= {"ETag": quoted(state.tag), "Accept-Ranges": "bytes"}
    if state.modified is not None:
        headers["Last-Modified"] = http_date(state.modified)
    for parameter, header in _OVERRIDES.items():
        value = request.parameters.get(parameter)
        if value is not None:
            headers[header] = _checked_override(request, parameter, value)
            # Whoever signed may choose any type: no page of this origin comes of it.
            headers["Content-Security-Policy"] = media_types.SANDBOX
    return headers


def _checked_override(request: S3Request, parameter: str, value: str) -> str:
    if not request.is_signed:
        raise S3Refusal("InvalidRequest", f"{parameter}: is taken in signed requests alone")
    if len(value) > _LONGEST_OVERRIDE or not value.isprintable():
        raise S3Refusal("InvalidArgument", f"{parameter}: is no value of a header")
    return value


async def _pieces(
    services: S3Services, request: S3Request, file: File, span: Span
) -> AsyncGenerator[bytes]:
    async with (
        services.files.reader.reading(request.token) as reading,
        aclosing(reading.read(file, span)) as pieces,
    ):
        async for piece in pieces:
            yield piece
