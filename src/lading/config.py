"""The one configuration: typed, frozen, documented where it is declared.

Key names are those of Arvados' configuration where the feature is the same. `load` is the only
reader of configuration files; the reference in `docs/` is generated from these declarations. Sizes
are bytes, times are seconds; a file may write them as `64MiB` or `336h`. The sections on containers
are in `container_config`, those on webhooks and e-mail in `webhook_config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lading import sections
from lading.container_config import (
    SLURM,
    CloudVMs,
    Containers,
    Kubernetes,
    ShellAccess,
)
from lading.core.errors import Invalid
from lading.core.resources import GIB, KIB, MIB, Resources
from lading.core.scheduling.instance_types import Gpu, InstanceType, with_preemptible
from lading.local_config import Local
from lading.sections import key
from lading.share_config import FairShare
from lading.telemetry_config import SystemLogs, Tracing
from lading.webhook_config import Mail, Webhooks


@dataclass(frozen=True, slots=True, kw_only=True)
class API:
    """Limits of the metadata server."""

    MaxRequestSize: int = key(128 * MIB, "Largest request body.", unit="bytes")
    MaxKeepBlobBuffers: int = key(
        16, "Most blocks of 64 MiB that are in memory at once.", private=True
    )
    MaxItemsPerResponse: int = key(
        1000, "Most items in one list answer; a larger `limit` is lowered to it."
    )
    RequestTimeout: float = key(300.0, "Time after which a request is given up.", unit="seconds")
    MaxPollHold: float = key(
        12.0,
        "Longest time for which a poll of `arvados-cwl-runner` is held while none of its requests"
        " has ended; 0 answers each at once.",
        unit="seconds",
    )
    MaxIndexDatabaseRead: int = key(
        128 * MIB,
        "Most bytes of records in one list answer, which then has fewer items than its `limit`,"
        " but one at least.",
        unit="bytes",
    )
    MaxRequestHeadSize: int = key(
        64 * KIB,
        "Largest head of a request; a larger one is answered with 431.",
        private=True,
        unit="bytes",
    )
    RequestHeadTimeout: float = key(
        30.0,
        "Longest time for a TLS handshake, and for the head of a request.",
        private=True,
        unit="seconds",
    )
    IdleConnectionTimeout: float = key(
        60.0,
        "Time after which a connection without a request is closed.",
        private=True,
        unit="seconds",
    )
    MaxConnections: int = key(
        8192,
        "Most connections to one server at once, at most a quarter of the files that it may open;"
        " the local socket is not counted. A newcomer takes the place of the connection that has"
        " waited longest without a request.",
        private=True,
    )
    MaxConnectionsPerAddress: int = key(
        1024,
        "Most connections from one address (IPv6: one /64) without an authenticated request,"
        " among them those in a TLS handshake.",
        private=True,
    )
    MaxConnectionsPerUser: int = key(
        1024,
        "Most connections on which requests of one user are being answered at once, such as streams"
        " of events, transfers and sessions; at most a quarter of MaxConnections. A further request"
        " is answered with 503.",
        private=True,
    )
    TrustedAddresses: list[str] = key(
        ["127.0.0.0/8", "::1/128"],
        "Networks to which MaxConnectionsPerAddress does not apply, such as those of a reverse"
        " proxy or of compute nodes behind one address.",
        private=True,
    )
    MaxUnauthenticatedBody: int = key(
        64 * KIB,
        "Largest body of a request that is read before its sender is known.",
        private=True,
        unit="bytes",
    )
    MaxUnauthenticatedBodies: int = key(
        4 * MIB, "Most bytes of all such bodies at once.", private=True, unit="bytes"
    )
    MinTransferRate: int = key(
        64 * KIB,
        "Bytes a second below which a transfer of a block, or of a file over WebDAV,"
        " is given up after 30 s; 0: never.",
        private=True,
        unit="bytes",
    )
    MaxTransferShare: float = key(
        0.5,
        "Part of the memory for blocks (MaxKeepBlobBuffers) that requests with one token may have.",
        private=True,
    )
    VocabularyPath: str = key(
        "", "JSON file with the vocabulary of properties; none is no rules.", private=True
    )
    MaxTokenLifetime: float = key(
        0.0, "Longest life of a token that a user makes; 0 is unlimited.", unit="seconds"
    )
    MaxGatewayTunnels: int = key(
        4096, "Most tunnels from containers to one server at once.", private=True
    )
    TrustedProxies: list[str] = key(
        [],
        "Addresses and networks of proxies in front of the server: their X-Forwarded-For and"
        " X-Forwarded-Proto are believed, those of others are ignored.",
        private=True,
    )
    MinSessionRate: int = key(
        8 * MIB,
        "Bytes a second left to all sessions beside calls; 0: as many as ever.",
        private=True,
        unit="bytes",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLogs:
    """The trail of what happened to records."""

    MaxAge: float = key(
        1209600.0, "Age at which rows of the trail are deleted; 0 keeps them.", unit="seconds"
    )
    MaxDeleteBatch: int = key(1000, "Most rows that one transaction deletes; 0 never deletes any.")
    UnloggedAttributes: list[str] = key(
        ["manifest_text"], "Attributes that are left out of the trail."
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
    TrashSweepInterval: float = key(60.0, "Time between two sweeps of the trash.", unit="seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerWebServices:
    """Published ports of containers."""

    ExternalURL: str = key(
        "",
        "`https://*.DOMAIN/`: each port has the host UUID-PORT.DOMAIN;"
        " empty: ports are below /services/ only.",
    )
    ExternalPortMin: int = key(
        0,
        "Without `*` in ExternalURL each published port is given one from here on, at the host of"
        " ExternalURL, where a proxy is, or without that at the server's own,"
        " which then listens there itself; 0: none.",
    )
    ExternalPortMax: int = key(0, "The last of those ports.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench2:
    """Workbench 2 of Arvados, which another web server serves."""

    ExternalURL: str = key(
        "",
        "Its address, such as `https://workbench.example/`, which clients print; empty: that of the"
        " page.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Addresses of parts of the system for clients."""

    ContainerWebServices: ContainerWebServices = field(
        default_factory=ContainerWebServices, metadata={"doc": ContainerWebServices.__doc__}
    )
    Workbench2: Workbench2 = field(default_factory=Workbench2, metadata={"doc": Workbench2.__doc__})


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUSettings:
    """The GPUs of an instance type."""

    Stack: str = key("", "`cuda` or `rocm`.")
    DriverVersion: str = key("", "Version of the driver, such as 12.2.")
    HardwareTarget: list[str] = key([], "Compute capabilities (`cuda`) or architectures (`rocm`).")
    DeviceCount: int = key(0, "Number of GPUs.")
    VRAM: int = key(0, "Memory of each.", unit="bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceTypeSettings:
    """One kind of VM, by a name of your own."""

    ProviderType: str = key("", "Its name in the cloud; empty: the same.")
    VCPUs: int = key(0, "Virtual CPUs.")
    RAM: int = key(0, "RAM.", unit="bytes")
    IncludedScratch: int = key(0, "Disk that it has for files that containers write.", unit="bytes")
    AddedScratch: int = key(0, "Further disk that is asked for with it.", unit="bytes")
    Price: float = key(0.0, "Dollars an hour.")
    Preemptible: bool = key(
        False, "The cloud may take it back; only for containers that allow that."
    )
    GPU: GPUSettings = field(default_factory=GPUSettings, metadata={"doc": GPUSettings.__doc__})


def instance_types(
    declared: Mapping[str, InstanceTypeSettings], preemptible_factor: float
) -> tuple[InstanceType, ...]:
    """The instance types of a configuration, with preemptible twins if a factor of their price is
    configured. Raises Invalid.
    """
    return with_preemptible(
        [_instance_type(name, one) for name, one in declared.items()], preemptible_factor
    )


def _instance_type(name: str, one: InstanceTypeSettings) -> InstanceType:
    gpu = Gpu(
        stack=one.GPU.Stack,
        count=one.GPU.DeviceCount,
        driver=one.GPU.DriverVersion,
        targets=tuple(one.GPU.HardwareTarget),
        vram=one.GPU.VRAM,
    )
    if gpu.count and gpu.stack not in ("cuda", "rocm"):
        raise Invalid(
            f"configuration: InstanceTypes.{name}.GPU.Stack: {gpu.stack!r}; it must be cuda or rocm"
        )
    return InstanceType(
        name=name,
        provider_type=one.ProviderType or name,
        resources=Resources(one.VCPUs, one.RAM, one.IncludedScratch + one.AddedScratch, gpu.count),
        price=one.Price,
        preemptible=one.Preemptible,
        gpu=gpu,
        added=one.AddedScratch,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgreSQL:
    """The database, where it is not the file in the data directory."""

    Connection: dict[str, str | int] = key(
        {},
        "`host`, `port`, `dbname`, `user`, `password`, `sslmode`; empty is SQLite.",
        private=True,
    )
    ConnectionPool: int = key(8, "Connections of one server process that read.", private=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLite:
    """The database file in the data directory."""

    CacheSize: int = key(
        64 << 20,
        "Memory for its pages, of each of the two connections of the server; both fill as the "
        "file grows.",
        unit="bytes",
        private=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIDConnect:
    """Login to the page at a provider of OpenID Connect, see [The page](web.md)."""

    Enable: bool = key(False, "People log in at the provider.")
    Issuer: str = key("", "Address of the provider, exactly as it writes it.", private=True)
    ClientID: str = key("", "Name of this installation at the provider.", private=True)
    ClientSecret: str = key("", "Its secret; empty for a public client.", private=True)
    EmailClaim: str = key("email", "Claim with the e-mail address.", private=True)
    EmailVerifiedClaim: str = key(
        "email_verified",
        "Claim that must be true for an e-mail address to be taken; empty: each is taken.",
        private=True,
    )
    UsernameClaim: str = key(
        "", "Claim with the name of a new user; empty: `preferred_username`.", private=True
    )
    AcceptAccessToken: bool = key(
        False,
        "Programs may send an access token of the provider in place of a token of this server.",
        private=True,
    )
    AcceptAccessTokenScope: str = key(
        "",
        "Scope that such a token, a JWT, must have; empty: each that the provider knows is taken,"
        " also one made for another program.",
        private=True,
    )
    AuthenticationRequestParameters: dict[str, str] = key(
        {}, "Further parameters of the login, such as `scope` or `prompt`.", private=True
    )
    GroupsClaim: str = key("", "Claim with the list of a person's groups.", private=True)
    Groups: dict[str, str] = key(
        {},
        "Uuid of a role by group; each login adds its user to the roles of the user's groups, and"
        " removes the user from roles that an earlier login added.",
        private=True,
    )
    RequiredGroup: str = key("", "Group without which nobody may log in.", private=True)
    AdminGroup: str = key(
        "", "Group whose members are admins, from one login to the next.", private=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSettings:
    """Log-in of people to the page."""

    TokenLifetime: float = key(
        604800.0, "Longest time for which a login at the provider is good.", unit="seconds"
    )
    OpenIDConnect: OpenIDConnect = field(
        default_factory=OpenIDConnect, metadata={"doc": OpenIDConnect.__doc__}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """Users, and their view of each other."""

    NewUsersAreActive: bool = key(
        False,
        "People who log in for the first time may work at once; else an admin activates them.",
        private=True,
    )

    ActivatedUsersAreVisibleToOthers: bool = key(True, "Users see the names of all others.")
    RoleGroupsVisibleToAll: bool = key(True, "Active users see all role groups.")
    AnonymousUserToken: str = key(
        "", "Secret with which anybody reads the records that are shared with the anonymous group."
    )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TES:
    """The GA4GH Task Execution Service."""

    AnonymousToken: str = key(
        "",
        "Token with which requests without credentials act; empty: they are refused.",
        private=True,
    )
    APIKeyName: str = key(
        "", "Header or query parameter in which clients may send their token.", private=True
    )
    PublicServiceInfo: bool = key(True, "Anybody may read service-info.", private=True)
    LegacyStates: bool = key(
        True,
        "Below `/v1`, show the states that clients of TES 1.0 know in place of CANCELING and"
        " PREEMPTED.",
        private=True,
    )
    FullViewWait: float = key(
        5.0,
        "Time after the creation of a task in which the answer to a GET of it with the view FULL"
        " waits for its end, once a machine has taken it; for clients that read logs right after"
        " the creation.",
        private=True,
        unit="seconds",
    )
    Reuse: bool = key(
        False,
        "Tasks that do not choose are given the result of an earlier equal one.",
        private=True,
    )
    Zones: dict[str, Any] = key(
        {}, "The partition that stands for each zone that tasks may name.", private=True
    )
    FileRoots: dict[str, dict[str, Any]] = key(
        {},
        "Directories of the server's machine that `file` URLs of tasks may lead to: the beginning"
        " of the paths of URLs, with `Path` (the directory; the beginning itself if absent),"
        " `Write` (outputs may go there), `Live` (inputs are mounted in the container as they are"
        " instead of copied, with `Write` writable) and `Users` (names, email addresses or uuids;"
        " all users if absent).",
        private=True,
    )
    AllowedNetworks: list[str] = key(
        [],
        "Private networks and addresses of this machine that URLs of tasks may lead to, such as"
        " 10.1.2.0/24; others of them are refused.",
        private=True,
    )
    S3Endpoint: str = key(
        "",
        "URL of the S3 service of buckets for which a user has no credential; empty: AWS. Their"
        " objects are read without a signature.",
        private=True,
    )
    S3Region: str = key("us-east-1", "Region of such buckets.", private=True)
    MaxTransfers: int = key(
        6,
        "Tasks whose inputs are fetched or outputs delivered at a time by one server; each needs"
        " up to 400 MiB of memory. Users take turns; a user begins a further one only while more"
        " places are free than the user has.",
        private=True,
    )
    MaxObjectSize: int = key(
        1 << 40, "Largest object that is fetched for a task.", private=True, unit="bytes"
    )
    MinTransferRate: int = key(
        16 * KIB,
        "Slowest transfer, in bytes a second over a minute; a slower one counts as broken.",
        private=True,
        unit="bytes",
    )
    InputLifetime: float = key(
        1209600.0,
        "Time for which a fetched object is kept after its last use.",
        private=True,
        unit="seconds",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole configuration. `lading up` needs none of it."""

    ClusterID: str = key("", "Five lower-case letters or digits; made at first start.")
    SystemRootToken: str = key("", "Secret of the system user; made at first start.", private=True)
    ManagementToken: str = key(
        "", "Secret for health and metrics; made at first start.", private=True
    )
    ExternalURL: str = key("", "Address that clients use; follows `--listen`.", private=True)
    StorageClasses: dict[str, dict[str, Any]] = key(
        {"default": {"Default": True}}, "Storage classes by name."
    )
    Volumes: dict[str, VolumeSettings] = key(
        {},
        "Volumes of the block store by uuid; none is the directory `blocks` in the data directory.",
        private=True,
    )
    InstanceTypes: dict[str, InstanceTypeSettings] = key({}, "Kinds of VMs by name.")
    API: API = field(default_factory=API, metadata={"doc": API.__doc__})
    SystemLogs: SystemLogs = field(default_factory=SystemLogs, metadata={"doc": SystemLogs.__doc__})
    Tracing: Tracing = field(default_factory=Tracing, metadata={"doc": Tracing.__doc__})
    AuditLogs: AuditLogs = field(default_factory=AuditLogs, metadata={"doc": AuditLogs.__doc__})
    Collections: Collections = field(
        default_factory=Collections, metadata={"doc": Collections.__doc__}
    )
    Containers: Containers = field(default_factory=Containers, metadata={"doc": Containers.__doc__})
    Local: Local = field(default_factory=Local, metadata={"doc": Local.__doc__})
    Services: Services = field(default_factory=Services, metadata={"doc": Services.__doc__})
    Login: LoginSettings = field(
        default_factory=LoginSettings, metadata={"doc": LoginSettings.__doc__}
    )
    Users: Users = field(default_factory=Users, metadata={"doc": Users.__doc__})
    PostgreSQL: PostgreSQL = field(default_factory=PostgreSQL, metadata={"doc": PostgreSQL.__doc__})
    SQLite: SQLite = field(default_factory=SQLite, metadata={"doc": SQLite.__doc__})
    TES: TES = field(default_factory=TES, metadata={"doc": TES.__doc__})
    Webhooks: Webhooks = field(default_factory=Webhooks, metadata={"doc": Webhooks.__doc__})
    Mail: Mail = field(default_factory=Mail, metadata={"doc": Mail.__doc__})


def load(path: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Config:
    """The configuration in the YAML file `path` (none is all defaults), with `overrides` on top.

    Raises Invalid naming the key when a key is unknown or a value has the wrong type.
    """
    text = path.read_text() if path else ""
    try:
        raw = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise Invalid(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(raw, dict):
        raise Invalid(f"{path}: the configuration must be a mapping of keys")
    return sections.build(_LAYOUT, Config, sections.merge(raw, overrides or {}))


def export(config: Config) -> dict[str, Any]:
    """The public part of the configuration as plain values (docs/spec/api, section Exported
    configuration).
    """
    return sections.export(_LAYOUT, config)


_LAYOUT = sections.SectionLayout(
    inside={
        "Config": {
            "API": API,
            "AuditLogs": AuditLogs,
            "SystemLogs": SystemLogs,
            "Tracing": Tracing,
            "Collections": Collections,
            "Containers": Containers,
            "Local": Local,
            "Login": LoginSettings,
            "Users": Users,
            "PostgreSQL": PostgreSQL,
            "SQLite": SQLite,
            "Services": Services,
            "TES": TES,
            "Webhooks": Webhooks,
            "Mail": Mail,
        },
        "Services": {"ContainerWebServices": ContainerWebServices, "Workbench2": Workbench2},
        "Containers": {
            "SLURM": SLURM,
            "Kubernetes": Kubernetes,
            "ShellAccess": ShellAccess,
            "CloudVMs": CloudVMs,
            "FairShare": FairShare,
        },
        "LoginSettings": {"OpenIDConnect": OpenIDConnect},
        "InstanceTypeSettings": {"GPU": GPUSettings},
    },
    each={"Volumes": VolumeSettings, "InstanceTypes": InstanceTypeSettings},
)
