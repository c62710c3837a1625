"""Lists of buckets and of objects.

A bucket that is a project is walked in the order of its keys; a collection is opened only when its
files can be on the page.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final

from lading.client.api import ApiClient, Json
from lading.core.errors import NotFound
from lading.core.quantities import parse_time
from lading.core.s3.bucket_names import BucketKind, is_bucket_name
from lading.core.s3.listing import (
    MOST_KEYS,
    CommonPrefix,
    DirectoryVisit,
    Entry,
    ListedKey,
    ListingPage,
    ListingQuery,
    list_tree,
    read_limit,
    read_token,
    visit,
    write_token,
)
from lading.core.s3.multipart import PROPERTY
from lading.core.s3.object_tags import EMPTY_TAG, tag_of
from lading.core.s3.refusals import S3Refusal
from lading.core.s3.xml_documents import document, element, leaf
from lading.core.tes.locations import encode
from lading.fileserving.collection_cache import CachedCollection
from lading.fileserving.responses import FileResponse
from lading.s3.buckets import PROJECT, Bucket, find_bucket, find_home, shown_children
from lading.s3.requests import XML, S3Request, S3Services, iso_time, quoted

_KEY_BYTES: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"
)
# Projects and collections in a project that a listing knows, of each.
_MOST_CHILDREN: Final = 10_000
# Collections that one page opens; a page that has not enough keys by then is cut.
_MOST_OPENED: Final = 200
_STORAGE: Final = leaf("StorageClass", "STANDARD")
# The last text before a slash in the order of keys.
_BEFORE_SLASH: Final = ".\U0010ffff"
NEVER_CHANGED: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of the last change of a content, which clients want to have."""


async def list_buckets(services: S3Services, request: S3Request) -> FileResponse:
    """ListBuckets: projects and collections of the caller's home project."""
    api = request.api(services)
    home = await find_home(api, request)
    limit = read_limit(request.parameters.get("max-buckets", ""), "max-buckets")
    token = request.parameters.get("continuation-token", "")
    after = read_token(token) if token else ""
    prefix = request.parameters.get("prefix", "")
    named = [row for row in await _home_records(api, home) if row[0].startswith(prefix)]
    remaining = [row for row in named if row[0] > after]
    shown = remaining[:limit]
    buckets = (
        element("Bucket", leaf("Name", name), leaf("CreationDate", iso_time(created)))
        for name, created in shown
    )
    content = [
        element("Owner", leaf("ID", home), leaf("DisplayName", home)),
        element("Buckets", *buckets),
    ]
    if len(remaining) > len(shown) > 0:
        content.append(leaf("ContinuationToken", write_token(shown[-1][0])))
    return xml_response(document("ListAllMyBucketsResult", content))


async def _home_records(api: ApiClient, home: str) -> list[tuple[str, datetime]]:
    """Name and creation of each bucket in a home project: a record whose name no bucket can have is
    listed by its uuid, and one that only its server uses is not.
    """
    rows: dict[str, datetime] = {}
    for plural in ("groups", "collections"):
        filters: list[Json] = [["owner_uuid", "=", home]]
        filters += [PROJECT] if plural == "groups" else []
        fields = ("uuid", "name", "created_at", "properties")
        pages = api.pages(plural, filters=filters, select=fields)
        async with aclosing(pages):
            async for records in pages:
                for record in records:
                    if PROPERTY in (record["properties"] or {}):
                        continue
                    name = str(record.get("name") or "")
                    shown = name if is_bucket_name(name) else str(record["uuid"])
                    rows[shown] = parse_time(record["created_at"])
                if len(rows) >= _MOST_CHILDREN:
                    break
    return sorted(rows.items())


async def list_objects(services: S3Services, request: S3Request) -> FileResponse:
    """ListObjects, version 1: pages by `marker`."""
    parameters = request.parameters
    page, modified = await _page(services, request, parameters.get("marker", ""))
    next_marker = [_encoded("NextMarker", page.last, request)] if page.is_cut else []
    content = [
        *_head(request, page),
        _encoded("Marker", parameters.get("marker", ""), request),
        *next_marker,
        *_entries(request, page, modified),
    ]
    return xml_response(document("ListBucketResult", content))


async def list_objects_v2(services: S3Services, request: S3Request) -> FileResponse:
    """ListObjects, version 2: pages by `continuation-token`."""
    parameters = request.parameters
    token, start = parameters.get("continuation-token", ""), parameters.get("start-after", "")
    page, modified = await _page(services, request, read_token(token) if token else start)
    content = [*_head(request, page), leaf("KeyCount", len(page.keys) + len(page.prefixes))]
    content += [leaf("ContinuationToken", token)] if "continuation-token" in parameters else []
    content += [_encoded("StartAfter", start, request)] if start else []
    content += [leaf("NextContinuationToken", write_token(page.last))] if page.is_cut else []
    content += _entries(request, page, modified)
    return xml_response(document("ListBucketResult", content))


