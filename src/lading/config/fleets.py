"""The configuration of Slurm, Kubernetes and cloud VMs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lading.config.sections import key


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmGPUType:
    """A type of GPUs in Slurm, by its `Type` in gres.conf."""

    Stack: str = key(
        "", "`cuda`, `rocm` or `oneapi`; empty: what the name tells, else `cuda`.", private=True
    )
    DriverVersion: str = key("", "Version of CUDA or ROCm; empty: not compared.", private=True)
    HardwareTarget: list[str] = key(
        [], "Compute capabilities or architectures; empty: what the name tells.", private=True
    )
    VRAM: int = key(
        0, "Memory of each; 0: what the name tells, else not compared.", private=True, unit="bytes"
    )
    Feature: str = key(
        "",
        "Feature of the nodes that have it, for jobs that several types suit; empty: one type is"
        " named.",
        private=True,
    )


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
    GPUTypes: dict[str, SlurmGPUType] = key(
        {}, "What the types of GPUs are, beyond what names such as `a100` tell.", private=True
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
        " `GPUResource`, `GPUStack`, `GPUMemory`, `GPUType`, `GPUDriverVersion`, `GPUShared`.",
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
