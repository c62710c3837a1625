"""Arguments of a submission: templates of the configuration, filled with the needs of a container.

    %N name        %U uuid             %C vcpus             %M MiB of RAM
    %m MiB of RAM for each vcpu        %T MiB of scratch    %G GPUs
    %W minutes     %S seconds          %P partitions        %L priority      %% a percent sign
    %g :NAME=GPUs with the resource that counts GPUs, nothing without GPUs

A template is an option, or an option and its value after a space; a value never becomes more than
one word. RAM is the container's, its block cache's and `ReserveExtraRAM`. A template that names the
run time, the partitions or the GPUs of a container that has none is left out whole. No argument
ever holds a token: arguments show in process lists.

Source: docs/spec/dispatch, section Batch fleet.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lading.core.errors import Invalid
from lading.core.resources import MIB
from lading.core.scheduling.planning import TrackedContainer

# "%" and a letter, which stands for a value of the container.
_LETTER = re.compile(r"%(.?)", re.DOTALL)
_LETTERS = frozenset("NUCMmTGgWSPL%")
_KNOWN = ", ".join(f"%{letter}" for letter in "NUCMmTGgWSPL")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentTemplates:
    """Templates for the command line of a submission. `extra_ram` is bytes beside the container's;
    `gpu_resource` counts GPUs; `section` of the configuration is named in messages.
    """

    arguments: Sequence[str]
    gpu_arguments: Sequence[str] = ()
    extra_ram: int = 0
    gpu_resource: str = ""
    section: str = "Batch"

    def check(self) -> None:
        """Check the templates. Raises Invalid for an unknown letter, and for quotes without end."""
        for template in (*self.arguments, *self.gpu_arguments):
            try:
                shlex.split(template)
            except ValueError as error:
                raise Invalid(f"{self.section}.Arguments: {template!r}: {error}") from error
            for letter in _LETTER.findall(template):
                if letter not in _LETTERS:
                    raise Invalid(
                        f"{self.section}.Arguments: %{letter} in {template!r} is unknown;"
                        f" use {_KNOWN}, or %%"
                    )

    def fill(
        self, uuid: str, container: TrackedContainer, *, name: str, level: int | None
    ) -> list[str]:
        """The arguments for one container, after the name of the program. `name`: of the job;
        `level`: its priority in the batch system, None for none.
        """
        values = _values(container, self.extra_ram) | {
            "U": uuid,
            "N": name,
            "L": "" if level is None else str(level),
            "g": f":{self.gpu_resource}={container.need.gpus}" if container.need.gpus else "",
        }
        templates = [*self.arguments, *(self.gpu_arguments if container.need.gpus else ())]
        return [word for template in templates for word in _fill(template, values)]


def mebibytes(number: int) -> int:
    """A number of bytes in MiB, rounded up."""
    return -(-number // MIB)


def _values(container: TrackedContainer, extra_ram: int) -> dict[str, str]:
    vcpus = max(1, container.need.vcpus)
    ram = mebibytes(container.need.ram + extra_ram)
    gpus, seconds = container.need.gpus, container.max_run_time
    return {
        "C": str(vcpus),
        "M": str(ram),
        "m": str(-(-ram // vcpus)),
        "T": str(mebibytes(container.need.disk)),
        "G": str(gpus) if gpus else "",
        # Rounded up, so that the batch system never ends a container early.
        "W": str(-(-seconds // 60)) if seconds else "",
        "S": str(seconds) if seconds else "",
        "P": ",".join(container.partitions),
        "%": "%",
    }


def _fill(template: str, values: Mapping[str, str]) -> list[str]:
    """The filled words; none if the template names an attribute that the container lacks."""
    if any(not values[letter] for letter in _LETTER.findall(template) if letter != "g"):
        return []
    words = shlex.split(template)
    return [_LETTER.sub(lambda match: values[match[1]], word) for word in words]
