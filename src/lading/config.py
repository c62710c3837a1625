"""The one configuration: typed, frozen, documented where it is declared.

Key names are those of Arvados' configuration where the feature is the same. `load` is the only reader of
configuration files; the reference in `docs/` is generated from these declarations. Sizes are bytes, times are
seconds; a file may write them as `64MiB` or `336h`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lading import sections
from lading.core.errors import Invalid

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def key(default: Any, doc: str, *, private: bool = False, unit: str = "") -> Any:
    """Declare one configuration key.

    `doc` is one sentence for the reference; a `private` key is never exported to clients; `unit` is "bytes"
    or "seconds" for numbers that a file may write with a suffix.
    """
    metadata = {"doc": doc, "private": private, "unit": unit}
    if isinstance(default, dict | list):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class API:
    """Limits of the metadata server."""

    MaxRequestSize: int = key(128 * MIB, "Largest request body.", unit="bytes")
    MaxKeepBlobBuffers: int = key(16, "Most blocks of 64 MiB that are in memory at once.", private=True)
    MaxItemsPerResponse: int = key(1000, "Most items in one list answer; a larger `limit` is lowered to it.")
    RequestTimeout: float = key(300.0, "Time after which a request is given up.", unit="seconds")
    MaxIndexDatabaseRead: int = key(
        128 * MIB,
        "Most bytes of records in one list answer, which then has fewer items than its `limit`, but one at least.",
        unit="bytes",
    )
    MaxRequestHeadSize: int = key(
        64 * KIB, "Largest head of a request; a larger one is answered with 431.", private=True, unit="bytes"
    )
    RequestHeadTimeout: float = key(
        30.0, "Longest time for a TLS handshake, and for the head of a request.", private=True, unit="seconds"
    )
    IdleConnectionTimeout: float = key(
        60.0, "Time after which a connection without a request is closed.", private=True, unit="seconds"
    )
    MaxConnections: int = key(
        8192,
        "Most connections to one server at once, at most half of the files that it may open; the local socket is not"
        " counted. A newcomer takes the place of the connection that has waited longest without a request.",
        private=True,
    )
    MaxConnectionsPerAddress: int = key(
        1024,
        "Most connections from one address (IPv6: one /64) without an authenticated request, among them those in a TLS"
        " handshake.",
        private=True,
    )
    TrustedAddresses: list[str] = key(
        ["127.0.0.0/8", "::1/128"],
        "Networks to which MaxConnectionsPerAddress does not apply, such as those of a reverse proxy or of compute"
        " nodes behind one address.",
        private=True,
    )
    MaxUnauthenticatedBody: int = key(
        64 * KIB, "Largest body of a request that is read before its sender is known.", private=True, unit="bytes"
    )
    MaxUnauthenticatedBodies: int = key(4 * MIB, "Most bytes of all such bodies at once.", private=True, unit="bytes")
    MinTransferRate: int = key(
        64 * KIB,
        "Bytes a second below which a transfer of a block, or of a file over WebDAV, is given up after 30 s; 0: never.",
        private=True,
        unit="bytes",
    )
    MaxTransferShare: float = key(
        0.5, "Part of the memory for blocks (MaxKeepBlobBuffers) that requests with one token may have.", private=True
    )
    VocabularyPath: str = key("", "JSON file with the vocabulary of properties; none is no rules.", private=True)
    MaxTokenLifetime: float = key(0.0, "Longest life of a token that a user makes; 0 is unlimited.", unit="seconds")
    MaxGatewayTunnels: int = key(4096, "Most tunnels from containers to one server at once.", private=True)
    TrustedProxies: list[str] = key(
        [],
        "Addresses and networks of proxies in front of the server: what they say in X-Forwarded-For and"
        " X-Forwarded-Proto is believed; of others it is not.",
        private=True,
    )
    MinSessionRate: int = key(
        8 * MIB, "Bytes a second left to all sessions beside calls; 0: as many as ever.", private=True, unit="bytes"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLogs:
    """The trail of what happened to records."""

    MaxAge: float = key(1209600.0, "Age at which rows of the trail are deleted; 0 keeps them.", unit="seconds")
    MaxDeleteBatch: int = key(1000, "Most rows that one transaction deletes; 0 never deletes any.")
    UnloggedAttributes: list[str] = key(["manifest_text"], "Attributes that are left out of the trail.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collections:
    """Blocks and collections."""

    BlobSigning: bool = key(True, "Require a permission signature on every block locator.")
    BlobSigningKey: str = key("", "Secret that signs block locators.", private=True)
    BlobSigningTTL: float = key(1209600.0, "Life of a permission signature.", unit="seconds")
    CollectionVersioning: bool = key(True, "Keep past versions of collections.")
    DefaultReplication: int = key(1, "Copies of a block that are stored when a client does not say.")
    BlobTrash: bool = key(True, "Throw blocks into the bin that no collection names any more.")
    BlobTrashLifetime: float = key(
        1209600.0, "Time in the bin before a block is deleted; at least that of BlobSigningTTL.", unit="seconds"
    )
    BlobReplicateConcurrency: int = key(4, "Blocks that are copied between volumes at once.")
    BalancePeriod: float = key(
        21600.0, "Time between two looks for blocks to throw away or to copy; 0 is never.", unit="seconds"
    )
    ScrubPeriod: float = key(
        2592000.0, "Time in which every block is read and checked once; 0 is never.", unit="seconds"
    )
    ScrubRate: int = key(32 * MIB, "Most bytes that are read for that in a second.", unit="bytes")
    DefaultTrashLifetime: float = key(1209600.0, "Time between trash and deletion.", unit="seconds")
    ForwardSlashNameSubstitution: str = key("", "What clients put in place of `/` in names.")
    PreserveVersionIfIdle: float = key(
        10.0,
        "Time without a change after which the next one keeps a version; -1 keeps only what clients ask for.",
        unit="seconds",
    )
    WebDAVCacheSize: int = key(
        4 * GIB, "Disk for blocks of files that were read over HTTP and WebDAV.", private=True, unit="bytes"
    )
    TrashSweepInterval: float = key(60.0, "Time between two sweeps of the trash.", unit="seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class SLURM:
    """Containers as jobs of a Slurm cluster."""

    SbatchArgumentsList: list[str] = key(
        [],
        "Arguments of `sbatch` in place of the usual ones: --job-name=%U --mem=%M --cpus-per-task=%C --tmp=%T"
        " --partition=%P --time=%W.",
        private=True,
    )
    SbatchGPUArgumentsList: list[str] = key(["--gpus=%G"], "Further arguments for containers with GPUs.", private=True)
    SbatchEnvironmentVariables: dict[str, str] = key({}, "Environment of every job.", private=True)
    PrioritySpread: int = key(10, "Distance of the nice values that keep waiting jobs in order.", private=True)
    PollPeriod: float = key(
        2.0,
        "Time between two looks at Slurm's queue; longer while Slurm is slow or away.",
        private=True,
        unit="seconds",
    )
    CommandTimeout: float = key(60.0, "Longest run of one of Slurm's programs.", private=True, unit="seconds")
    MaxWaitingJobs: int = key(1000, "Most containers that wait in Slurm at a time.", private=True)
    MaxJobArraySize: int = key(
        1,
        "Most containers in one job array; its tasks are for one user and alike. 1, no arrays, as every node that has a"
        " task of an array sees the tokens of all of them.",
        private=True,
    )
    VCPUPrice: float = key(0.0, "Dollars an hour for each VCPU of a container.", private=True)
    Preemption: str = key(
        "", "`ec2`, `azure` or `google`: nodes look for notices that the cloud takes them away.", private=True
    )
    NodeDirectory: str = key(
        "/var/tmp/lading",  # noqa: S108 - a job refuses it when it is another user's
        "Directory on each node for what runs there and its cache; made when missing.",
        private=True,
    )
    HookDirectory: str = key(
        "", "Directory shared with the nodes through which jobs tell at once that they have ended.", private=True
    )
    SupervisorCommand: list[str] = key(
        [], "What starts a supervisor on a node; empty: the dispatcher's own Python, at the same path.", private=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerWebServices:
    """Published ports of containers."""

    ExternalURL: str = key(
        "", "`https://*.DOMAIN/`: each port has the host UUID-PORT.DOMAIN; empty: ports are below /services/ only."
    )
    ExternalPortMin: int = key(
        0,
        "Without `*` in ExternalURL each published port is given one from here on, at the host of ExternalURL, where a"
        " proxy is, or without that at the server's own, which then listens there itself; 0: none.",
    )
    ExternalPortMax: int = key(0, "The last of those ports.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Where parts of the system are for clients."""

    ContainerWebServices: ContainerWebServices = field(
        default_factory=ContainerWebServices, metadata={"doc": ContainerWebServices.__doc__}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellAccess:
    """Who may open sessions (`lading shell`) in running containers."""

    Admin: bool = key(True, "Admins may enter every container.")
    User: bool = key(True, "Users may enter containers all of whose requests are theirs.")
    ReuseAfterShell: bool = key(
        False, "Use the result of a container again although somebody was inside with a shell.", private=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUSettings:
    """The GPUs of an instance type."""

    Stack: str = key("", "`cuda` or `rocm`.")
    DriverVersion: str = key("", "Version of the driver, such as 12.2.")
    HardwareTarget: list[str] = key([], "Compute capabilities (`cuda`) or architectures (`rocm`).")
    DeviceCount: int = key(0, "How many there are.")
    VRAM: int = key(0, "Memory of each.", unit="bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceTypeSettings:
    """One kind of VM, by a name of your own."""

    ProviderType: str = key("", "What the cloud calls it; empty: the same.")
    VCPUs: int = key(0, "Virtual CPUs.")
    RAM: int = key(0, "RAM.", unit="bytes")
    IncludedScratch: int = key(0, "Disk that it has for what containers write.", unit="bytes")
    AddedScratch: int = key(0, "Further disk that is asked for with it.", unit="bytes")
    Price: float = key(0.0, "Dollars an hour.")
    Preemptible: bool = key(False, "The cloud may take it back; only for containers that allow that.")
    GPU: GPUSettings = field(default_factory=GPUSettings, metadata={"doc": GPUSettings.__doc__})


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudVMs:
    """Containers on VMs that are made for them and removed after them."""

    Driver: str = key(
        "ec2", "`ec2`, `libcloud` (Azure, Google, OpenStack), `loopback`, or another installed driver.", private=True
    )
    DriverParameters: dict[str, Any] = key({}, "What the driver needs; see Cloud.", private=True)
    ImageID: str = key("", "Image of the VMs, by the name that the cloud has for it.", private=True)
    MaxInstances: int = key(64, "Most VMs at a time; 0 is as many as the cloud gives.", private=True)
    MaxRunningContainersPerInstance: int = key(0, "Most containers on one VM; 0 is as many as fit.", private=True)
    InitialQuotaEstimate: int = key(
        0,
        "Containers at a time that the API is taken to bear at first, more while it is not busy; 0: any number.",
        private=True,
    )
    SupervisorFraction: float = key(
        0.5, "Part of MaxInstances that workflow runners may take; 0 makes no difference.", private=True
    )
    PollInterval: float = key(10.0, "Time between two full looks at the queue.", private=True, unit="seconds")
    ProbeInterval: float = key(
        10.0, "Time between two questions to a VM whether it is well.", private=True, unit="seconds"
    )
    MaxProbesPerSecond: float = key(10.0, "Most attempts to reach VMs that boot, in a second.", private=True)
    SyncInterval: float = key(
        60.0, "Time between two lists of the VMs; shorter while some come or go.", private=True, unit="seconds"
    )
    TimeoutIdle: float = key(60.0, "Time after which a VM without containers is removed.", private=True, unit="seconds")
    TimeoutBooting: float = key(600.0, "Longest time until a new VM is ready.", private=True, unit="seconds")
    TimeoutProbe: float = key(
        600.0, "Time without an answer after which a VM is removed.", private=True, unit="seconds"
    )
    TimeoutShutdown: float = key(
        10.0, "Time after which a VM that is still listed is removed again.", private=True, unit="seconds"
    )
    TimeoutSignal: float = key(
        5.0, "Time between two TERM signals to a supervisor that should end.", private=True, unit="seconds"
    )
    TimeoutTERM: float = key(
        900.0, "Time after the first TERM until KILL; longer than saving logs takes.", private=True, unit="seconds"
    )
    MaxCloudOpsPerSecond: float = key(10.0, "Most calls of the cloud in a second; 0 is any number.", private=True)
    MaxConcurrentInstanceCreateOps: int = key(1, "VMs that are being asked for at once.", private=True)
    SSHPort: str = key("22", "Port of the ssh server of the VMs.", private=True)
    BootProbeCommand: str = key(
        "systemctl is-system-running", "Succeeds on a VM once it has booted; empty: true.", private=True
    )
    InstanceInitCommand: str = key("", "Command that each VM runs at its first start, after ours.", private=True)
    DeployRunnerDirectory: str = key("/var/lib/lading", "Where the runner and what runs lies on a VM.", private=True)
    DeployPublicKey: bool = key(True, "Have the cloud let the dispatcher's ssh key in.", private=True)
    TagKeyPrefix: str = key("Arvados", "Begins the names of the tags of VMs.", private=True)
    ResourceTags: dict[str, str] = key({}, "Further tags of each VM.", private=True)
    SpotAttempts: int = key(
        2,
        "Preemptible VMs that a request may lose before it gets others; 0: any number. Read by the server.",
        private=True,
    )
    ManagementAddress: str = key(
        "", "HOST:PORT where the dispatcher serves its management interface and metrics; empty: nowhere.", private=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """How containers are requested, retried and run."""

    MaxDispatchAttempts: int = key(10, "Locks after which a container that never starts is cancelled.", private=True)
    MaxRetryAttempts: int = key(3, "Default of `container_count_max`: containers tried for one request.")
    DefaultKeepCacheRAM: int = key(0, "RAM for the block cache of a container that asks for none.", unit="bytes")
    ReserveExtraRAM: int = key(550 * MIB, "RAM beside the container's own on each cloud VM.", unit="bytes")
    SupportedDockerImageFormats: list[str] = key(["v2"], "Image formats that requests may name.")
    Dispatcher: str = key(
        "local",
        "Where `lading up` runs containers: `local`, `slurm`, another installed fleet, or `none`.",
        private=True,
    )
    OnlyDispatcher: bool = key(
        False, "No other dispatcher serves this cluster: cancel what fits nowhere, instead of leaving it queued."
    )
    MinRetryPeriod: float = key(
        0.0, "Shortest time between two attempts to start one container.", private=True, unit="seconds"
    )
    DispatchPrivateKey: str = key(
        "", "Key of the ssh connections to VMs: PEM, or file:///PATH; empty: one is made.", private=True
    )
    MaximumPriceFactor: float = key(
        1.5, "How much dearer than the cheapest VM type that can hold a container others may be.", private=True
    )
    AlwaysUsePreemptibleInstances: bool = key(
        False, "Containers that containers ask for, as steps of workflows, run on preemptible VMs where there are any."
    )
    PreemptiblePriceFactor: float = key(
        0.0, "Each VM type is there as preemptible too, at this part of its price; 0: it is not.", private=True
    )
    SLURM: SLURM = field(default_factory=SLURM, metadata={"doc": SLURM.__doc__, "private": True})
    CloudVMs: CloudVMs = field(default_factory=CloudVMs, metadata={"doc": CloudVMs.__doc__, "private": True})
    RuntimeEngine: str = key(
        "auto", "`native`, `docker`, `podman`, or `auto`: native where this machine can, else docker."
    )
    DockerSocket: str = key("/var/run/docker.sock", "Socket of the Docker service.", private=True)
    PodmanSocket: str = key("/run/podman/podman.sock", "Socket of the podman service.", private=True)
    DeviceRoot: str = key(
        "/", "Directory below which `dev` and `sys` are those of the machine that has the GPUs.", private=True
    )
    RefusedNetworks: list[str] = key(
        [],
        "Networks that containers with `internet` do not reach, such as 10.0.0.0/8 or fd00::/8, besides this machine,"
        " link-local addresses and the metadata services of clouds, which they never do.",
        private=True,
    )
    InternetWithAPI: bool = key(
        False, "Containers with `API` reach the internet, too, as with Arvados; else they reach the API alone."
    )
    ShellAccess: ShellAccess = field(default_factory=ShellAccess, metadata={"doc": ShellAccess.__doc__})
    GatewayAddress: str = key(
        "",
        "HOST:PORT where the server reaches the gateways of containers (port 0: any), or `tunnel`: they connect to the"
        " server; empty: the loopback where the server is on the same machine, else a tunnel.",
        private=True,
    )
    GatewayHosts: list[str] = key(
        [],
        "Networks (CIDR), addresses and host names where gateways may be, beside the address that the calls of their"
        " supervisor come from and the host of GatewayAddress; for nodes that the server sees behind NAT.",
        private=True,
    )
    LogUpdatePeriod: float = key(1.0, "Longest time between output and its live view.", unit="seconds")
    LogUpdateSize: int = key(1 * MIB, "Output after which the live view is brought up to date at once.", unit="bytes")
    UserNamespaces: str = key(
        "auto",
        "Whether containers of the native engine have user ids of their own, so that root in one is nobody outside:"
        " `auto` where kernel and file systems can, `always` (else the container is not run), `never`.",
    )
    MaxProcesses: int = key(
        4096,
        "Processes and threads that one container may have at a time; of a gang, each of its containers. 0: no limit.",
    )
    LogLimit: int = key(
        2 * GIB,
        "Bytes of standard output, and of standard error, that the log of a container keeps; 0 keeps all.",
        unit="bytes",
    )
    DefaultTmpCapacity: int = key(
        100 * GIB, "What a tmp mount that names no capacity may hold; 0 is no limit but the disk.", unit="bytes"
    )
    ScratchBesideMounts: int = key(
        10 * GIB,
        "Bytes that a container may write beside the capacities of its tmp mounts, outside of mounts or in excess of"
        " them; then it is ended. 0 is no limit of bytes at all but the disk.",
        unit="bytes",
    )
    ScratchFiles: int = key(1_000_000, "Files that a container may make; 0 is no limit but the disk.")
    DiskReserve: int = key(
        -1,
        "Bytes of the disk that containers, caches and logs leave to records and blocks; -1 is a fiftieth of the disk,"
        " at most 1 GiB.",
        unit="bytes",
    )
    DiskReserveFiles: int = key(
        -1, "As many files find room beside them; -1 is a fiftieth of what the disk can hold, at most 100,000."
    )
    MaxOutputSize: int = key(
        1 << 40,
        "Bytes that the files of an output may have; a container that leaves more is Cancelled. 0 is any number.",
        unit="bytes",
    )
    BrokenNodeHook: str = key(
        "",
        "Program that is run on a machine that cannot run containers any more, in place of marking it.",
        private=True,
    )
    UsageInterval: float = key(10.0, "Time between two usage samples.", unit="seconds")
    StopGracePeriod: float = key(10.0, "Time between TERM and KILL when a container is stopped.", unit="seconds")
    RetryLimits: dict[str, int] = key(
        {},
        "Retries for each class of failure: user, oom, disk, image, node, preempted, timeout, infrastructure.",
    )
    GitRepositories: list[str] = key(
        [], "Addresses that git_tree mounts may name; one that ends in `/` or `:` allows all that begin with it."
    )
    GitCacheSize: int = key(
        10 * GIB, "Disk for mirrors of git repositories; the longest unused goes first.", private=True, unit="bytes"
    )
    GitTimeout: float = key(60.0, "Longest run of `git` for a git_tree mount.", private=True, unit="seconds")
    ResolveTimeout: float = key(
        5.0, "Time that a client waits while git_tree mounts are resolved; then it goes on without.", unit="seconds"
    )
    UnreachableTimeout: float = key(
        600.0, "Time a supervisor goes on trying to reach the API before it gives up.", unit="seconds"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """The dispatcher of this machine."""

    VCPUs: int = key(0, "Virtual CPUs offered to containers; 0 asks the machine and its cgroup.", private=True)
    RAM: int = key(0, "RAM offered to containers; 0 asks the machine and its cgroup.", private=True, unit="bytes")
    Price: float = key(
        0.0, "Dollars an hour of this machine; each container pays the part that it takes of it.", private=True
    )
    Preemption: str = key(
        "", "`ec2`, `azure` or `google`: look for notices that the cloud takes this machine away.", private=True
    )
    MaxContainers: int = key(0, "Most containers at a time; 0 is as many as fit.", private=True)
    MaxPreparing: int = key(
        4,
        "Containers whose images are unpacked and inputs fetched beside those that take VCPUs; further ones take their"
        " VCPUs meanwhile.",
        private=True,
    )
    PollInterval: float = key(10.0, "Time between two full looks at the queue.", private=True, unit="seconds")
    GPUs: int = key(-1, "GPUs offered to containers at a time; -1 is all that they may use.", private=True)
    VisibleGPUs: str = key(
        "", "Numbers of the GPUs that containers may use, such as `0,2`; empty: all of the machine.", private=True
    )
    GPUDriverVersion: str = key("", "CUDA or ROCm version of the driver; empty: not compared.", private=True)
    GPUHardwareTargets: list[str] = key(
        [],
        "CUDA capability of the GPUs, such as `8.6`, or their architectures, such as `gfx90a`; empty: asked of the ROCm"
        " driver, else not compared.",
        private=True,
    )
    GPUMemory: int = key(
        0, "Memory of each GPU; 0: asked of the ROCm driver, else not compared.", private=True, unit="bytes"
    )
    Scratch: int = key(
        0,
        "Disk that the tmp mounts, images and caches of all containers share; 0 is not planned.",
        private=True,
        unit="bytes",
    )
    ShareDirectory: str = key(
        "",
        "Directory, such as /run/lading, through which the dispatchers of one machine tell each other what they give"
        " away; empty: the capacity is this one's alone.",
        private=True,
    )
    Partitions: list[str] = key(
        [], "Partitions that this machine is in; containers that name others stay queued.", private=True
    )
    CacheSize: int = key(
        20 * GIB,
        "Disk for each of: inputs laid out as files, image layers, blocks of inputs that are read through FUSE.",
        private=True,
        unit="bytes",
    )
    LargeInput: int = key(
        1 * GIB,
        "Size from which an input is read through FUSE as it is needed, not laid out on disk first; 0: none is.",
        private=True,
        unit="bytes",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgreSQL:
    """The database, where it is not the file in the data directory."""

    Connection: dict[str, str | int] = key(
        {}, "`host`, `port`, `dbname`, `user`, `password`, `sslmode`; empty is SQLite.", private=True
    )
    ConnectionPool: int = key(8, "Connections of one server process that read.", private=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """Who sees whom."""

    ActivatedUsersAreVisibleToOthers: bool = key(True, "Users see the names of all others.")
    RoleGroupsVisibleToAll: bool = key(True, "Active users see all role groups.")
    AnonymousUserToken: str = key("", "Secret with which anybody reads what is shared with the anonymous group.")


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSettings:
    """One volume of the block store, by its uuid (`<cluster>-nyw5e-<15 letters or digits>`)."""

    Driver: str = key("Directory", "`Directory`, `S3`, or that of an installed extension.")
    DriverParameters: dict[str, str | int | float | bool] = key({}, "What the driver needs; see Storage.")
    ReadOnly: bool = key(False, "Blocks are only read.")
    Replication: int = key(1, "Copies that one block on this volume counts for.")
    StorageClasses: dict[str, bool] = key({}, "Storage classes that it serves; none named is the default classes.")
    AccessViaHosts: dict[str, dict[str, bool]] = key(
        {}, "Addresses of the servers that reach it themselves, the others ask these; none named is all."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that can be configured. `lading up` needs none of it."""

    ClusterID: str = key("", "Five lower-case letters or digits; made at first start.")
    SystemRootToken: str = key("", "Secret of the system user; made at first start.", private=True)
    ManagementToken: str = key("", "Secret for health and metrics; made at first start.", private=True)
    ExternalURL: str = key("", "Address that clients use; follows `--listen`.", private=True)
    StorageClasses: dict[str, dict[str, Any]] = key({"default": {"Default": True}}, "Storage classes by name.")
    Volumes: dict[str, VolumeSettings] = key(
        {}, "Volumes of the block store by uuid; none is the directory `blocks` in the data directory.", private=True
    )
    InstanceTypes: dict[str, InstanceTypeSettings] = key({}, "Kinds of VMs by name.")
    API: API = field(default_factory=API, metadata={"doc": API.__doc__})
    AuditLogs: AuditLogs = field(default_factory=AuditLogs, metadata={"doc": AuditLogs.__doc__})
    Collections: Collections = field(default_factory=Collections, metadata={"doc": Collections.__doc__})
    Containers: Containers = field(default_factory=Containers, metadata={"doc": Containers.__doc__})
    Local: Local = field(default_factory=Local, metadata={"doc": Local.__doc__})
    Services: Services = field(default_factory=Services, metadata={"doc": Services.__doc__})
    Users: Users = field(default_factory=Users, metadata={"doc": Users.__doc__})
    PostgreSQL: PostgreSQL = field(default_factory=PostgreSQL, metadata={"doc": PostgreSQL.__doc__})


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
    """The part of the configuration that clients may see, as plain values (api-contract 4.16)."""
    return sections.export(_LAYOUT, config)


_LAYOUT = sections.Layout(
    inside={
        "Config": {
            "API": API,
            "AuditLogs": AuditLogs,
            "Collections": Collections,
            "Containers": Containers,
            "Local": Local,
            "Users": Users,
            "PostgreSQL": PostgreSQL,
            "Services": Services,
        },
        "Services": {"ContainerWebServices": ContainerWebServices},
        "Containers": {"SLURM": SLURM, "ShellAccess": ShellAccess, "CloudVMs": CloudVMs},
        "InstanceTypeSettings": {"GPU": GPUSettings},
    },
    each={"Volumes": VolumeSettings, "InstanceTypes": InstanceTypeSettings},
)
