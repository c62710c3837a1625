"""From a registry to the normal form: the steps of `lading image pull` before the image is
stored.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from lading.client.images.archive import NormalImage, Parts, read_config, write_archive
from lading.client.images.layer_cache import LayerShelf
from lading.client.images.members import DirectoryMembers, read_layers
from lading.client.images.reference import Reference
from lading.client.images.registry import Connect, Platform, RemoteImage
from lading.client.transport import HttpTransport
from lading.core.errors import Invalid


def origin_of(reference: Reference, *, is_plain: bool) -> str:
    """The origin of a registry: HTTPS, unless `is_plain` or the registry is on this machine."""
    return f"{'http' if is_plain or reference.is_local else 'https'}://{reference.host}"


def connector(authorities: Path | None) -> Connect:
    """Transports that verify certificates with the file `authorities`, or with the machine's
    authorities.
    """
    return lambda origin: HttpTransport(origin, verify=authorities or True)


def parse_platform(text: str) -> Platform:
    """Parse `linux/ARCHITECTURE[/VARIANT]`. Raises Invalid."""
    parts = text.split("/")
    if not 2 <= len(parts) <= 3 or parts[0] != "linux" or not all(parts):
        raise Invalid(f"--platform {text}: write for example linux/amd64 or linux/arm64/v8")
    return Platform(os="linux", architecture=parts[1], variant=parts[2] if len(parts) > 2 else "")


async def assemble(
    image: RemoteImage, config: bytes, shelf: LayerShelf, folder: Path
) -> NormalImage:
    """The image in the normal form below `folder`, from cached layers. Raises Malformed, Full."""
    return await asyncio.to_thread(_assemble, image, config, shelf, folder)


def _assemble(image: RemoteImage, config: bytes, shelf: LayerShelf, folder: Path) -> NormalImage:
    members = DirectoryMembers(shelf.directory, image.reference.name)
    names = [shelf.member(layer.digest) for layer in image.layers]
    layers = read_layers(members, names, read_config(config).rootfs.diff_ids, folder)
    return write_archive(Parts(config=config, layers=layers), folder / "image.tar")
