"""Finds the server of a URL: what an input is received from, what an output is sent to."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from dataclasses import dataclass

from lading.core.data import filetree
from lading.core.errors import Invalid, Malformed
from lading.core.tes.file_roots import FileRoot, find_root
from lading.core.tes.locations import DIRECTORIES, Location, LocationScheme, parse_location, shown
from lading.tes.transfers import disk_files
from lading.tes.transfers.disk_files import DiskTarget, FileSource, make_directories
from lading.tes.transfers.endpoints import FileTarget, ObjectSource, SourceListing
from lading.tes.transfers.http_server import HttpSource, HttpTarget
from lading.tes.transfers.outside_http import OutsideHttp


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSource:
    """An object, or the objects of a directory; `name` is that of the file, `place` the server of a
    bucket.
    """

    content: ObjectSource | SourceListing
    name: str = "file"
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """The servers that the tasks of one user reach. `names` are the user's name, email address and
    uuid.
    """

    http: OutsideHttp
    roots: tuple[FileRoot, ...]
    names: Collection[str]

    async def find_source(self, url: str, *, is_directory: bool) -> FoundSource:
        """What is at the URL of an input. Raises Invalid, NotFound, Forbidden, PassingFault."""
        try:
            location = parse_location(url)
        except Malformed as error:
            raise Invalid(f"the URL {error.message}") from None
        name = _file_name(location.name)
        if is_directory and location.scheme not in DIRECTORIES:
            raise Invalid(f"{location.scheme} has no directories")
        match location.scheme:
            case LocationScheme.HTTP | LocationScheme.HTTPS:
                return FoundSource(content=HttpSource(self.http, location, url), name=name)
            case LocationScheme.FILE:
                root, path = find_root(self.roots, location.path.rstrip("/"), self.names)
                # The type that clients name is often wrong here, and the true one can be seen.
                if await asyncio.to_thread(disk_files.is_directory, root, path):
                    return FoundSource(content=await disk_files.list_directory(root, path))
                return FoundSource(content=FileSource(root, path), name=name)
        raise Invalid(f"{shown(url)}: {location.scheme} is not offered for this")

    async def find_target(self, url: str) -> FileTarget:
        """Where a file of an output goes. Raises Invalid, Forbidden."""
        location = parse_location(url)
        match location.scheme:
            case LocationScheme.HTTP | LocationScheme.HTTPS:
                return HttpTarget(self.http, location)
            case LocationScheme.FILE:
                return DiskTarget(*self._writable(location))
        raise Invalid(f"{location.scheme} is not offered for outputs")

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
