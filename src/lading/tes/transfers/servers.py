"""Finds the server of a URL: what an input is received from, what an output is sent to."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime

from lading.core.data import filetree
from lading.core.errors import Invalid, Malformed
from lading.core.tes.credentials import BEARER
from lading.core.tes.drs_objects import locate
from lading.core.tes.file_roots import FileRoot, find_root
from lading.core.tes.locations import DIRECTORIES, Location, LocationScheme, parse_location, shown
from lading.core.tes.s3_requests import BucketPlace
from lading.tes.transfers import disk_files
from lading.tes.transfers.credential_book import CredentialBook
from lading.tes.transfers.disk_files import DiskTarget, FileSource, make_directories
from lading.tes.transfers.drs_server import DrsSource, describe
from lading.tes.transfers.endpoints import FileTarget, ObjectSource, SourceListing
from lading.tes.transfers.fetching import TransferRules
from lading.tes.transfers.ftp_server import FtpSource, FtpTarget
from lading.tes.transfers.http_server import HttpSource, HttpTarget, basic_credentials
from lading.tes.transfers.outside_http import OutsideHttp
from lading.tes.transfers.s3_bucket import S3Bucket, S3Source, S3Target, access_key


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSource:
    """An object, or the objects of a directory. `name`: the name of the file; `namespace`: the
    server of a bucket. `is_personal`: a credential told the server who asks, so that another user
    may see another object at the same URL.
    """

    content: ObjectSource | SourceListing
    name: str = "file"
    namespace: str = ""
    is_personal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """The servers that the tasks of one user reach. `names` are the user's name, email address and
    uuid; `endpoint` and `region` locate buckets that no credential names.
    """

    http: OutsideHttp
    credentials: CredentialBook
    rules: TransferRules
    clock: Callable[[], datetime]
    endpoint: str = ""
    region: str = "us-east-1"
    roots: tuple[FileRoot, ...]
    names: Collection[str]

    async def find_source(self, url: str, *, is_directory: bool) -> FoundSource:
        """Source at the URL of an input. Raises Invalid, NotFound, Forbidden, PassingFault."""
        try:
            location = parse_location(url)
        except Malformed as error:
            raise Invalid(f"the URL {error.message}") from None
        name = _file_name(location.name)
        if is_directory and location.scheme not in DIRECTORIES:
            raise Invalid(f"{location.scheme} has no directories")
        match location.scheme:
            case LocationScheme.HTTP | LocationScheme.HTTPS:
                headers = await self._headers(location)
                source = HttpSource(self.http, location, url, headers)
                return FoundSource(content=source, name=name, is_personal=bool(headers))
            case LocationScheme.S3:
                bucket = await self._bucket(location)
                if not is_directory:
                    key = S3Source(bucket, location.path)
                    return FoundSource(content=key, name=name, namespace=bucket.place)
                listing = await bucket.list_objects(location.path, self.rules)
                return FoundSource(content=listing, namespace=bucket.place)
            case LocationScheme.FILE:
                root, path = find_root(self.roots, location.path.rstrip("/"), self.names)
                # The type that clients name is often wrong here, and the true one can be seen.
                if await asyncio.to_thread(disk_files.is_directory, root, path):
                    return FoundSource(content=await disk_files.list_directory(root, path))
                return FoundSource(content=FileSource(root, path), name=name)
            case LocationScheme.FTP:
                place = await self._with_user(location)
                return FoundSource(
                    content=FtpSource(self.http.network, place, url),
                    name=name,
                    is_personal=place != location,
                )
            case LocationScheme.DRS:
                return await self._drs_source(location, url)
        raise Invalid(f"{location.scheme} is not offered for inputs that are fetched")

    async def find_target(self, url: str) -> FileTarget:
        """Target of a file of an output. Raises Invalid, Forbidden."""
        location = parse_location(url)
        match location.scheme:
            case LocationScheme.HTTP | LocationScheme.HTTPS:
                return HttpTarget(self.http, location, await self._headers(location))
            case LocationScheme.S3:
                return S3Target(await self._bucket(location), location.path, self.rules)
            case LocationScheme.FILE:
                return DiskTarget(*self._writable(location))
            case LocationScheme.FTP:
                return FtpTarget(self.http.network, await self._with_user(location))
        raise Invalid(f"{location.scheme} is not offered for outputs")

    async def _headers(self, location: Location) -> dict[str, str]:
        """The header with the user's credential for an HTTP server."""
        credential = await self.credentials.find(location)
        if credential is None:
            return {}
        if credential.matched.record["credential_class"] == BEARER:
            return {"authorization": f"Bearer {credential.secret}"}
        return basic_credentials(
            replace(location, user=credential.external_id, password=credential.secret)
        )

    async def _with_user(self, location: Location) -> Location:
        """The location of a server that knows users, with the user's credential for it."""
        credential = await self.credentials.find(location)
        if credential is None:
            return location
        return replace(location, user=credential.external_id, password=credential.secret)

    async def _drs_source(self, location: Location, url: str) -> FoundSource:
        """An object of a DRS server, whose bytes are at another one."""
        asked = locate(location)
        headers = await self._headers(asked)
        drs_object = await self.rules.repeat(
            functools.partial(describe, self.http, location, headers)
        )
        bytes_at = parse_location(drs_object.access.url)
        name = _file_name(drs_object.name or bytes_at.name)
        source: ObjectSource
        is_personal = bool(headers)
        match bytes_at.scheme:
            case LocationScheme.S3:
                source = S3Source(await self._bucket(bytes_at), bytes_at.path)
            case LocationScheme.FTP:
                place = await self._with_user(bytes_at)
                source = FtpSource(self.http.network, place, drs_object.access.url)
                is_personal |= place != bytes_at
            case _:
                own = await self._headers(bytes_at)
                sent = {**own, **dict(drs_object.access.headers)}
                source = HttpSource(self.http, bytes_at, drs_object.access.url, sent)
                is_personal |= bool(own)
        content = DrsSource(drs_object, source, shown(url))
        return FoundSource(content=content, name=name, is_personal=is_personal)

    async def _bucket(self, location: Location) -> S3Bucket:
        """The bucket of a URL, with the user's credential for it."""
        credential = await self.credentials.find(location)
        if credential is None or credential.matched.scope.bucket is None:
            place = BucketPlace(bucket=location.host, endpoint=self.endpoint, region=self.region)
            return S3Bucket(self.http, place, None, clock=self.clock)
        key = access_key(credential.external_id, credential.secret)
        return S3Bucket(self.http, credential.matched.scope.bucket, key, clock=self.clock)

    def make_directory(self, url: str) -> None:
        """Make the directory of a `file` URL; it may block. Raises Invalid, Forbidden."""
        root, path = self._writable(parse_location(url))
        try:
            os.close(make_directories(root, path))
        except OSError as error:
            raise disk_files.failure(shown(url), error) from error

    def _writable(self, location: Location) -> tuple[FileRoot, str]:
        return find_root(self.roots, location.path.rstrip("/"), self.names, writes=True)


def _file_name(name: str) -> str:
    try:
        filetree.check_path(name)
    except (Invalid, Malformed):
        return "file"
    return "file" if "/" in name else name
