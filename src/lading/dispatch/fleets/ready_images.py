"""The images that this machine has ready: containers with them ended here in good order."""

from __future__ import annotations

from typing import Final

# The images that are remembered; each is named with each lock.
_MOST: Final = 16


class ReadyImages:
    """Portable data hashes of images, the latest first.

    An image becomes ready when a container with it has run its command here. It stops being so when
    a container with it takes a while to prepare, or ends without having run. After the end of a
    supervisor, or a start that failed, no image counts as ready. So a machine that cannot run
    containers gives the next ones back to the queue, and spends none of their attempts.
    """

    def __init__(self) -> None:
        self._ready: dict[str, None] = {}
        # Of the containers whose command has not ended yet, which are as many as the machine holds.
        self._images: dict[str, str] = {}

    @property
    def hashes(self) -> tuple[str, ...]:
        """The images that are ready."""
        return tuple(reversed(self._ready))

    def begin(self, uuid: str, record: object) -> None:
        """A container with this record is started; nothing is learned of one without a record."""
        image = record.get("container_image") if isinstance(record, dict) else None
        if isinstance(image, str):
            self._images[uuid] = image

    def has_run(self, uuid: str) -> None:
        """The command of a container has ended."""
        if image := self._images.pop(uuid, ""):
            self._ready.pop(image, None)
            self._ready[image] = None
            if len(self._ready) > _MOST:
                del self._ready[next(iter(self._ready))]

    def has_not_run(self, uuid: str) -> None:
        """A container takes a while to prepare, or has ended; one whose command has ended before is
        left out.
        """
        self._ready.pop(self._images.pop(uuid, ""), None)

    def distrust(self, uuid: str) -> None:
        """A container could not be started, or its supervisor ended before it."""
        self._images.pop(uuid, None)
        self._ready.clear()
