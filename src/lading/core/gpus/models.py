"""Models of GPUs by their names: what is known of one without a look at the machine.

Slurm and Kubernetes name GPUs by words such as `a100`, `nvidia_h100_80gb_hbm3` or `1g.10gb`, and
NVIDIA's programs by `NVIDIA A100-SXM4-40GB`. A name of another form tells nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from lading.core.gpu_architectures import CUDA, ONEAPI, ROCM

_NVIDIA: Final[Mapping[str, str]] = MappingProxyType(
    {
        "3.7": "k80",
        "5.2": "m10 m40 m60",
        "6.0": "p100",
        "6.1": "p4 p40",
        "7.0": "v100 v100s",
        "7.5": "t4 t4g",
        "8.0": "a100 a100x a30 a800",
        "8.6": "a2 a10 a10g a16 a40 a4000 a4500 a5000 a5500 a6000",
        "8.9": "l4 l20 l40 l40s",
        "9.0": "h100 h200 h20 h800 gh200",
        "10.0": "b100 b200 gb200",
        "10.3": "b300 gb300",
    }
)
"""The models of NVIDIA with each compute capability."""
_AMD: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gfx906": "mi50 mi60",
        "gfx908": "mi100",
        "gfx90a": "mi210 mi250 mi250x",
        "gfx942": "mi300a mi300x mi325x",
        "gfx950": "mi350x mi355x",
    }
)
"""The models of AMD with each architecture."""
_INTEL: Final = frozenset({"max1100", "max1550", "flex140", "flex170", "pvc"})
_MIG = re.compile(r"(?:\d+c\.)?\d+g\.(\d{1,4})gb(?:[+.]\S*)?")
_MEMORY = re.compile(r"(\d{1,4})gb")
_SEPARATORS = re.compile(r"[^a-z0-9.+]+")
_LONGEST: Final = 200


class GpuModel(msgspec.Struct, frozen=True, kw_only=True):
    """The facts in a name: the stack, words for its kind, bytes of memory. "", () and 0 are not
    known.
    """

    stack: str = ""
    kinds: tuple[str, ...] = ()
    memory: int = 0


def read_model(name: str) -> GpuModel:
    """The model with a name in any of the forms above."""
    words = [word for word in _SEPARATORS.split(name[:_LONGEST].casefold()) if word]
    models = [word for word in words if word in _STACKS]
    instances = [match for word in words if (match := _MIG.fullmatch(word))]
    sizes = [int(match[1]) for word in words if (match := _MEMORY.fullmatch(word))]
    kinds = [kind for word in models for kind in _STACKS[word][1]]
    # An instance of a GPU is not the model: it has a part of its memory.
    kinds += [match[0] for match in instances] or models
    return GpuModel(
        stack=_STACKS[models[0]][0] if models else CUDA if instances else "",
        kinds=tuple(dict.fromkeys(kinds)),
        memory=[*(int(match[1]) for match in instances), *sizes, 0][0] << 30,
    )


def _stacks() -> Mapping[str, tuple[str, tuple[str, ...]]]:
    table: dict[str, tuple[str, tuple[str, ...]]] = dict.fromkeys(_INTEL, (ONEAPI, ()))
    for stack, models in ((CUDA, _NVIDIA), (ROCM, _AMD)):
        for kind, words in models.items():
            table |= dict.fromkeys(words.split(), (stack, (kind,)))
    return MappingProxyType(table)


_STACKS: Final = _stacks()
"""The stack and the kind of each model."""
