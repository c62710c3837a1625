"""Objects of S3 buckets as inputs and outputs, by signed requests or without credentials.

Requests go through `outside_http`, so that the rules on addresses hold for the endpoints that users
name. Every body is in memory while it is sent, in parts of 64 MiB and with its MD5, which the
service checks.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Final

from lading.core.data import filetree
from lading.core.errors import Forbidden, Invalid, LadingError, Malformed, TooLarge
from lading.core.protocols.aws_signature import EMPTY_HASH, UNSIGNED
from lading.core.tes.s3_requests import (
    AccessKey,
    BucketPlace,
    ListedObject,
    element,
    is_region,
    part_size,
    read_page,
    render_parts,
    sign,
)
from lading.core.tes.transfers import ObjectFacts
from lading.net.http_connections import Outgoing
from lading.tes.transfers.disk_files import MAX_FILES
from lading.tes.transfers.endpoints import ObjectSource, OpenObject, OutgoingFile, SourceListing
from lading.tes.transfers.fetching import TransferRules
from lading.tes.transfers.http_server import opened_object, range_headers
from lading.tes.transfers.outside_http import (
    OutsideAnswer,
    OutsideHttp,
    PassingFault,
    check_status,
)

# Bytes of an answer in XML; a page of 1,000 keys of 1 KiB has less than 3 MiB.
_MOST_XML: Final = 8 << 20
# Bytes of a body that is sent at once, and of the pieces of a larger one.
_ONE_PIECE: Final = 1 << 20
_PIECE: Final = 1 << 18
_Query = Sequence[tuple[str, str]]


class _BytesSender:
    """Sends a body in pieces, so that a slow connection has time for each."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __call__(self, out: Outgoing) -> None:
        for start in range(0, len(self._body), _PIECE):
            await out.write(self._body[start : start + _PIECE])