async def list_versions(services: S3Services, request: S3Request) -> FileResponse:
    """ListObjectVersions: each object has one version, null."""
    marker = request.parameters.get("key-marker", "")
    page, modified = await _page(services, request, marker)
    content = [*_head(request, page), _encoded("KeyMarker", marker, request)]
    if page.is_cut:
        # Clients send both back.
        next_version = leaf("NextVersionIdMarker", "null")
        content += [_encoded("NextKeyMarker", page.last, request), next_version]
    extra = leaf("VersionId", "null") + leaf("IsLatest", True)
    content += _entries(request, page, modified, name="Version", extra=extra)
    return xml_response(document("ListVersionsResult", content))


def xml_response(body: bytes) -> FileResponse:
    """An answer with a document."""
    return FileResponse(headers={"Content-Type": XML}, body=body)


def _head(request: S3Request, page: ListingPage) -> Iterator[str]:
    query = page.query
    yield leaf("Name", request.address.bucket)
    yield _encoded("Prefix", query.prefix, request)
    yield leaf("MaxKeys", query.limit)
    if query.delimiter:
        yield _encoded("Delimiter", query.delimiter, request)
    if _wants_encoding(request):
        yield leaf("EncodingType", "url")
    yield leaf("IsTruncated", page.is_cut)


def _entries(
    request: S3Request,
    page: ListingPage,
    modified: dict[str, datetime],
    *,
    name: str = "Contents",
    extra: str = "",
) -> Iterator[str]:
    for listed in page.keys:
        file = listed.file
        yield element(
            name,
            _encoded("Key", listed.key, request),
            extra,
            leaf("LastModified", iso_time(modified.get(listed.key, NEVER_CHANGED))),
            leaf("ETag", quoted(EMPTY_TAG if file is None else tag_of(file))),
            leaf("Size", 0 if file is None else file.size),
            _STORAGE,
        )
    for prefix in page.prefixes:
        yield element("CommonPrefixes", _encoded("Prefix", prefix, request))


def _wants_encoding(request: S3Request) -> bool:
    wanted = request.parameters.get("encoding-type", "")
    if wanted not in ("", "url"):
        raise S3Refusal("InvalidArgument", "encoding-type: must be url")
    return bool(wanted)


def _encoded(name: str, value: str, request: S3Request) -> str:
    return leaf(name, encode(value, _KEY_BYTES) if _wants_encoding(request) else value)


async def _page(
    services: S3Services, request: S3Request, after: str
) -> tuple[ListingPage, dict[str, datetime]]:
    """The page of a request, and the time of the last change of each key on it."""
    parameters = request.parameters
    query = ListingQuery(
        prefix=parameters.get("prefix", ""),
        delimiter=parameters.get("delimiter", ""),
        after=after,
        limit=read_limit(parameters.get("max-keys", ""), "max-keys", MOST_KEYS),
    )
    bucket = await find_bucket(services, request)
    page, modified = ListingPage(query), dict[str, datetime]()
    walk = _BucketWalk(services, request, query)
    entries = walk.entries(bucket)
    async with aclosing(entries):
        async for entry, changed in entries:
            if not page.add(entry):
                break
            if isinstance(entry, ListedKey):
                modified[entry.key] = changed
    if walk.stopped_at and not page.is_cut:
        page.is_cut, page.last = True, walk.stopped_at
    return page, modified


class _BucketWalk:
    """Walks a bucket for one page. `stopped_at` is the key behind which the next page goes on when
    this one opened too many collections.
    """

    def __init__(self, services: S3Services, request: S3Request, query: ListingQuery) -> None:
        self._services, self._request, self._query = services, request, query
        self._opened = 0
        self.stopped_at = ""

    async def entries(self, bucket: Bucket) -> AsyncGenerator[tuple[Entry, datetime]]:
        """The entries of the bucket in order, with the time of the last change of each."""
        if bucket.kind is not BucketKind.PROJECT:
            collection = await self._open(bucket.uuid)
            for entry in list_tree(collection.tree, "", self._query):
                yield entry, collection.modified or NEVER_CHANGED
            return
        # A stack instead of recursion: the depth of projects is the choice of users.
        waiting = [("", "groups", bucket.uuid)]
        while waiting:
            base, plural, uuid = waiting.pop()
            decision = visit(base, self._query) if base else DirectoryVisit.ENTER
            if decision is DirectoryVisit.SKIP:
                continue
            if decision is DirectoryVisit.JOIN:
                yield CommonPrefix(base), NEVER_CHANGED
                continue
            self._opened += 1
            if self._opened > _MOST_OPENED:
                self.stopped_at = f"{base[:-1]}{_BEFORE_SLASH}"
                return
            if plural == "groups":
                api = self._request.api(self._services)
                children = await shown_children(api, uuid, _MOST_CHILDREN)
                waiting += [(f"{base}{child[0]}/", child[1], child[2]) for child in children[::-1]]
                continue
            try:
                collection = await self._open(uuid)
            except NotFound:
                # It went away meanwhile.
                continue
            for entry in list_tree(collection.tree, base, self._query):
                yield entry, collection.modified or NEVER_CHANGED

    async def _open(self, uuid: str) -> CachedCollection:
        return await self._services.files.collections.open(uuid, self._request.token)
