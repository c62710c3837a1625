"""Kinds of GPUs: compute capabilities and names of architectures, and whether one suits another.

- A request names a compute capability of CUDA (`8.6`), an architecture of NVIDIA (`ampere`), or an
  architecture of AMD (`gfx90a`). Machines are described by the same words.
- One capability alone is the least: newer GPUs suit. Of several words one has to be there, and a
  capability is then that capability alone, as in Arvados.
- The name of an architecture of NVIDIA stands for all capabilities of that architecture. Where a
  machine is described by such a name, its GPU counts as the oldest of them.
- Any other word, such as a model, suits the same word, in upper or lower case.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

CUDA: Final = "cuda"
ROCM: Final = "rocm"
ONEAPI: Final = "oneapi"
Capability = tuple[int, int]

_CAPABILITY = re.compile(r"(\d{1,3})\.(\d{1,3})")
_AMD = re.compile(r"gfx[0-9a-f]{3,8}", re.IGNORECASE)
NVIDIA_ARCHITECTURES: Final[Mapping[str, tuple[Capability, Capability]]] = MappingProxyType(
    {
        "kepler": ((3, 0), (5, 0)),
        "maxwell": ((5, 0), (6, 0)),
        "pascal": ((6, 0), (7, 0)),
        "volta": ((7, 0), (7, 5)),
        "turing": ((7, 5), (8, 0)),
        "ampere": ((8, 0), (8, 9)),
        "ada": ((8, 9), (9, 0)),
        "hopper": ((9, 0), (10, 0)),
        "blackwell": ((10, 0), (13, 0)),
    }
)
"""The first capability of each architecture, and the first one after it."""


def capability(word: str) -> Capability | None:
    """The compute capability in a word such as "8.6", or None."""
    match = _CAPABILITY.fullmatch(word)
    return (int(match[1]), int(match[2])) if match else None


def is_amd(word: str) -> bool:
    """Whether a word is the name of an architecture of AMD, such as gfx90a."""
    return _AMD.fullmatch(word) is not None


def default_stack(targets: Collection[str]) -> str:
    """The stack of a request that names none: that of AMD for architectures of AMD, else CUDA."""
    return ROCM if targets and all(map(is_amd, targets)) else CUDA


def suits(asked: Collection[str], offered: Collection[str]) -> bool:
    """Whether GPUs that are described by the words `offered` are among those that a request names.

    A request that names none takes any.
    """
    if not asked:
        return True
    if len(asked) == 1 and (least := capability(next(iter(asked)))) is not None:
        return any((own := _oldest(word)) is not None and own >= least for word in offered)
    return any(_equal(word, own) for word in asked for own in offered)


def _oldest(word: str) -> Capability | None:
    """The capability that a GPU described by this word certainly has."""
    span = NVIDIA_ARCHITECTURES.get(word.casefold())
    return span[0] if span is not None else capability(word)


def _equal(word: str, own: str) -> bool:
    """Whether a word of a request and one of a machine mean the same kind of GPU."""
    if word.casefold() == own.casefold():
        return True
    span, version = NVIDIA_ARCHITECTURES.get(word.casefold()), capability(own)
    if span is None or version is None:
        return version is not None and version == capability(word)
    return span[0] <= version < span[1]
