"""The services that all servers of files share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lading.client.transport import Transport
from lading.fileserving.collection_cache import CollectionCache
from lading.fileserving.contents import FileReader
from lading.fileserving.uploads import BodyIntake


@dataclass(frozen=True, slots=True, kw_only=True)
class FileServices:
    """Trees of collections, reads of files, and uploads."""

    collections: CollectionCache
    reader: FileReader
    intake: BodyIntake


def make_file_services(
    transport: Transport, *, cache: Path, cache_bytes: int, anonymous: str = ""
) -> FileServices:
    """The services of one process. `transport` leads to the API and the block store; `cache` is a
    directory for blocks, of at most `cache_bytes`; `anonymous` is the token for requests without
    one, "" to refuse these.
    """
    return FileServices(
        collections=CollectionCache(transport, anonymous=anonymous),
        reader=FileReader(transport, cache, cache_bytes),
        intake=BodyIntake(),
    )
