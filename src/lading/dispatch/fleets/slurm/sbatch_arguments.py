"""Arguments of `sbatch`: templates of the configuration, filled with the needs of a container.

    %U uuid        %C vcpus            %M MiB of RAM         %T MiB of scratch    %G GPUs: 2, a100:2
    %W minutes     %P partitions       %I instance type      %% a percent sign

A gang is one job of as many tasks as it has containers, all on one node: %C is the need of one of
them, the other letters that of all. A gang that no node can hold is a job of as many nodes, with a
task on each: all letters are the need of one task.

RAM is the container's, its block cache's and `ReserveExtraRAM`. An argument that names the run
time, the partitions or the instance type of a container that has none is left out whole. No
argument ever holds a token: arguments show in process lists.

Source: docs/spec/dispatch, section Slurm fleet.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lading.core.errors import Invalid
from lading.core.resources import MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.core.scheduling.slurm_nice import INITIAL
from lading.dispatch.fleets.slurm.slurm_gpus import ANY_GPUS, JobGpus

# "%" and a letter, which stands for a value of the container.
_LETTER = re.compile(r"%(.?)", re.DOTALL)
DEFAULT_ARGUMENTS = (
    "--job-name=%U",
    "--mem=%M",
    "--cpus-per-task=%C",
    "--tmp=%T",
    "--partition=%P",
    "--time=%W",
)
DEFAULT_GPU_ARGUMENTS = ("--gpus=%G",)
_LETTERS = frozenset("UCMTGWPI%")
_KNOWN = ", ".join(f"%{letter}" for letter in "UCMTGWPI")


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """The configured templates for the command line of `sbatch`. `extra_ram` is bytes beside the
    container's.
    """

    arguments: Sequence[str] = DEFAULT_ARGUMENTS
    gpu_arguments: Sequence[str] = DEFAULT_GPU_ARGUMENTS
    extra_ram: int = 0

    def check(self) -> None:
        """Check the templates. Raises Invalid for an unknown letter."""
        for argument in (*self.arguments, *self.gpu_arguments):
            for letter in _LETTER.findall(argument):
                if letter not in _LETTERS:
                    raise Invalid(
                        f"SbatchArgumentsList: %{letter} in {argument!r} is unknown;"
                        f" use {_KNOWN}, or %%"
                    )

    def users(self) -> tuple[str, ...]:
        """The users that the arguments name to run jobs, which root may (`sbatch --uid`)."""
        words = [*self.arguments, *self.gpu_arguments]
        joined = [word.removeprefix("--uid=") for word in words if word.startswith("--uid=")]
        apart = [user for word, user in itertools.pairwise(words) if word == "--uid"]
        return (*joined, *apart)

    def fill(
        self,
        uuid: str,
        container: TrackedContainer,
        *,
        spread: bool = False,
        instance_type: str = "",
        gpus: JobGpus = ANY_GPUS,
    ) -> list[str]:
        """The arguments for one container, after the name of the program. `spread`: its gang has a
        node for each. `gpus` is how it asks for its GPUs.
        """
        need = container.each if spread else container.need
        # Tasks of one node that share its processors are one task for Slurm.
        tasks = 1 if container.shares_vcpus and not spread else container.nodes
        values = _values(container, need, self.extra_ram, tasks=tasks)
        values |= {"U": uuid, "I": instance_type}
        templates = [*self.arguments, *(self.gpu_arguments if container.need.gpus else ())]
        if gpus.type:
            values["G"] = f"{gpus.type}:{values['G']}"
        filled = (_fill(template, values) for template in templates)
        constraint = [f"--constraint={'|'.join(gpus.features)}"] if gpus.features else []
        # All ranks on one node, as tasks of one job.
        gang = ["--nodes=1", f"--ntasks={tasks}"] if container.nodes > 1 else []
        if spread:
            gang = [
                f"--nodes={container.nodes}",
                f"--ntasks={container.nodes}",
                "--ntasks-per-node=1",
            ]
        return [
            f"--nice={INITIAL}",
            # A job that is sent back to the queue would run a container twice; the API retries
            # instead.
            "--no-requeue",
            *(argument for argument in filled if argument is not None),
            *constraint,
            *gang,
        ]


def mebibytes(number: int) -> int:
    """A number of bytes in MiB, rounded up."""
    return -(-number // MIB)


def _values(
    container: TrackedContainer, need: Resources, extra_ram: int, *, tasks: int
) -> dict[str, str]:
    # Slurm counts minutes: rounded up, so that it never ends a container early.
    minutes = -(-container.max_run_time // 60)
    return {
        # For one task: Slurm multiplies it by the number of tasks.
        "C": str(max(1, container.need.vcpus // tasks)),
        "M": str(mebibytes(need.ram + extra_ram)),
        "T": str(mebibytes(need.disk)),
        "G": str(need.gpus),
        "W": str(minutes) if minutes else "",
        "P": ",".join(container.partitions),
        "%": "%",
    }


def _fill(template: str, values: Mapping[str, str]) -> str | None:
    """The filled argument; None if it names an attribute that the container lacks."""
    named = _LETTER.findall(template)
    if any(not values.get(letter, "?") for letter in named):
        return None
    return _LETTER.sub(lambda match: values[match[1]], template)
