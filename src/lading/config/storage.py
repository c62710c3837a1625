"""The configuration of blocks, collections and volumes."""

from __future__ import annotations

from dataclasses import dataclass

from lading.config.sections import key
from lading.core.resources import GIB, MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class S3:
    """Files of collections by the protocol of S3."""

    Host: str = key(
        "",
        "Name of a host for S3 beside `/s3` of the server, such as s3.example.org; names of buckets"
        " may stand before it, so DNS and certificate need s3.example.org and *.s3.example.org.",
    )
    UploadLifetime: float = key(
        604800.0, "Time after which an upload in parts ends that nobody completed.", unit="seconds"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Collections:
    """Blocks and collections."""

    BlobSigning: bool = key(True, "Require a permission signature on every block locator.")
    BlobSigningKey: str = key("", "Secret that signs block locators.", private=True)
    BlobSigningTTL: float = key(1209600.0, "Life of a permission signature.", unit="seconds")
    CollectionVersioning: bool = key(True, "Keep past versions of collections.")
    DefaultReplication: int = key(
        1, "Copies of a block that are stored when a client requests no number."
    )
    BlobTrash: bool = key(True, "Throw blocks into the bin that no collection names any more.")
    BlobTrashLifetime: float = key(
        1209600.0,
        "Time in the bin before a block is deleted; at least that of BlobSigningTTL.",
        unit="seconds",
    )
    BlobReplicateConcurrency: int = key(4, "Blocks that are copied between volumes at once.")
    BalancePeriod: float = key(
        21600.0,
        "Time between two looks for blocks to throw away or to copy; 0 is never.",
        unit="seconds",
    )
    ScrubPeriod: float = key(
        2592000.0, "Time in which every block is read and checked once; 0 is never.", unit="seconds"
    )
    ScrubRate: int = key(32 * MIB, "Most bytes that are read for that in a second.", unit="bytes")
    DefaultTrashLifetime: float = key(1209600.0, "Time between trash and deletion.", unit="seconds")
    ForwardSlashNameSubstitution: str = key("", "Text that clients put in place of `/` in names.")
    PreserveVersionIfIdle: float = key(
        10.0,
        "Time without a change after which the next one keeps a version;"
        " -1 keeps only versions that clients request.",
        unit="seconds",
    )
    WebDAVCacheSize: int = key(
        4 * GIB,
        "Disk for blocks of files that were read over HTTP and WebDAV.",
        private=True,
        unit="bytes",
    )
    PackSmallBlocks: bool = key(
        False,
        "Append new blocks under 64 KiB to pack files, where there are no `Volumes`; older versions"
        " do not see them (see Storage).",
        private=True,
    )
    TrashSweepInterval: float = key(60.0, "Time between two sweeps of the trash.", unit="seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSettings:
    """One volume of the block store, by its uuid (`<cluster>-nyw5e-<15 letters or digits>`)."""

    Driver: str = key("Directory", "`Directory`, `S3`, or that of an installed extension.")
    DriverParameters: dict[str, str | int | float | bool] = key(
        {}, "Parameters of the driver; see Storage."
    )
    ReadOnly: bool = key(False, "Blocks are only read.")
    Replication: int = key(1, "Copies that one block on this volume counts for.")
    StorageClasses: dict[str, bool] = key(
        {}, "Storage classes that it serves; none named is the default classes."
    )
    AccessViaHosts: dict[str, dict[str, bool]] = key(
        {},
        "Addresses of the servers that reach it themselves, the others ask these;"
        " none named is all.",
    )
