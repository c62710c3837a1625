"""From the configuration to the volumes of a server.

Without `Volumes` there is one, the directory `blocks` of the data directory. It stands for as many copies as a client
wishes for and for every storage class: one machine cannot make more of either, and Arvados' clients ask for two copies
by default and fail without. With `Volumes` each one counts for what its configuration says. One that only other servers
reach (`AccessViaHosts`) is reached through the first of them; who vouches for their certificates stands in
`authorities.pem` of the data directory, if it is not an authority that the machine knows.
"""

from __future__ import annotations

import asyncio
import functools
import re
import time
from collections.abc import Callable
from typing import Final

from lading.blobs.directory import DirectoryVolume
from lading.blobs.mounts import Mount, Mounts
from lading.blobs.volume import Volume, open_volume
from lading.client.diskspace import read_disk
from lading.config import Config, VolumeSettings
from lading.core import diskroom
from lading.core.diskroom import Amount
from lading.core.errors import Invalid
from lading.wiring.directory import DataDirectory

_UUID: Final = re.compile(r"[a-z0-9]{5}-nyw5e-[a-z0-9]{15}")
_ALONE: Final = "nyw5e-000000000000000"


async def open_mounts(config: Config, directory: DataDirectory, *, clock: Callable[[], float] = time.time) -> Mounts:
    """The volumes that this server reaches. Raises Invalid naming the key that is wrong."""
    if not config.Volumes:
        kept = await asyncio.to_thread(_reserve, config, directory)
        own = await asyncio.to_thread(
            functools.partial(DirectoryVolume, directory.blocks, reserve=kept.size, reserve_files=kept.files)
        )
        alone = Mount(
            uuid=f"{config.ClusterID}-{_ALONE}", volume=own, copies=None, classes=frozenset(config.StorageClasses)
        )
        return Mounts([alone], clock=clock)
    found = [_mount(config, directory, uuid, one) for uuid, one in sorted(config.Volumes.items())]
    return Mounts(found, clock=clock)


def _reserve(config: Config, directory: DataDirectory) -> Amount:
    """What blocks leave of the disk of the data directory: half of what containers leave to records and blocks."""
    wanted = Amount(config.Containers.DiskReserve, config.Containers.DiskReserveFiles)
    kept = diskroom.reserve(read_disk(directory.root).total, wanted)
    return Amount(kept.size // 2, kept.files // 2)


def _mount(config: Config, directory: DataDirectory, uuid: str, settings: VolumeSettings) -> Mount:
    if not _UUID.fullmatch(uuid):
        raise Invalid(f"configuration: Volumes.{uuid}: write <cluster>-nyw5e-<15 letters or digits>")
    unknown = sorted(settings.StorageClasses.keys() - config.StorageClasses.keys())
    if unknown:
        raise Invalid(f"configuration: Volumes.{uuid}.StorageClasses: {unknown[0]} is not among StorageClasses")
    if settings.Replication < 1:
        raise Invalid(f"configuration: Volumes.{uuid}.Replication: must be at least 1")
    classes = frozenset(name for name, serves in settings.StorageClasses.items() if serves)
    hosts = {address.rstrip("/"): one for address, one in settings.AccessViaHosts.items()}
    here = config.ExternalURL.rstrip("/")
    is_here = not hosts or here in hosts
    return Mount(
        uuid=uuid,
        volume=open_volume(settings.Driver, settings.DriverParameters)
        if is_here
        else _remote(config, directory, uuid, next(iter(hosts))),
        driver=settings.Driver if is_here else "remote",
        copies=settings.Replication,
        classes=classes or frozenset(name for name, one in config.StorageClasses.items() if one.get("Default")),
        is_read_only=settings.ReadOnly or hosts.get(here, {}).get("ReadOnly", False),
    )


def _remote(config: Config, directory: DataDirectory, uuid: str, address: str) -> Volume:
    # Few servers need it, and the HTTP client is slow to import.
    from lading.blobs.remote import RemoteVolume
    from lading.client.transport import HttpTransport

    if not address.startswith(("https://", "http://127.0.0.1:", "http://localhost:")):
        raise Invalid(f"configuration: Volumes.{uuid}.AccessViaHosts: {address}: write https://HOST:PORT")
    # The root token goes there: never to a server whose certificate nobody vouches for.
    authorities = directory.root / "authorities.pem"
    transport = HttpTransport(address, verify=authorities if authorities.exists() else True)
    return RemoteVolume(uuid, transport, config.SystemRootToken)