class S3Bucket:
    """A bucket. `key` is None for requests without a signature."""

    def __init__(
        self,
        http: OutsideHttp,
        bucket_place: BucketPlace,
        key: AccessKey | None,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._http = http
        self._bucket_place = bucket_place
        self._key = key
        self._clock = clock

    @property
    def place(self) -> str:
        """The server of the bucket."""
        return self._bucket_place.endpoint or f"s3.{self._bucket_place.region}"

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        key: str,
        query: _Query = (),
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> AsyncGenerator[OutsideAnswer]:
        """One request on an object, or with "" on the bucket, to the region that has it."""
        for is_last in (False, True):
            location = self._bucket_place.locate(key, query)
            fields = self._signed(method, key, query, headers or {}, body)
            send = _BytesSender(body) if len(body) > _ONE_PIECE else None
            async with self._http.exchange(
                method,
                location,
                fields,
                b"" if send else body,
                send=send,
                is_redirected=False,
            ) as answer:
                region = answer.headers.get("x-amz-bucket-region", "")
                elsewhere = answer.status in (301, 307, 400) and region != self._bucket_place.region
                if is_last or not is_region(region) or not elsewhere:
                    yield answer
                    return
            self._bucket_place = replace(self._bucket_place, region=region)

    def _signed(
        self, method: str, key: str, query: _Query, headers: Mapping[str, str], body: bytes
    ) -> dict[str, str]:
        signed_headers = {**headers, **({"content-length": str(len(body))} if body else {})}
        if method in ("PUT", "POST") and not body:
            signed_headers["content-length"] = "0"
        if self._key is None:
            return signed_headers
        return sign(
            method,
            self._bucket_place.locate(key, query),
            signed_headers,
            key=self._key,
            region=self._bucket_place.region,
            moment=self._clock().strftime("%Y%m%dT%H%M%SZ"),
            # The MD5 in the headers, which are signed, covers the body.
            payload=UNSIGNED if body else EMPTY_HASH,
        )

    async def check(self, answer: OutsideAnswer, *good: int) -> None:
        """Raise the error of a status that is not `good`, with the code that the service names."""
        if answer.status in good:
            return
        code = element((await answer.read()).decode(errors="replace"), "Code")[:60]
        try:
            await check_status(answer, f"bucket {self._bucket_place.bucket}", *good)
        except LadingError as error:
            if not code or not code.isalnum():
                raise
            text = f"{error.message} ({code})"
            if isinstance(error, PassingFault):
                raise PassingFault(text, error.asked) from error
            raise type(error)(text) from error

    async def xml(
        self,
        method: str,
        key: str,
        query: _Query,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> str:
        """The answer in XML to a request."""
        async with self.exchange(method, key, query, headers, body) as answer:
            await self.check(answer, 200)
            raw = await answer.read(_MOST_XML)
        if len(raw) >= _MOST_XML:
            raise Invalid(f"bucket {self._bucket_place.bucket}: an answer is too long")
        return raw.decode(errors="surrogateescape")

    async def list_objects(self, prefix: str, rules: TransferRules) -> SourceListing:
        """The objects below a prefix. Raises TooLarge, Invalid for a key that is no path."""
        start = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
        files: dict[str, ObjectSource] = {}
        directories: list[str] = []
        digest = hashlib.sha256()
        token = ""
        while True:
            query = [("list-type", "2"), ("prefix", start)]
            query += [("continuation-token", token)] if token else []
            text = await rules.repeat(functools.partial(self.xml, "GET", "", query))
            try:
                page = read_page(text)
            except Malformed as error:
                raise Invalid(f"bucket {self._bucket_place.bucket}: {error.message}") from error
            for listed in page.objects:
                path = listed.key[len(start) :]
                digest.update(
                    f"{path}\0{listed.etag}\0{listed.size}\n".encode(errors="surrogateescape")
                )
                if path.endswith("/"):
                    directories.append(self._path(path.rstrip("/")))
                elif path:
                    files[self._path(path)] = S3Source(self, listed.key, listed=listed)
            if len(files) + len(directories) > MAX_FILES:
                raise TooLarge(
                    f"s3://{self._bucket_place.bucket}/{start}: more than {MAX_FILES} objects"
                )
            token = page.next_token
            if not token:
                break
        return SourceListing(
            files=files, directories=tuple(directories), validator=digest.hexdigest()
        )

    def _path(self, path: str) -> str:
        try:
            filetree.check_path(path)
        except (Invalid, Malformed) as error:
            text = f"bucket {self._bucket_place.bucket}: a key is no path: {error.message}"
            raise Invalid(text) from None
        return path

    @property
    def bucket(self) -> str:
        """The name of the bucket."""
        return self._bucket_place.bucket


class S3Source:
    """Implements ObjectSource for the object `key`; `listed`: its entry in a listing."""

    def __init__(self, bucket: S3Bucket, key: str, *, listed: ListedObject | None = None) -> None:
        self._bucket = bucket
        self._key = key
        self._listed = listed
        self.name = f"s3://{bucket.bucket}/{key}"

    @asynccontextmanager
    async def open(self, start: int, previous: ObjectFacts | None) -> AsyncGenerator[OpenObject]:
        """Receive the object; see ObjectSource."""
        headers = range_headers(start, previous)
        if self._listed is not None and self._listed.etag:
            headers["if-match"] = self._listed.etag
        async with self._bucket.exchange("GET", self._key, headers=headers) as answer:
            if answer.status == 412:
                raise Invalid(f"{self.name}: was changed after it was listed")
            await self._bucket.check(answer, 200, 206, 416)
            yield await opened_object(answer, start, self.name, is_bucket=True)


class S3Target:
    """Implements FileTarget for the object `key`."""

    def __init__(self, bucket: S3Bucket, key: str, rules: TransferRules) -> None:
        self._bucket = bucket
        self._key = key
        self._rules = rules

    async def send(self, file: OutgoingFile) -> str:
        """Send the object; see FileTarget."""
        digest = hashlib.sha256()
        size = part_size(file.size)
        if file.size <= size:
            body = b"".join([piece async for piece in file.pieces()])
            digest.update(body)
            await self._put(body, ())
        else:
            await self._send_parts(file, size, digest.update)
        return f"sha256:{digest.hexdigest()}"

    async def _put(self, body: bytes, query: _Query) -> str:
        """Send an object or a part; its ETag."""
        md5 = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        headers = {"content-md5": md5, "content-type": "application/octet-stream"}

        async def attempt() -> str:
            sent = self._bucket.exchange("PUT", self._key, query, headers, body)
            async with sent as answer:
                await self._bucket.check(answer, 200)
                return answer.headers.get("etag", "")

        return await self._rules.repeat(attempt)

    async def _send_parts(
        self, file: OutgoingFile, size: int, note: Callable[[bytes], None]
    ) -> None:
        answer = await self._bucket.xml("POST", self._key, [("uploads", "")])
        upload = element(answer, "UploadId")
        if not upload:
            raise Invalid(f"bucket {self._bucket.bucket}: began no upload")
        try:
            etags: list[str] = []
            async with aclosing(_parts(file, size)) as parts:
                async for data in parts:
                    note(data)
                    query = [("partNumber", str(len(etags) + 1)), ("uploadId", upload)]
                    etags.append(await self._put(data, query))
            body = render_parts(etags)
            text = await self._bucket.xml("POST", self._key, [("uploadId", upload)], body=body)
            # The service may find a fault after it has begun to answer with 200.
            if "<Error>" in text:
                code = element(text, "Code")[:60]
                raise PassingFault(f"bucket {self._bucket.bucket}: did not complete ({code})")
        except BaseException:
            with suppress(LadingError):
                async with self._bucket.exchange("DELETE", self._key, [("uploadId", upload)]):
                    pass
            raise


async def _parts(file: OutgoingFile, size: int) -> AsyncGenerator[bytes]:
    buffer = bytearray()
    async with aclosing(file.pieces()) as pieces:
        async for piece in pieces:
            buffer += piece
            while len(buffer) >= size:
                yield bytes(buffer[:size])
                del buffer[:size]
    if buffer:
        yield bytes(buffer)


def access_key(external_id: str, secret: str) -> AccessKey:
    """The key of a credential. Raises Forbidden for one that cannot be sent."""
    if not external_id.isascii() or not external_id.isprintable() or " " in external_id:
        raise Forbidden("the access key id of the credential has characters that no key has")
    return AccessKey(key_id=external_id, secret=secret)
