"""The configuration of batch systems other than Slurm."""

from __future__ import annotations

from dataclasses import dataclass

from lading.config.sections import key
from lading.core.resources import GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSite:
    """Containers as jobs of a batch system other than Slurm (`Containers.Dispatcher: batch`)."""

    System: str = key(
        "gridengine",
        "Batch system: `gridengine` or `pbs` (PBS Professional, OpenPBS).",
        private=True,
    )
    Arguments: list[str] = key(
        [],
        "Arguments of a submission in place of the usual ones: an option, or an option and its"
        " value. `%` and a letter stands for a need of the container.",
        private=True,
    )
    GPUArguments: list[str] = key(
        [], "Further arguments for containers with GPUs; empty: the usual ones.", private=True
    )
    ParallelEnvironment: str = key(
        "smp", "Grid Engine: parallel environment that gives slots of one host.", private=True
    )
    GPUResource: str = key(
        "",
        "Resource of the site that counts GPUs; empty: `gpu` (Grid Engine), `ngpus` (PBS).",
        private=True,
    )
    NodeScratch: int = key(
        100 * GIB,
        "Scratch disk of a node, which batch systems do not tell.",
        private=True,
        unit="bytes",
    )
    EnvironmentVariables: dict[str, str] = key({}, "Environment of every job.", private=True)
    PollPeriod: float = key(
        5.0,
        "Time between two looks at the queue; longer while the batch system is slow or away.",
        private=True,
        unit="seconds",
    )
    CommandTimeout: float = key(
        60.0, "Longest run of one program of the batch system.", private=True, unit="seconds"
    )
    AccountingDelay: float = key(
        60.0,
        "Longest time after the end of a job until the accounts know of it.",
        private=True,
        unit="seconds",
    )
    MaxWaitingJobs: int = key(
        500, "Most containers that wait in the batch system at a time.", private=True
    )
    VCPUPrice: float = key(0.0, "Dollars an hour for each VCPU of a container.", private=True)
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
    SecretDirectory: str = key(
        "",
        "Directory shared with the nodes, through which jobs get their tokens where the batch"
        " system lets others read job scripts, as Grid Engine does; made with mode 0700.",
        private=True,
    )
    SupervisorCommand: list[str] = key(
        [],
        "Command that starts a supervisor on a node; empty: the dispatcher's own Python, at the"
        " same path.",
        private=True,
    )
