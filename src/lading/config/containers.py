"""The configuration of containers: requests, runs, retries and sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lading.config.batch import BatchSite
from lading.config.fleets import SLURM, CloudVMs, Kubernetes
from lading.config.sections import key, section
from lading.core.resources import GIB, MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShare:
    """The order between projects at equal priority."""

    Enabled: bool = key(
        False,
        "At equal priority, the project that used least of its share goes first, not the oldest.",
    )
    By: str = key("project", "Whose shares they are: `project` or `user`.")
    HalfLife: float = key(
        604800.0, "Time after which half of the past use is forgotten.", unit="seconds"
    )
    Weights: dict[str, float] = key(
        {},
        "Weights by uuid, 0.1 to 1000, of users and of projects that have none of their own.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellAccess:
    """Permission to open sessions (`lading shell`) in running containers."""

    Admin: bool = key(
        True,
        "Admins may enter containers of others, unless these have rights of their user inside.",
    )
    User: bool = key(
        True, "Users may enter containers that run as them, or into which they were let."
    )
    ReuseAfterShell: bool = key(
        False,
        "Use the result of a container again although a user was inside with a shell.",
        private=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """Rules for requesting, retrying and running containers."""

    MaxDispatchAttempts: int = key(
        10, "Locks after which a container that never starts is cancelled.", private=True
    )
    MaxRetryAttempts: int = key(
        3, "Default of `container_count_max`: containers tried for one request."
    )
    OutputRetention: int = key(
        0,
        "Time after which the output of a request is moved to the trash, unless it has an "
        "`output_name` or `output_ttl`; 0: never.",
        unit="seconds",
    )
    DefaultKeepCacheRAM: int = key(
        0, "RAM for the block cache of a container that asks for none.", unit="bytes"
    )
    ReserveExtraRAM: int = key(
        550 * MIB, "RAM beside the container's own on each cloud VM.", unit="bytes"
    )
    SupportedDockerImageFormats: list[str] = key(["v2"], "Image formats that requests may name.")
    Dispatcher: str = key(
        "local",
        "Fleet of `lading up`: `local`, `slurm`, `batch`, another installed fleet, or `none`.",
        private=True,
    )
    OnlyDispatcher: bool = key(
        False,
        "No other dispatcher serves this cluster: cancel containers that fit no worker, instead"
        " of leaving them queued.",
    )
    Capabilities: dict[str, Any] = key(
        {},
        "Capabilities, beside `clock: true`, that all machines of the dispatcher offer: names with"
        " true, a number or a text; runtime_constraints of requests may ask for them.",
        private=True,
    )
    MinRetryPeriod: float = key(
        0.0,
        "Shortest time between two attempts to start one container.",
        private=True,
        unit="seconds",
    )
    MetricsAddress: str = key(
        "",
        "HOST:PORT where the dispatcher serves its metrics, for the ManagementToken; empty:"
        " nowhere. Each dispatcher needs one of its own.",
        private=True,
    )
    DispatchPrivateKey: str = key(
        "",
        "Key of the ssh connections to VMs: PEM, or file:///PATH; empty: one is made.",
        private=True,
    )
    MaximumPriceFactor: float = key(
        1.5,
        "Highest price of another VM type, as a multiple of the cheapest type for a container.",
        private=True,
    )
    AlwaysUsePreemptibleInstances: bool = key(
        False,
        "Containers that containers ask for, as steps of workflows,"
        " run on preemptible VMs where there are any.",
    )
    PreemptiblePartitions: list[str] = key(
        [],
        "Slurm and Kubernetes: partitions of containers that accept preemptible machines and name"
        " no partition; of several the one with room first. Name ordinary ones too.",
        private=True,
    )
    PreemptiblePriceFactor: float = key(
        0.0,
        "Each VM type is there as preemptible too, at this part of its price; 0: it is not.",
        private=True,
    )
    SLURM: SLURM = section(SLURM, private=True)
    Batch: BatchSite = section(BatchSite, private=True)
    Kubernetes: Kubernetes = section(Kubernetes, private=True)
    CloudVMs: CloudVMs = section(CloudVMs, private=True)
    RuntimeEngine: str = key(
        "auto",
        "`native`, `native-crun` (containers made by crun), `docker`, `podman`, or `auto`: native"
        " where this machine can, else docker.",
    )
    DockerSocket: str = key("/var/run/docker.sock", "Socket of the Docker service.", private=True)
    PodmanSocket: str = key(
        "/run/podman/podman.sock", "Socket of the podman service.", private=True
    )
    DeviceRoot: str = key(
        "/",
        "Directory below which `dev` and `sys` are those of the machine that has the GPUs.",
        private=True,
    )
    RefusedNetworks: list[str] = key(
        [],
        "Networks that containers with `internet` do not reach, such as 10.0.0.0/8 or fd00::/8,"
        " besides this machine, link-local addresses and the metadata services of clouds,"
        " which they never do.",
        private=True,
    )
    InternetWithAPI: bool = key(
        False,
        "Containers with `API` reach the internet, too, as with Arvados;"
        " else they reach the API alone.",
    )
    ShellAccess: ShellAccess = section(ShellAccess)
    GatewayAddress: str = key(
        "",
        "HOST:PORT where the server reaches the gateways of containers (port 0: any), `direct`:"
        " each machine's own address, or a tunnel where the server sees another, or `tunnel`:"
        " they connect to the server; empty: the loopback where the server is on the same machine,"
        " else each machine's own address if the one server has reached a gateway there, or a"
        " tunnel.",
        private=True,
    )
    GatewayHosts: list[str] = key(
        [],
        "Networks (CIDR), addresses and host names where gateways may be, beside the address that"
        " the calls of their supervisor come from and the host of GatewayAddress;"
        " for nodes that the server sees behind NAT.",
        private=True,
    )
    LogUpdatePeriod: float = key(
        1.0, "Longest time between output and its live view.", unit="seconds"
    )
    LogUpdateSize: int = key(
        1 * MIB, "Output after which the live view is brought up to date at once.", unit="bytes"
    )
    UserNamespaces: str = key(
        "auto",
        "Whether containers of the native engine have user ids of their own, so that root in one"
        " has no rights outside: `auto` where kernel and file systems can,"
        " `always` (else the container is not run), `never`.",
    )
    MaxProcesses: int = key(
        4096,
        "Processes and threads that one container may have at a time;"
        " of a gang, each of its containers. 0: no limit.",
    )
    LogLimit: int = key(
        2 * GIB,
        "Bytes of standard output, and of standard error, that the log of a container keeps;"
        " 0 keeps all.",
        unit="bytes",
    )
    DefaultTmpCapacity: int = key(
        100 * GIB,
        "Capacity of a tmp mount that names none; 0 is no limit but the disk.",
        unit="bytes",
    )
    ScratchBesideMounts: int = key(
        10 * GIB,
        "Bytes that a container may write beside the capacities of its tmp mounts, outside of"
        " mounts or in excess of them; then it is ended."
        " 0 is no limit of bytes at all but the disk.",
        unit="bytes",
    )
    ScratchFiles: int = key(
        1_000_000, "Files that a container may make; 0 is no limit but the disk."
    )
    DiskReserve: int = key(
        -1,
        "Bytes of the disk that containers, caches and logs leave to records and blocks;"
        " -1 is a fiftieth of the disk, at most 1 GiB.",
        unit="bytes",
    )
    DiskReserveFiles: int = key(
        -1,
        "As many files find room beside them; -1 is a fiftieth of what the disk can hold,"
        " at most 100,000.",
    )
    MaxOutputSize: int = key(
        1 << 40,
        "Bytes that the files of an output may have; a container that leaves more is Cancelled."
        " 0 is any number.",
        unit="bytes",
    )
    BrokenNodeHook: str = key(
        "",
        "Program that is run on a machine that cannot run containers any more,"
        " in place of marking it.",
        private=True,
    )
    StopGracePeriod: float = key(
        10.0, "Time between TERM and KILL when a container is stopped.", unit="seconds"
    )
    RetryLimits: dict[str, int] = key(
        {},
        "Retries for each class of failure:"
        " user, oom, disk, image, input, node, preempted, timeout, infrastructure.",
    )
    Retry: dict[str, dict[str, Any]] = key(
        {},
        "Rules for retries by class of failure, such as"
        " {oom: {limit: 3, delay: 10, factor: 2, most: 68719476736}};"
        " requests and projects may have rules of their own, which come first.",
    )
    LearnResources: str = key(
        "off",
        "Use of the ram and disk that only a retry had: `off`; `suggest` them for later"
        " requests of the user that run the same tool; `apply` them.",
    )
    FairShare: FairShare = section(FairShare)
    GitRepositories: list[str] = key(
        [],
        "Addresses that git_tree mounts may name;"
        " one that ends in `/` or `:` allows all that begin with it.",
    )
    GitCacheSize: int = key(
        10 * GIB,
        "Disk for mirrors of git repositories, and for one fetch; the longest unused goes first.",
        private=True,
        unit="bytes",
    )
    GitTimeout: float = key(
        60.0, "Longest run of `git` for a git_tree mount.", private=True, unit="seconds"
    )
    ResolveTimeout: float = key(
        5.0,
        "Time that a client waits while git_tree mounts are resolved; then the answer comes"
        " without them.",
        unit="seconds",
    )
