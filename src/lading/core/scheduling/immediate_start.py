"""Containers that can be Running from the moment of their lock.

A dispatcher that has run an image on its machine may ask with the lock that the container is
Running at once. That is right for a container whose supervisor has nothing to fetch, to share out
or to wait for before the command: what is left takes milliseconds. For any other one the record
stays Locked, so that users see how far its preparation has come, and that a fault of the machine
gives it back to the queue.

Source: docs/spec/dispatch, section Locking.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from lading.core.containers.container import Container
from lading.core.containers.mounting.mounts import STREAMS
from lading.core.scheduling.instance_types import requested_gpus
from lading.core.values import EMPTY_OBJECT_DIGEST, Json

MOST_IMAGES: Final = 100
"""Images that a lock may name."""
_MADE_HERE: Final = ("tmp", "text", "json")


def starts_at_once(container: Container, images: Collection[str]) -> bool:
    """Whether a container has nothing to prepare on a machine that has these images unpacked, named
    by portable data hash: only empty directories, texts of its record and streams of files are
    mounted, and it needs neither further machines nor GPUs nor ports.
    """
    return (
        container.container_image in images
        and container.secret_mounts_md5 == EMPTY_OBJECT_DIGEST
        and all(_is_made_here(path, mount) for path, mount in container.mounts.items())
        and not container.steps
        and not container.published_ports
        and not container.service
        and container.nodes == 1
        and requested_gpus(container.runtime_constraints).count == 0
    )


def _is_made_here(path: str, mount: Json) -> bool:
    """Whether a mount is an empty directory, a text of the record, or a file that takes a stream of
    the command.
    """
    kind = mount.get("kind") if isinstance(mount, dict) else None
    return kind in _MADE_HERE or (kind == "file" and path in STREAMS and path != "stdin")
