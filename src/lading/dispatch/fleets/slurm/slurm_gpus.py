"""Types of GPUs in Slurm: which a request can have, and how `sbatch` is told.

Slurm knows GPUs by number and type (`Gres` of slurm.conf, `Type` of gres.conf). A type is described
by `Containers.SLURM.GPUTypes`; of a common model, such as `a100`, what its name tells is known
without that. Of a node whose GPUs have no type, or one of which nothing is known, the number alone
is compared.

A job names a type only where other types of the cluster do not suit its container. Slurm takes one
type for a job: where several suit, their features are named (`--constraint=a100|h100`), or without
features the type with the least memory.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from msgspec import structs

from lading.config.fleets import SlurmGPUType
from lading.core.containers import gpu_words
from lading.core.containers.gpu_words import STACKS
from lading.core.errors import Invalid
from lading.core.gpus.models import read_model
from lading.core.scheduling.gpu_kinds import unsuited_gpu
from lading.core.scheduling.instance_types import Gpu

# "gpu:a100:2(S:0-1)": type and number in a list of generic resources.
_GPUS = re.compile(r"(?:^|,)gpu(?::([^:,()]+))?:(\d+)")


@dataclass(frozen=True, slots=True)
class JobGpus:
    """How a job asks for its GPUs beside their number: a type, or features of nodes; neither where
    any GPU suits.
    """

    type: str = ""
    features: tuple[str, ...] = ()


ANY_GPUS = JobGpus()


@dataclass(frozen=True, slots=True)
class SlurmGpus:
    """The types that the configuration describes, and the feature of the nodes with each."""

    types: Mapping[str, Gpu] = field(default_factory=dict)
    features: Mapping[str, str] = field(default_factory=dict)

    def kinds(self, gres: str) -> dict[str, Gpu]:
        """The GPUs in a list of generic resources by type; "" is that of those without."""
        kinds: dict[str, Gpu] = {}
        for name, count in _GPUS.findall(gres):
            before = kinds[name].count if name in kinds else 0
            kinds[name] = structs.replace(self._describe(name), count=before + int(count))
        return kinds

    def choose(self, asked: Gpu, kinds: Collection[Mapping[str, Gpu]]) -> JobGpus:
        """What a job for these GPUs names, where the nodes have these `kinds`."""
        single = structs.replace(asked, count=1)
        types = {name: gpu for nodes in kinds for name, gpu in nodes.items()}
        suited = {
            name: gpu for name, gpu in types.items() if name and not unsuited_gpu(single, gpu)
        }
        if not suited or len(suited) == len(types):
            return ANY_GPUS
        if len(suited) > 1 and all(self.features.get(name) for name in suited):
            return JobGpus(features=tuple(sorted({self.features[name] for name in suited})))
        enough = {
            name
            for nodes in kinds
            for name, gpu in nodes.items()
            if name in suited and gpu.count >= asked.count
        }
        return JobGpus(type=min(enough or suited, key=lambda name: (suited[name].vram, name)))

    def _describe(self, name: str) -> Gpu:
        if name in self.types:
            return self.types[name]
        model = read_model(name)
        # A word that no table knows tells nothing: its GPUs may be of any kind.
        kinds = tuple(dict.fromkeys((name, *model.kinds))) if model.kinds else ()
        return Gpu(stack=model.stack, count=1, targets=kinds, vram=model.memory)


NO_TYPES = SlurmGpus()


def gpu_types(declared: Mapping[str, SlurmGPUType]) -> SlurmGpus:
    """The types of a configuration. Raises Invalid."""
    types: dict[str, Gpu] = {}
    for name, settings in declared.items():
        model = read_model(name)
        stack = settings.Stack or model.stack or "cuda"
        if stack not in STACKS:
            raise Invalid(
                f"Containers.SLURM.GPUTypes.{name}.Stack: {stack!r}; it must be one of "
                f"{', '.join(STACKS)}"
            )
        types[name] = Gpu(
            stack=stack,
            count=1,
            driver=settings.DriverVersion,
            targets=tuple(dict.fromkeys((name, *(settings.HardwareTarget or model.kinds)))),
            vram=settings.VRAM or model.memory,
        )
    features = {name: settings.Feature for name, settings in declared.items() if settings.Feature}
    return SlurmGpus(types, features)


def total_gpus(kinds: Mapping[str, Gpu]) -> int:
    """The number of GPUs of all types."""
    return sum(gpu.count for gpu in kinds.values())


def known_kinds(kinds: Mapping[str, Gpu]) -> tuple[Gpu, ...]:
    """The kinds of a node's GPUs, those of which nothing is known among them."""
    return tuple(gpu for _, gpu in sorted(kinds.items()))


def in_words(kinds: Mapping[str, Gpu]) -> str:
    """The GPUs of a node in words: "2 GPUs (a100, 8.0)"; "" without any."""
    return " and ".join(
        gpu_words.in_words(
            gpu.count, memory=gpu.vram, kinds=gpu.targets, version=gpu.driver, stack=gpu.stack
        )
        for gpu in known_kinds(kinds)
    )
