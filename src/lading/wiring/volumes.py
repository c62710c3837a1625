"""The block volumes of a configuration.

- Without `Volumes` there is one volume, the directory `blocks` of the data directory. It reports as
  many copies as a client requests, in every storage class: one machine cannot provide more, and
  Arvados' clients request two copies by default and fail with fewer. With `Volumes` each one counts
  as configured. A volume of other servers (`AccessViaHosts`) is used through the first of them;
  `authorities.pem` in the data directory holds authorities for their certificates beyond those of
  the machine.
"""

from __future__ import annotations

import asyncio
import functools
import re
import time
from collections.abc import Callable
from typing import Final

from lading.blobs.directory import DirectoryVolume
from lading.blobs.volume import Volume, open_volume
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.client.caches.disk_space import read_disk
from lading.config.site import Config
from lading.config.storage import VolumeSettings
from lading.core.containers import disk_space
from lading.core.containers.disk_space import Amount
from lading.core.errors import Invalid
from lading.wiring.directory import DataDirectory

# The uuid of a volume in Arvados' configuration; `nyw5e` is the type.
_UUID: Final = re.compile(r"[a-z0-9]{5}-nyw5e-[a-z0-9]{15}")
# UUID of the only volume; fixed, so that clients and blocks agree after a restart.
_ALONE: Final = "nyw5e-000000000000000"


async def open_mounts(
    config: Config, directory: DataDirectory, *, clock: Callable[[], float] = time.time
) -> VolumeSet:
    """Open the volumes that this server reaches. Raises Invalid that names the wrong configuration
    key.
    """
    if not config.Volumes:
        reserve = await asyncio.to_thread(_reserve, config, directory)
        own = await asyncio.to_thread(
            functools.partial(
                DirectoryVolume,
                directory.blocks,
                reserve=reserve.size,
                reserve_files=reserve.files,
                pack_small_blocks=config.Collections.PackSmallBlocks,
            )
        )
        alone = VolumeMount(
            uuid=f"{config.ClusterID}-{_ALONE}",
            volume=own,
            # None: reports as many copies as the client asks for.
            copies=None,
            classes=frozenset(config.StorageClasses),
        )
        return VolumeSet([alone], clock=clock)
    mounts = [
        _mount(config, directory, uuid, settings)
        for uuid, settings in sorted(config.Volumes.items())
    ]
    return VolumeSet(mounts, clock=clock)


def _reserve(config: Config, directory: DataDirectory) -> Amount:
    """Bytes that blocks leave free on the disk of the data directory: half of the reserve kept from
    containers.
    """
    wanted = Amount(config.Containers.DiskReserve, config.Containers.DiskReserveFiles)
    kept = disk_space.reserve(read_disk(directory.root).total, wanted)
    # The other half stays for the records when blocks have used theirs.
    return Amount(kept.size // 2, kept.files // 2)


def _mount(
    config: Config, directory: DataDirectory, uuid: str, settings: VolumeSettings
) -> VolumeMount:
    if not _UUID.fullmatch(uuid):
        raise Invalid(
            f"configuration: Volumes.{uuid}: write <cluster>-nyw5e-<15 letters or digits>"
        )
    unknown = sorted(settings.StorageClasses.keys() - config.StorageClasses.keys())
    if unknown:
        raise Invalid(
            f"configuration: Volumes.{uuid}.StorageClasses: "
            f"{unknown[0]} is not among StorageClasses"
        )
    if settings.Replication < 1:
        raise Invalid(f"configuration: Volumes.{uuid}.Replication: must be at least 1")
    classes = frozenset(name for name, serves in settings.StorageClasses.items() if serves)
    # Addresses are compared without the final slash.
    hosts = {address.rstrip("/"): access for address, access in settings.AccessViaHosts.items()}
    own_address = config.ExternalURL.rstrip("/")
    # Without AccessViaHosts every server reaches the volume itself.
    is_here = not hosts or own_address in hosts
    return VolumeMount(
        uuid=uuid,
        volume=open_volume(settings.Driver, settings.DriverParameters)
        if is_here
        else _remote(config, directory, uuid, next(iter(hosts))),
        driver=settings.Driver if is_here else "remote",
        copies=settings.Replication,
        classes=classes
        # A volume without classes serves the default ones.
        or frozenset(
            name
            for name, storage_class in config.StorageClasses.items()
            if storage_class.get("Default")
        ),
        is_read_only=settings.ReadOnly or hosts.get(own_address, {}).get("ReadOnly", False),
    )


def _remote(config: Config, directory: DataDirectory, uuid: str, address: str) -> Volume:
    # Few servers need this, and the HTTP client is slow to import.
    from lading.blobs.remote import RemoteVolume
    from lading.client.transport import HttpTransport

    if not address.startswith(("https://", "http://127.0.0.1:", "http://localhost:")):
        raise Invalid(
            f"configuration: Volumes.{uuid}.AccessViaHosts: {address}: write https://HOST:PORT"
        )
    # The root token is sent there, so the certificate must be verified.
    authorities = directory.root / "authorities.pem"
    transport = HttpTransport(address, verify=authorities if authorities.exists() else True)
    return RemoteVolume(uuid, transport, config.SystemRootToken)
