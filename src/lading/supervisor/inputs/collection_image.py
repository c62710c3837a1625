"""The image of a container, in a collection.

It is found by the portable data hash of the collection; its archive, in docker-save layout, is read
only when an engine needs it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.core.errors import ExecutionError, Failure, LadingError, RequestError
from lading.core.images import image_member

# Most containers find their image unpacked: what reading needs is imported by the first look.
if TYPE_CHECKING:
    from lading.core.data.filetree import File


@dataclass(slots=True)
class CollectionImage:
    """The image in the collection with portable data hash `pdh`. Nothing is fetched before it is
    used.
    """

    api: ApiClient
    blocks: BlockClient
    pdh: str
    _image_file: tuple[str, File] | None = None

    async def name(self) -> str:
        """The id of the image, `sha256:<hex>`. Raises ExecutionError(IMAGE)."""
        return (await self._find())[0]

    async def chunks(self) -> AsyncIterator[bytes]:
        """The bytes of the archive. Raises ExecutionError: IMAGE when they are gone, INFRASTRUCTURE
        when the store cannot give them now.
        """
        from lading.client.files.downloads import read_file

        _, file = await self._find()
        try:
            async for chunk in read_file(self.blocks, file):
                yield chunk
        except LadingError as error:
            # Another attempt may read what the store could not give now.
            is_final = isinstance(error, RequestError)
            raise ExecutionError(
                f"image {self.pdh}: cannot be read: {error.message}",
                Failure.IMAGE if is_final else Failure.INFRASTRUCTURE,
            ) from error

    async def _find(self) -> tuple[str, File]:
        from lading.core.data.filetree import File, from_manifest

        if self._image_file is None:
            try:
                record = await self.api.get(
                    "collections", self.pdh, select=("uuid", "manifest_text")
                )
                entries = from_manifest(record["manifest_text"]).entries
            except RequestError as error:
                raise ExecutionError(f"image {self.pdh}: {error.message}", Failure.IMAGE) from error
            files = {name: node for name, node in entries.items() if isinstance(node, File)}
            member, identity = image_member(files)
            self._image_file = identity, files[member]
        return self._image_file
