"""A volume of blocks in a bucket of an S3 service.

    <Prefix><first three digits>/<hash>         one block; LastModified is the time of its last put
    <Prefix>trash/<hash>.<nanoseconds>          blocks moved to the bin at that time
    <Prefix>quarantine/<hash>                   damaged blocks

An upload carries its MD5, which the service checks, and the ETag shows whether a stored object is
intact. So a block that is put again is not sent again but copied onto itself, which updates its
time. There are no locks: a block may be put again while it is moved to the bin. Nothing is lost
then: reads restore it from the bin (`blobs.volume_set`), where it is not deleted before its
signatures have expired.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import hashlib
import importlib
import io
import logging
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from datetime import datetime
from typing import Any, Final, Self

from lading.blobs.volume import Buffer, Discarded, Parameters, Space, Stored, read_parameters
from lading.core.errors import Conflict, Corrupt, Full, Invalid, LadingError, NotFound, Unavailable
from lading.process.telemetry import event

_logger = logging.getLogger("lading.blobs.s3")
_PARAMETERS: Final[Parameters] = {
    "Bucket": "",
    "Endpoint": "",
    "Region": "us-east-1",
    "AccessKeyID": "",
    "SecretAccessKey": "",
    "Prefix": "",
    "ConnectTimeout": 10.0,
    "ReadTimeout": 120.0,
    "RequestTimeout": 60.0,
    "MaxConnections": 32,
}
_BIN: Final = "trash/"
_QUARANTINE: Final = "quarantine/"
_DIGITS: Final = "0123456789abcdef"
# Error codes of the services for a missing object; some give the HTTP status.
_ABSENT: Final = ("404", "NoSuchKey", "NotFound")
_NO_ROOM: Final = ("507", "InsufficientStorage", "QuotaExceeded", "XMinioStorageFull")
# Bytes reported as free; S3 names no limit.
_UNLIMITED: Final = 1 << 50
# Bytes read at a time.
_CHUNK: Final = 1 << 18
# Bytes whose MD5 takes half a millisecond; more would delay other calls in the event loop.
_IN_THREAD: Final = 1 << 18
# Least rate in bytes a second: a request of n bytes may take n / rate longer than RequestTimeout.
_LEAST_RATE: Final = 1 << 20
# Attempts of a request: the first may use a connection that is dead, the next one opens its own.
_TRIES: Final = 2
# Attempts to read an object whose body ends early.
_READS: Final = 3


class S3Volume:
    """Blocks as objects; `parameters` are those of the configuration, `clock_ns` returns Unix
    nanoseconds.
    """

    def __init__(
        self, parameters: Parameters, *, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._settings = read_parameters("S3", parameters, _PARAMETERS)
        self._bucket, self._prefix = str(self._settings["Bucket"]), str(self._settings["Prefix"])
        if not self._bucket:
            raise Invalid("configuration: Volumes: S3: Bucket is missing")
        try:
            importlib.import_module("aiobotocore")
        except ImportError as error:
            raise Invalid(
                "volumes on S3 need aiobotocore; install it with: pip install aiobotocore"
            ) from error
        self._clock_ns = clock_ns
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._client: Any = None

    @classmethod
    def from_parameters(cls, parameters: Parameters) -> Self:
        """The volume of a configuration."""
        return cls(parameters)

    @property
    def device(self) -> str:
        """Identity by bucket and prefix."""
        return f"{self._settings['Endpoint'] or 's3'}/{self._bucket}/{self._prefix}"

    async def put(self, hash: str, data: Buffer) -> None:
        """Store a block; see BlockVolume."""
        try:
            found = await self._head(hash, self._key(hash))
        except NotFound:
            found = {}
        # The ETag of an object that was uploaded in one part is its MD5.
        if found.get("ETag", "").strip('"') == hash and found["ContentLength"] == len(data):
            try:
                await self.touch(hash)
            except NotFound:
                event(_logger, "block went into the bin while it was put", block=hash)
            else:
                return
        checksum = base64.b64encode(bytes.fromhex(hash)).decode()
        await self._call(
            hash,
            "put_object",
            body=data,
            Key=self._key(hash),
            ContentLength=len(data),
            # The service refuses a body that was damaged on the way.
            ContentMD5=checksum,
        )

    async def get(self, hash: str, into: memoryview | None = None) -> Buffer:
        """The block; see BlockVolume."""
        try:
            view = await self._read(hash, into)
        except NotFound as error:
            raise await self._why_absent(hash, error) from error
        if await _md5(view) != hash:
            raise Corrupt(
                f"{hash}: the object in the bucket {self._bucket} does not match the hash:"
                " it is damaged"
            )
        return view

    async def head(self, hash: str) -> Stored:
        """Size and time of a block; see BlockVolume."""
        try:
            found = await self._head(hash, self._key(hash))
        except NotFound as error:
            raise await self._why_absent(hash, error) from error
        return Stored(hash, int(found["ContentLength"]), _nanoseconds(found["LastModified"]))

    async def index(self, prefix: str = "") -> AsyncGenerator[Stored]:
        """Blocks by prefix; see BlockVolume."""
        # One digit at a time, so that bin and quarantine are not listed.
        # The three digits of each folder begin with one of these; "trash/" and "quarantine/" do
        # not.
        starts = (
            [f"{prefix[:3]}/{prefix}"]
            if len(prefix) >= 3
            else [prefix]
            if prefix
            else list(_DIGITS)
        )
        for start in starts:
            async for key, size, moment in self._list(start):
                name = key.rpartition("/")[2]
                if len(name) == 32 and name.startswith(prefix):
                    yield Stored(name, size, moment)

    async def space(self) -> Space:
        """Unlimited; see BlockVolume."""
        await self._call(self._bucket, "head_bucket")
        return Space(0, _UNLIMITED)

    async def close(self) -> None:
        """Close the connections."""
        self._client = None
        await self._stack.aclose()

    async def touch(self, hash: str) -> None:
        """Set the time of the last put; see Bin."""
        await self._copy(hash, self._key(hash), self._key(hash))

    async def discard(self, hash: str, mtime_ns: int) -> None:
        """Move a block to the bin; see Bin."""
        # Copying an object onto itself updates its time.
        await self._move_out(hash, mtime_ns, f"{self._prefix}{_BIN}{hash}.{self._clock_ns()}")

    async def restore(self, hash: str) -> None:
        """Restore a block; see Bin."""
        found = [key async for key, _, _ in self._list(f"{_BIN}{hash}.")]
        if not found:
            raise NotFound(f"{hash}: not in the trash of the bucket {self._bucket}")
        await self._copy(hash, found[-1], self._key(hash))
        await self._delete(hash, found[-1])

    async def discarded(self) -> AsyncGenerator[Discarded]:
        """All blocks in the bin; see Bin."""
        # Keys are listed in ascending order, so the last one is the latest; times have equal
        # numbers of digits.
        async for key, size, _ in self._list(_BIN):
            name, _, moment = key.rpartition("/")[2].partition(".")
            if len(name) == 32 and moment.isdigit():
                yield Discarded(name, size, int(moment))

    async def delete(self, hash: str, discarded_ns: int) -> None:
        """Delete a block from the bin; see Bin."""
        key = f"{self._prefix}{_BIN}{hash}.{discarded_ns}"
        await self._head(hash, key)
        # A DELETE of a missing key succeeds in S3.
        await self._delete(hash, key)

    async def quarantine(self, hash: str, mtime_ns: int) -> None:
        """Take a damaged block out of use; see Bin."""
        await self._move_out(hash, mtime_ns, f"{self._prefix}{_QUARANTINE}{hash}")

    async def _read(self, hash: str, into: memoryview | None) -> memoryview:
        """All bytes of an object, asked for again where a body ends early."""
        ends = []
        for _ in range(_READS):
            answer = await self._call(hash, "get_object", Key=self._key(hash))
            if (size := answer.get("ContentLength")) is None:
                answer["Body"].close()
                raise Unavailable(f"the bucket {self._bucket}: S3 sent {hash} without a length")
            with self._translated(hash):
                async with answer["Body"] as body, asyncio.timeout(self._limit(size)):
                    if into is not None and size > len(into):
                        raise NotFound(f"{hash}: has {size} bytes, not {len(into)}")
                    view = memoryview(bytearray(size)) if into is None else into[:size]
                    done = await _fill(view, body)
            if done == size:
                return view
            # No damage of the object: the connection ended, or a proxy gave up.
            ends.append(done)
            event(_logger, "S3 ended a body early", block=hash, received=done, size=size)
        raise Unavailable(
            f"{hash}: the bucket {self._bucket}: S3 ended the body after {max(ends)} of {size}"
            f" bytes, {_READS} times; try again later"
        )

    def _key(self, hash: str) -> str:
        return f"{self._prefix}{hash[:3]}/{hash}"

    async def _move_out(self, hash: str, mtime_ns: int, target: str) -> None:
        # Not atomic: see the module.
        if (await self.head(hash)).mtime_ns != mtime_ns:
            raise Conflict(f"{hash}: was put again; list it again")
        await self._copy(hash, self._key(hash), target)
        await self._delete(hash, self._key(hash))

    async def _why_absent(self, hash: str, error: NotFound) -> LadingError:
        try:
            await self._head(hash, f"{self._prefix}{_QUARANTINE}{hash}")
        except NotFound:
            return error
        return Corrupt(
            f"{hash}: was found damaged in the bucket {self._bucket} and has been taken out of use"
        )

    async def _head(self, hash: str, key: str) -> dict[str, Any]:
        found: dict[str, Any] = await self._call(hash, "head_object", Key=key)
        return found

    async def _copy(self, hash: str, source: str, target: str) -> None:
        await self._call(
            hash,
            "copy_object",
            Key=target,
            CopySource={"Bucket": self._bucket, "Key": source},
            MetadataDirective="REPLACE",
            ContentType="application/octet-stream",
        )

    async def _delete(self, hash: str, key: str) -> None:
        await self._call(hash, "delete_object", Key=key)

    async def _list(self, prefix: str) -> AsyncGenerator[tuple[str, int, int]]:
        """Key, size and time of every object with a key prefix, in the order of the keys."""
        with self._translated(self._bucket):
            pages = (await self._open()).get_paginator("list_objects_v2")
            async for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix + prefix):
                for entry in page.get("Contents", ()):
                    yield entry["Key"], int(entry["Size"]), _nanoseconds(entry["LastModified"])

    async def _call(
        self, subject: str, name: str, *, body: Buffer | None = None, **arguments: Any
    ) -> Any:
        """The response to a request. Raises the errors of `_translated`, and Unavailable after a
        time limit.

        The library has no time limit for sending the body of a request.
        """
        limit = self._limit(0 if body is None else len(body))
        with self._translated(subject):
            for left in reversed(range(_TRIES)):
                # A new file object for each attempt: the first one may be half read.
                keywords = arguments if body is None else {**arguments, "Body": _Window(body)}
                try:
                    async with asyncio.timeout(limit):
                        return await getattr(await self._open(), name)(
                            Bucket=self._bucket, **keywords
                        )
                except TimeoutError:
                    if not left:
                        raise TimeoutError(f"no answer to {name} within {limit:g} s") from None
                    event(_logger, "S3 does not answer, asking again", request=name, block=subject)
        raise AssertionError("unreachable")

    def _limit(self, size: int) -> float:
        """Time limit in seconds of a request with a body of `size` bytes."""
        return float(self._settings["RequestTimeout"]) + size / _LEAST_RATE

    async def _open(self) -> Any:
        # One client: two tasks must not open it twice.
        async with self._opening:
            if self._client is None:
                self._client = await self._stack.enter_async_context(_make_client(self._settings))
        return self._client

    @contextmanager
    def _translated(self, subject: str) -> Generator[None]:
        """Translate errors of the service."""
        # Imported here: it takes long, and only S3 volumes need it.
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except ClientError as error:
            raise failure_of(error.response, subject, self._bucket) from error
        except (BotoCoreError, OSError, TimeoutError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise Unavailable(f"the bucket {self._bucket}: S3 does not answer: {reason}") from error


async def _fill(view: memoryview, body: Any) -> int:
    """Read a body into memory; returns the number of bytes, fewer than asked for if it ends early.

    Raises the errors of the connection that are no end of the body.
    """
    # Imported here: they take long, and only S3 volumes need them.
    from aiohttp import ClientPayloadError
    from botocore.exceptions import IncompleteReadError, ResponseStreamingError

    done = 0
    try:
        while done < len(view) and (chunk := await body.read(min(_CHUNK, len(view) - done))):
            view[done : done + len(chunk)] = chunk
            done += len(chunk)
    # aiobotocore translates errors of the connection, but not this one of aiohttp.
    except (ClientPayloadError, IncompleteReadError, ResponseStreamingError):
        pass
    return done


class _Window(io.RawIOBase):
    """A file object over memory, without a copy."""

    def __init__(self, data: Buffer) -> None:
        super().__init__()
        self._view = memoryview(data)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._view)}[whence]
        self._at = min(max(0, start + offset), len(self._view))
        return self._at

    def readinto(self, buffer: Any) -> int:
        piece = self._view[self._at : self._at + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


@functools.cache
def _session() -> Any:
    """The session for all clients, cached because it loads large constant tables."""
    from aiobotocore.session import get_session

    return get_session()


def _make_client(settings: Parameters) -> Any:
    from aiobotocore.config import AioConfig

    config = AioConfig(
        connect_timeout=float(settings["ConnectTimeout"]),
        read_timeout=float(settings["ReadTimeout"]),
        max_pool_connections=int(settings["MaxConnections"]),
        retries={"mode": "standard", "total_max_attempts": 3},
        # Not every service supports other checksums; the MD5 is sent and checked in any case.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        # Other services than AWS seldom have a DNS name for each bucket.
        s3={"addressing_style": "path" if settings["Endpoint"] else "auto"},
    )
    return _session().create_client(
        "s3",
        region_name=str(settings["Region"]),
        endpoint_url=str(settings["Endpoint"]) or None,
        aws_access_key_id=str(settings["AccessKeyID"]) or None,
        aws_secret_access_key=str(settings["SecretAccessKey"]) or None,
        config=config,
    )


def failure_of(response: Any, subject: str, bucket: str) -> LadingError:
    """The error for a refusal of the service, as botocore has it."""
    code = str(response.get("Error", {}).get("Code", ""))
    status = str(response.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))
    if code == "NoSuchBucket" or (subject == bucket and code in _ABSENT):
        return Unavailable(
            f"the bucket {bucket} does not exist; make it, or correct Bucket in the configuration"
        )
    if code in _ABSENT:
        return NotFound(f"{subject}: no such block")
    if code in _NO_ROOM or status in _NO_ROOM:
        return Full(f"the bucket {bucket}: S3 has no room left ({code})")
    return Unavailable(f"the bucket {bucket}: S3 refused with {code or status}")


def _nanoseconds(moment: datetime) -> int:
    # S3 gives milliseconds at best; a float cannot hold nanoseconds.
    return int(moment.timestamp() * 1000) * 1_000_000


async def _md5(view: memoryview) -> str:
    if len(view) > _IN_THREAD:
        return await asyncio.to_thread(_hexdigest, view)
    return _hexdigest(view)


def _hexdigest(view: memoryview) -> str:
    return hashlib.md5(view, usedforsecurity=False).hexdigest()
