"""Delivers the outputs of a task from its output collection.

Each delivered file is stored in the journal, so that a delivery that was interrupted goes on with
the next file. A file is sent again after a fault that may pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lading.client.blocks import BlockClient
from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree
from lading.core.errors import LadingError, TooLarge
from lading.core.tes.locations import shown
from lading.core.tes.outputs import OutputFile, find_outputs
from lading.core.tes.transfers import DeliveredFile, TaskTransfer
from lading.process.concurrency import together
from lading.store.transfers import StoredTransfers
from lading.tes.transfers.endpoints import OutgoingFile
from lading.tes.transfers.fetching import TransferRules
from lading.tes.transfers.inputs import TransferFailed
from lading.tes.transfers.servers import Servers

# Files that are sent at a time.
_TOGETHER: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSender:
    """Delivers from the store, whose blocks `blocks` reads."""

    servers: Servers
    blocks: BlockClient
    rules: TransferRules
    journal: StoredTransfers

    async def deliver_all(
        self, transfer: TaskTransfer, tree: FileTree, note: Callable[[str], None]
    ) -> None:
        """Deliver the outputs that the task made. Raises TransferFailed for the first file that
        cannot be delivered.
        """
        try:
            outputs = find_outputs(transfer.task, tree)
        except TooLarge as error:
            raise TransferFailed(error.message) from error
        for url in outputs.directories:
            await self._make_directory(url)
        done = {delivery.url for delivery in await self.journal.deliveries(transfer.request_uuid)}
        files = [file for file in outputs.files if file.url]
        left = [file for file in files if file.url not in done]
        for start in range(0, len(left), _TOGETHER):
            chunk = left[start : start + _TOGETHER]
            number = len(files) - len(left) + start + 1
            note(f"delivering output {number} of {len(files)}: {shown(chunk[0].url)}")
            await together(*(self._deliver(transfer, tree, output) for output in chunk))

    async def _deliver(self, transfer: TaskTransfer, tree: FileTree, output: OutputFile) -> None:
        stored = filetree.get(tree, output.stored)
        assert isinstance(stored, File)
        key = f"{transfer.request_uuid} {output.url}"
        file = OutgoingFile(blocks=self.blocks, file=stored, key=key)
        try:
            target = await self.servers.find_target(output.url)
            checksum = await self.rules.repeat(lambda: target.send(file))
        except LadingError as error:
            raise TransferFailed(
                f"output {output.path}: {shown(output.url)}: {error.message}"
            ) from error
        await self.journal.note_delivery(
            transfer.request_uuid,
            DeliveredFile(url=output.url, size=output.size, checksum=checksum),
        )

    async def _make_directory(self, url: str) -> None:
        try:
            await asyncio.to_thread(self.servers.make_directory, url)
        except LadingError as error:
            raise TransferFailed(f"output {shown(url)}: {error.message}") from error
