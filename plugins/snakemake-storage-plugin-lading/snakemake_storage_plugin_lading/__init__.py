"""Snakemake storage plugin: `lading://COLLECTION/PATH`, files in collections of Lading."""

# Snakemake reads the types of the settings, so annotations must not be texts.
import shutil
from collections.abc import Iterable
from typing import Any, Optional

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_storage_plugins.common import Operation
from snakemake_interface_storage_plugins.io import IOCacheStorageInterface, Mtime
from snakemake_interface_storage_plugins.storage_object import (
    StorageObjectGlob,
    StorageObjectRead,
    StorageObjectWrite,
    retry_decorator,
)
from snakemake_interface_storage_plugins.storage_provider import (
    ExampleQuery,
    QueryType,
    StorageProviderBase,
    StorageQueryValidationResult,
)

import lading
from lading.core.errors import Invalid, LadingError

from .collections import PREFIX, Collections, Query


class StorageProvider(StorageProviderBase):
    """One connection to the server, for all files."""

    def __post_init__(self) -> None:
        try:
            self.collections = Collections(lading.connect())
        except LadingError as error:
            raise WorkflowError(f"lading: {error}") from error

    @classmethod
    def example_queries(cls) -> list[ExampleQuery]:
        """Queries for the documentation of Snakemake."""
        return [
            ExampleQuery(
                query="lading://reads/sample_1.fq",
                description="A file of the collection with this name.",
                type=QueryType.ANY,
            ),
            ExampleQuery(
                query="lading://d41d8cd98f00b204e9800998ecf8427e+0/index",
                description="A file or directory of the collection with this portable data hash.",
                type=QueryType.INPUT,
            ),
        ]

    def rate_limiter_key(self, query: str, operation: Operation) -> Any:
        """There is one server."""
        return "lading"

    def default_max_requests_per_second(self) -> float:
        """Not used."""
        return 100.0

    def use_rate_limiter(self) -> bool:
        """A collection is read once, however many files are asked for."""
        return False

    @classmethod
    def is_valid_query(cls, query: str) -> StorageQueryValidationResult:
        """Whether it is `lading://COLLECTION/PATH`, also with wildcards."""
        try:
            Query.parse(query)
        except Invalid as error:
            return StorageQueryValidationResult(query=query, valid=False, reason=str(error))
        return StorageQueryValidationResult(query=query, valid=True)


class StorageObject(StorageObjectRead, StorageObjectWrite, StorageObjectGlob):
    """A file or directory in a collection."""

    def __post_init__(self) -> None:
        self._query = Query.parse(str(self.query))

    @property
    def _collections(self) -> Collections:
        found: Collections = self.provider.collections
        return found

    async def inventory(self, cache: IOCacheStorageInterface) -> None:
        """Facts about all files of its collection, by one call."""
        parent = self.get_inventory_parent()
        if parent in cache.exists_in_storage:
            return
        cache.exists_in_storage[parent] = True
        for path in self._collections.files(self._query.collection):
            one = Query(self._query.collection, path)
            key = self.cache_key(_suffix(one))
            cache.exists_in_storage[key] = True
            cache.mtime[key] = Mtime(storage=self._collections.mtime(one))
            cache.size[key] = self._collections.size(one)

    def get_inventory_parent(self) -> Optional[str]:
        """The collection."""
        return self.cache_key(self._query.collection)

    def local_suffix(self) -> str:
        """The path of the copy here, below the directory of the provider."""
        return _suffix(self._query)

    def cleanup(self) -> None:
        """Nothing is left."""

    def exists(self) -> bool:
        """Whether the collection has it."""
        return self._collections.find(self._query) is not None

    def mtime(self) -> float:
        """When the path got this content."""
        return self._collections.mtime(self._query)

    def size(self) -> int:
        """Bytes."""
        return self._collections.size(self._query)

    @retry_decorator
    def retrieve_object(self) -> None:
        """Fetch it."""
        self._collections.retrieve(self._query, self.local_path())

    @retry_decorator
    def store_object(self) -> None:
        """Store it."""
        self._collections.store(self._query, self.local_path())

    @retry_decorator
    def remove(self) -> None:
        """Remove it from its collection."""
        self._collections.remove(self._query)
        if self.local_path().is_dir():
            shutil.rmtree(self.local_path())

    def list_candidate_matches(self) -> Iterable[str]:
        """The queries of all files of the collection."""
        collection = self._query.collection
        return [f"{PREFIX}{collection}/{path}" for path in self._collections.files(collection)]

    def mount(self) -> Optional[dict[str, Any]]:
        """The mount that shows it in a container: the executor plugin needs no copy here."""
        return self._collections.mount(self._query)


def _suffix(query: Query) -> str:
    return f"{query.collection}/{query.path}"
