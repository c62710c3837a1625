"""The configuration of containers: requests, runs, retries, Slurm, cloud VMs.

`config` has the other sections.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lading.core.resources import GIB, MIB
from lading.sections import key
from lading.share_config import FairShare


@dataclass(frozen=True, slots=True, kw_only=True)
class SLURM:
    """Containers as jobs of a Slurm cluster."""

    SbatchArgumentsList: list[str] = key(
        [],
        "Arguments of `sbatch` in place of the usual ones: --job-name=%U --mem=%M"
        " --cpus-per-task=%C --tmp=%T --partition=%P --time=%W.",
        private=True,
    )
    SbatchGPUArgumentsList: list[str] = key(
        ["--gpus=%G"], "Further arguments for containers with GPUs.", private=True
    )
    SbatchEnvironmentVariables: dict[str, str] = key({}, "Environment of every job.", private=True)
    PrioritySpread: int = key(
        10, "Distance of the nice values that keep waiting jobs in order.", private=True
    )
    PollPeriod: float = key(
        2.0,
        "Time between two looks at Slurm's queue; longer while Slurm is slow or away.",
        private=True,
        unit="seconds",
    )
    CommandTimeout: float = key(
        60.0, "Longest run of one of Slurm's programs.", private=True, unit="seconds"
    )
    MaxWaitingJobs: int = key(1000, "Most containers that wait in Slurm at a time.", private=True)
    MaxJobArraySize: int = key(
        1,
        "Most containers in one job array; its tasks are for one user and alike. 1, no arrays,"
        " as every node that has a task of an array sees the tokens of all of them.",
        private=True,
    )
    VCPUPrice: float = key(0.0, "Dollars an hour for each VCPU of a container.", private=True)
    Preemption: str = key(
        "",
        "`ec2`, `azure` or `google`: nodes look for notices that the cloud takes them away.",
        private=True,
    )
    NodeDirectory: str = key(
        "/var/tmp/lading",  # noqa: S108 - a job refuses it when it is another user's
        "Directory on each node for running containers and a cache; made when missing.",
        private=True,
    )
    HookDirectory: str = key(
        "",
        "Directory shared with the nodes through which jobs report their end at once.",
        private=True,
    )
    SupervisorCommand: list[str] = key(
        [],
        "Command that starts a supervisor on a node; empty: the dispatcher's own Python, at the"
        " same path.",
        private=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes:
    """Containers as Pods of a Kubernetes cluster (experimental)."""

    Kubeconfig: str = key(
        "",
        "File with the way to the cluster; empty: the service account of the Pod that the"
        " dispatcher runs in.",
        private=True,
    )
    Context: str = key("", "Context of the Kubeconfig; empty: its current one.", private=True)
    Namespace: str = key(
        "", "Namespace of the Pods; empty: that of the context or of the dispatcher.", private=True
    )
    Image: str = key("", "Image of the supervisor, as nodes can pull it.", private=True)
    ImagePullPolicy: str = key(
        "IfNotPresent",
        "`IfNotPresent`, `Always`, or `Never` for images put on the nodes.",
        private=True,
    )
    ImagePullSecrets: list[str] = key(
        [], "Secrets of the namespace with which nodes pull the image.", private=True
    )
    SupervisorCommand: list[str] = key(
        [],
        "Command in the image that starts a supervisor; empty: that of the image of `make image`.",
        private=True,
    )
    Isolation: str = key(
        "user-namespace",
        "Security context of the Pods: `user-namespace` or `privileged`.",
        private=True,
    )
    Nodes: dict[str, dict[str, Any]] = key(
        {},
        "Kinds of nodes, by names of your own: `VCPUs`, `RAM`, `Scratch`, `GPUs`, `Price`,"
        " `Partitions`, `Closed`, `NodeSelector`, `Tolerations`, `PriorityClass`, `RuntimeClass`,"
        " `GPUResource`, `GPUStack`, `GPUMemory`.",
        private=True,
    )
    NodeCacheDirectory: str = key(
        "",
        "Directory of the nodes for images and inputs that Pods share; empty: each has its own.",
        private=True,
    )
    ServiceAccount: str = key(
        "", "Service account of the Pods, which gives them no token; empty: default.", private=True
    )
    Labels: dict[str, str] = key(
        {}, "Further labels of the Pods, such as the queue of Kueue.", private=True
    )
    MaxPendingPods: int = key(100, "Most Pods that wait in the cluster at a time.", private=True)
    GracePeriod: float = key(
        900.0,
        "Time after TERM until KILL; longer than saving logs takes.",
        private=True,
        unit="seconds",
    )
    BeginTimeout: float = key(
        600.0,
        "Time after which a Pod is given up that does not begin on its node.",
        private=True,
        unit="seconds",
    )
    LostTimeout: float = key(
        300.0,
        "Time after the due end of a deleted Pod until its node counts as lost.",
        private=True,
        unit="seconds",
    )
    StartTimeout: float = key(
        60.0,
        "Time for which the making of a Pod is repeated while the cluster does not answer.",
        private=True,
        unit="seconds",
    )
    RefusalPause: float = key(
        60.0,
        "Pause after the cluster has refused a Pod for a quota, a right or a policy.",
        private=True,
        unit="seconds",
    )
    ResyncInterval: float = key(
        300.0, "Time between two lists of all Pods, beside the watch.", private=True, unit="seconds"
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
class CloudVMs:
    """Containers on VMs that are made for them and removed after them."""

    Driver: str = key(
        "ec2",
        "`ec2`, `libcloud` (Azure, Google, OpenStack), `loopback`, or another installed driver.",
        private=True,
    )
    DriverParameters: dict[str, Any] = key({}, "Parameters of the driver; see Cloud.", private=True)
    ImageID: str = key("", "Image of the VMs, by the name that the cloud has for it.", private=True)
    MaxInstances: int = key(
        64, "Most VMs at a time; 0 is as many as the cloud gives.", private=True
    )
    MaxRunningContainersPerInstance: int = key(
        0, "Most containers on one VM; 0 is as many as fit.", private=True
    )
    InitialQuotaEstimate: int = key(
        0,
        "Containers at a time that the API is taken to bear at first, more while it is not busy;"
        " 0: any number.",
        private=True,
    )
    SupervisorFraction: float = key(
        0.5,
        "Part of MaxInstances that workflow runners may take; 0 makes no difference.",
        private=True,
    )
    PollInterval: float = key(
        10.0, "Time between two full looks at the queue.", private=True, unit="seconds"
    )
    ProbeInterval: float = key(
        10.0, "Time between two questions to a VM whether it is well.", private=True, unit="seconds"
    )
    MaxProbesPerSecond: float = key(
        10.0, "Most attempts to reach VMs that boot, in a second.", private=True
    )
    SyncInterval: float = key(
        60.0,
        "Time between two lists of the VMs; shorter while some come or go.",
        private=True,
        unit="seconds",
    )
    TimeoutIdle: float = key(
        60.0, "Time after which a VM without containers is removed.", private=True, unit="seconds"
    )
    TimeoutBooting: float = key(
        600.0, "Longest time until a new VM is ready.", private=True, unit="seconds"
    )
    TimeoutProbe: float = key(
        600.0, "Time without an answer after which a VM is removed.", private=True, unit="seconds"
    )
    TimeoutShutdown: float = key(
        10.0,
        "Time after which a VM that is still listed is removed again.",
        private=True,
        unit="seconds",
    )
    TimeoutSignal: float = key(
        5.0,
        "Time between two TERM signals to a supervisor that should end.",
        private=True,
        unit="seconds",
    )
    TimeoutTERM: float = key(
        900.0,
        "Time after the first TERM until KILL; longer than saving logs takes.",
        private=True,
        unit="seconds",
    )
    MaxCloudOpsPerSecond: float = key(
        10.0, "Most calls of the cloud in a second; 0 is any number.", private=True
    )
    MaxConcurrentInstanceCreateOps: int = key(
        1, "VMs that are being asked for at once.", private=True
    )
    SSHPort: str = key("22", "Port of the ssh server of the VMs.", private=True)
    BootProbeCommand: str = key(
        "systemctl is-system-running",
        "Succeeds on a VM once it has booted; empty: true.",
        private=True,
    )
    InstanceInitCommand: str = key(
        "", "Command that each VM runs at its first start, after ours.", private=True
    )
    DeployRunnerDirectory: str = key(
        "/var/lib/lading", "Directory for the runner and running containers on a VM.", private=True
    )
    DeployPublicKey: bool = key(
        True, "Have the cloud let the dispatcher's ssh key in.", private=True
    )
    TagKeyPrefix: str = key("Arvados", "Begins the names of the tags of VMs.", private=True)
    ResourceTags: dict[str, str] = key({}, "Further tags of each VM.", private=True)
    SpotAttempts: int = key(
        2,
        "Preemptible VMs that a request may lose before it gets others, where it names no number;"
        " 0: any number. Read by the server.",
        private=True,
    )
    ManagementAddress: str = key(
        "",
        "HOST:PORT where the dispatcher serves its management interface and metrics;"
        " empty: nowhere.",
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
        "Fleet of `lading up`: `local`, `slurm`, another installed fleet, or `none`.",
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
    SLURM: SLURM = field(default_factory=SLURM, metadata={"doc": SLURM.__doc__, "private": True})
    Kubernetes: Kubernetes = field(
        default_factory=Kubernetes, metadata={"doc": Kubernetes.__doc__, "private": True}
    )
    CloudVMs: CloudVMs = field(
        default_factory=CloudVMs, metadata={"doc": CloudVMs.__doc__, "private": True}
    )
    RuntimeEngine: str = key(
        "auto",
        "`native`, `docker`, `podman`, or `auto`: native where this machine can, else docker.",
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
    ShellAccess: ShellAccess = field(
        default_factory=ShellAccess, metadata={"doc": ShellAccess.__doc__}
    )
    GatewayAddress: str = key(
        "",
        "HOST:PORT where the server reaches the gateways of containers (port 0: any), `direct`:"
        " each machine's own address, or a tunnel where the server sees another, or `tunnel`:"
        " they connect to the server; empty: the loopback where the server is on the same machine,"
        " else a tunnel.",
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
    UsageInterval: float = key(10.0, "Time between two usage samples.", unit="seconds")
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
    FairShare: FairShare = field(default_factory=FairShare, metadata={"doc": FairShare.__doc__})
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
    UnreachableTimeout: float = key(
        600.0,
        "Time for which a supervisor tries to reach the API before it fails.",
        unit="seconds",
    )
