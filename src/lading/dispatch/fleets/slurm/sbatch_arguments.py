"""The arguments of `sbatch`: templates of the configuration, filled with the needs of a container.

    %U uuid        %C vcpus            %M MiB of RAM         %T MiB of scratch disk    %G GPUs
    %W minutes     %P partitions       %I instance type      %% a percent sign

Source: docs/spec/dispatch, section Slurm fleet.

A gang is one job of as many tasks as it has containers, all on one node: %C is what one of them
needs, the others what all do. One that no node can hold is a job of as many nodes, with a task on
each: all letters are what one task needs.

RAM is the container's, its block cache's and `ReserveExtraRAM`. An argument that names the run
time, the partitions or the instance type of a container that has none is left out whole. No
argument ever holds a token: arguments show in process lists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lading.core.errors import Invalid
from lading.core.resources import MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.core.scheduling.slurm_nice import INITIAL

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """What the configuration says about the command line of `sbatch`. `extra_ram` is bytes beside
    the container's.
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

    def fill(
        self,
        uuid: str,
        container: TrackedContainer,
        *,
        spread: bool = False,
        instance_type: str = "",
    ) -> list[str]:
        """The arguments for one container, after the name of the program. `spread`: its gang has a
        node for each.
        """
        need = container.each if spread else container.need
        values = _values(container, need, self.extra_ram) | {"U": uuid, "I": instance_type}
        templates = [*self.arguments, *(self.gpu_arguments if container.need.gpus else ())]
        filled = (_fill(one, values) for one in templates)
        gang = ["--nodes=1", f"--ntasks={container.nodes}"] if container.nodes > 1 else []
        if spread:
            gang = [
                f"--nodes={container.nodes}",
                f"--ntasks={container.nodes}",
                "--ntasks-per-node=1",
            ]
        return [
            f"--nice={INITIAL}",
            "--no-requeue",
            *(one for one in filled if one is not None),
            *gang,
        ]


def mebibytes(number: int) -> int:
    """Whole MiB, rounded up."""
    return -(-number // MIB)


def _values(container: TrackedContainer, need: Resources, extra_ram: int) -> dict[str, str]:
    minutes = -(-container.max_run_time // 60)
    return {
        "C": str(container.need.vcpus // container.nodes),
        "M": str(mebibytes(need.ram + extra_ram)),
        "T": str(mebibytes(need.disk)),
        "G": str(need.gpus),
        "W": str(minutes) if minutes else "",
        "P": ",".join(container.partitions),
        "%": "%",
    }


_LETTERS = frozenset("UCMTGWPI%")
_KNOWN = ", ".join(f"%{letter}" for letter in "UCMTGWPI")


def _fill(template: str, values: Mapping[str, str]) -> str | None:
    """The filled argument; None if it names an attribute that the container lacks."""
    named = _LETTER.findall(template)
    if any(not values.get(letter, "?") for letter in named):
        return None
    return _LETTER.sub(lambda match: values[match[1]], template)
