"""The image of a container in a daemon: proven to be that of the collection, and loaded.

Nothing is ever pulled: the image is loaded from the collection when the daemon does not have it.
Before a daemon's image is used for a collection, the collection is proven to contain it
(`image_archive`). A daemon that cannot use the image as it is gets one with equal files.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import tempfile
from pathlib import Path
from typing import Any

from aiodocker.exceptions import DockerError

from lading.core.containers.disk_space import Amount
from lading.core.errors import ExecutionError, Failure
from lading.process.cancellation import Stop, Stopped
from lading.process.concurrency import in_thread
from lading.supervisor.engines import EngineSettings, ImageSource
from lading.supervisor.engines.accounts import check_architecture
from lading.supervisor.engines.daemon.connection import NOT_FOUND, DaemonConnection
from lading.supervisor.engines.refusals import load_refusal
from lading.supervisor.inputs.image_archive import ImageArchive, Proofs, fetch, stream, sweep


class DaemonImage:
    """The image of one container in its daemon; `notes` gets what the user should know.

    `identity` is the daemon's id of the image, "" before `prepare`; `settings` are those of its
    configuration.
    """

    def __init__(
        self, connection: DaemonConnection, settings: EngineSettings, notes: list[str]
    ) -> None:
        self.identity = ""
        self.settings: dict[str, Any] = {}
        self._connection, self._notes = connection, notes
        self._uuid = settings.container_uuid
        self._images = Path(settings.cache_directory) / "images"
        self._proofs = Proofs(self._images)
        self._cache_size = settings.cache_size
        self._reserve = Amount(settings.disk_reserve, settings.disk_reserve_files)

    async def prepare(self, image: ImageSource) -> None:
        """Let the daemon load the image unless it has it. Raises ExecutionError."""
        identity = await image.name()
        loaded = self._proofs.find(image.pdh, identity)
        self.identity = loaded or identity
        if await self._is_loaded() and loaded is not None:
            return
        archive_path = self._images / f".{image.pdh}.{self._uuid}.{os.getpid()}.tar"
        try:
            self._images.mkdir(mode=0o700, parents=True, exist_ok=True)
            sweep(self._images)
            await fetch(image, archive_path, reserve=self._reserve)
            # A daemon reuses layers by their hash alone, also those of other users.
            archive = await asyncio.to_thread(ImageArchive, archive_path)
            with archive:
                check_architecture(archive.config)
                reason = await in_thread(lambda stop, _: self._prove(archive, identity, stop))
                if reason:
                    self._notes.append(
                        f"{self._connection.name} gets an image with equal files: {reason}"
                    )
                    self.identity = await self._load_equal(image, archive, reason)
                else:
                    self.identity = identity
                    if not await self._is_loaded():
                        await self._load(image, archive)
            self._proofs.add(image.pdh, identity, self.identity)
        except OSError as error:
            failure = Failure.DISK if error.errno in (errno.ENOSPC, errno.EDQUOT) else Failure.NODE
            raise ExecutionError(
                f"image {image.pdh}: cannot be read: {error.strerror}", failure
            ) from error
        finally:
            # `sweep` removes remaining files before the next image.
            with contextlib.suppress(OSError):
                archive_path.unlink()

    def _prove(self, archive: ImageArchive, identity: str, stop: Stop) -> str:
        """Prove that the archive is the image; return why the daemon cannot use it as it is."""
        from lading.supervisor.inputs import daemon_image

        def watch() -> None:
            if stop():
                raise Stopped

        archive.prove(identity, limit=self._cache_size, watch=watch)
        return daemon_image.unfit(archive, watch)

    async def _load_equal(self, image: ImageSource, archive: ImageArchive, reason: str) -> str:
        """Let the daemon load an image with equal files; its id."""
        # Imported here, because few images need it.
        from lading.supervisor.inputs import daemon_image
        from lading.supervisor.inputs.layers import LayerStore

        if os.geteuid() != 0:
            raise ExecutionError(
                f"{self._connection.name} cannot use the image as it is: {reason}; "
                "make it anew as one layer, or run it where Lading runs as root",
                Failure.IMAGE,
            )
        store = LayerStore(self._images.parent, limit=self._cache_size, reserve=self._reserve)
        unpacked, lease = await store.lease(image)
        self._notes += unpacked.notes
        try:
            with tempfile.TemporaryDirectory(dir=self._images, prefix=".equal-") as folder:

                def write(stop: Stop) -> tuple[str, Path]:
                    def watch() -> None:
                        if stop():
                            raise Stopped

                    return daemon_image.write_equal(
                        archive.configuration, unpacked.layers, Path(folder), watch=watch
                    )

                self.identity, path = await in_thread(lambda stop, _: write(stop))
                if not await self._is_loaded():
                    with await asyncio.to_thread(ImageArchive, path) as made:
                        await self._load(image, made)
        finally:
            os.close(lease)
        return self.identity

    async def _load(self, image: ImageSource, archive: ImageArchive) -> None:
        with self._connection.faults("cannot load the image", load_refusal):
            docker = await self._connection.open()
            async for line in docker.images.import_image(stream(archive), stream=True):
                if "error" in line:
                    raise ExecutionError(
                        f"{self._connection.name} cannot load image {image.pdh}: {line['error']}",
                        load_refusal(str(line["error"])),
                    )
        if not await self._is_loaded():
            raise ExecutionError(
                f"image {image.pdh}: {self._connection.name} loaded it under another id than"
                f" {self.identity}",
                Failure.IMAGE,
            )

    async def _is_loaded(self) -> bool:
        with self._connection.faults("cannot look for the image"):
            try:
                description = await (await self._connection.open()).images.inspect(self.identity)
            except DockerError as error:
                if error.status != NOT_FOUND:
                    raise
                return False
        self.settings = description.get("Config") or {}
        return True
