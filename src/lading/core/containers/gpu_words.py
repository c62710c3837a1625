"""GPUs of a request in the words of people: a number, a memory, kinds, a version of CUDA.

- The number is 1 where only another word is given.
- A kind is a compute capability (`8.0`, `8`, `sm_80`), an architecture (`ampere`, `gfx90a`), or a
  word by which machines are described, such as a model (`core.gpu_architectures`). `nvidia`,
  `amd` and `intel` alone are all GPUs of that maker.
- Of a version of CUDA the first two numbers count: those which a driver supports.

The parsers raise Invalid without the name of their option, which the caller knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from lading.core.errors import Invalid
from lading.core.gpu_architectures import (
    CUDA,
    NVIDIA_ARCHITECTURES,
    ONEAPI,
    ROCM,
    capability,
    default_stack,
    is_amd,
)
from lading.core.gpus.models import read_model
from lading.core.quantities import parse_size, size
from lading.core.values import Json, JsonObject, printable

MOST_GPUS: Final = 1024
NO_VERSION: Final = "0.0"
"""The version of a driver that demands nothing."""
STACKS: Final = {CUDA: "CUDA", ROCM: "ROCm", ONEAPI: "oneAPI"}
"""The names of stacks as people write them."""
_DRIVER: Final = "driver_version"
_MAKERS: Final = {"nvidia": CUDA, "amd": ROCM, "intel": ONEAPI}
_MOST_KINDS: Final = 20
_LONGEST_KIND: Final = 64
# Bytes below which the unit was most likely forgotten.
_LEAST_MEMORY: Final = 1 << 20
_MOST_MEMORY: Final = 1 << 62
_SHADER = re.compile(r"(?:sm|compute)_?(\d{1,2})(\d)[a-z]?")
_VERSION = re.compile(r"(\d{1,3})(?:\.(\d{1,3})(?:\.\d{1,4})*)?")
_MAJOR = re.compile(r"\d{1,3}")


def parse_count(value: int | str) -> int:
    """A number of GPUs. Raises Invalid."""
    digits = str(value).strip()
    if isinstance(value, bool) or not digits.isascii() or not digits.isdecimal():
        raise Invalid(f"{printable(str(value))!r}: write a number of GPUs, for example 1")
    # A number of very many digits costs much to read.
    count = int(digits.lstrip("0")[:9] or "0")
    if count > MOST_GPUS:
        raise Invalid(f"{printable(digits[:20])}: is more than {MOST_GPUS} GPUs")
    return count


def parse_memory(value: int | str) -> int:
    """Bytes of memory of each GPU. Raises Invalid for a size without a unit, too."""
    bytes_ = parse_size(value)
    if 0 < bytes_ < _LEAST_MEMORY or not 0 <= bytes_ < _MOST_MEMORY:
        raise Invalid(
            f"{printable(str(value))!r}: is {bytes_} bytes, which no GPU has; write a unit, for "
            "example 16GiB"
        )
    return bytes_


def parse_kinds(value: str | Iterable[str]) -> tuple[str, ...]:
    """Kinds of GPUs in the form of the API, in order and each once; a text has commas or blanks
    between them. Raises Invalid.
    """
    texts = [value] if isinstance(value, str) else [*value]
    if not all(isinstance(entry, str) for entry in texts):
        raise Invalid("write texts, for example '8.0' or 'ampere'")
    words = [word for entry in texts for word in re.split(r"[,\s]+", entry) if word]
    if not words and texts:
        raise Invalid("is empty; write a kind of GPUs, for example 8.0, ampere or gfx90a")
    if len(words) > _MOST_KINDS:
        raise Invalid(f"names more than {_MOST_KINDS} kinds of GPUs")
    return tuple(sorted({_kind(word) for word in words}))


def parse_version(value: str | float) -> str:
    """A version of CUDA in the form of the API, of two numbers. Raises Invalid."""
    match = _VERSION.fullmatch(str(value).strip())
    if match is None:
        raise Invalid(f"{printable(str(value))!r}: write a version of CUDA, for example 12.4")
    return f"{int(match[1])}.{int(match[2] or 0)}"


def gpu_constraint(
    count: int | None = None,
    *,
    memory: int = 0,
    kinds: Sequence[str] = (),
    version: str = "",
    stack: str = "",
) -> JsonObject | None:
    """The `gpu` of runtime constraints; None without GPUs. `count` is None where only other words
    were given, `memory` is bytes of each, `version` the least one that the driver supports.

    `stack` is that of a word besides, such as a version of CUDA; "" for that of the kinds. Raises
    Invalid for words that contradict each other.
    """
    needs_some = bool(memory or kinds or version)
    if count == 0 and needs_some:
        raise Invalid("0 GPUs have no memory, kind or version; ask for 1 or leave these out")
    if not count and not needs_some:
        return None
    stacks = {stack, *map(_stack_of, kinds)} - {""}
    if len(stacks) > 1:
        raise Invalid(
            f"{', '.join(filter(None, [*kinds, stack]))}: one container has GPUs of one "
            "maker; leave out those of the others"
        )
    targets: list[Json] = [kind for kind in kinds if kind not in _MAKERS]
    return {
        "stack": next(iter(stacks), CUDA),
        "device_count": count or 1,
        _DRIVER: version or NO_VERSION,
        "hardware_target": targets,
        "vram": memory,
    }


def described(constraints: Mapping[str, object]) -> str:
    """The GPUs that runtime constraints ask for, in words: "2 GPUs (ampere, 16.0 GiB each)"; ""
    without any.
    """
    gpu = constraints.get("gpu")
    count = gpu.get("device_count") if isinstance(gpu, Mapping) else None
    if not isinstance(gpu, Mapping) or not isinstance(count, int) or count < 1:
        return ""
    targets = gpu.get("hardware_target")
    kinds = [*map(str, targets)] if isinstance(targets, list) else []
    memory, version = gpu.get("vram"), gpu.get(_DRIVER)
    return in_words(
        count,
        memory=memory if isinstance(memory, int) else 0,
        kinds=kinds,
        version=str(version or ""),
        stack=str(gpu.get("stack") or default_stack(kinds)),
    )


def in_words(
    count: int, *, memory: int = 0, kinds: Sequence[str] = (), version: str = "", stack: str = CUDA
) -> str:
    """GPUs in words: "2 GPUs (ampere, 16.0 GiB each)"; `memory` is bytes of each."""
    properties = [
        " or ".join(kinds),
        f"{size(memory)}{'' if count == 1 else ' each'}" if memory else "",
        "" if version in ("", NO_VERSION) else f"{STACKS.get(stack, stack)} {version}",
    ]
    more = ", ".join(filter(None, properties))
    maker = "" if kinds else {ROCM: "AMD ", ONEAPI: "Intel "}.get(stack, "")
    return f"{count} {maker}{'GPU' if count == 1 else 'GPUs'}{f' ({more})' if more else ''}"


def _kind(word: str) -> str:
    if len(word) > _LONGEST_KIND or not word.isprintable():
        raise Invalid(f"{printable(word[:_LONGEST_KIND])!r}: is no kind of GPUs")
    small = word.casefold()
    if (match := _SHADER.fullmatch(small)) is not None:
        return f"{int(match[1])}.{match[2]}"
    if _MAJOR.fullmatch(word):
        return f"{int(word)}.0"
    if (version := capability(word)) is not None:
        return f"{version[0]}.{version[1]}"
    return small if small in NVIDIA_ARCHITECTURES or small in _MAKERS or is_amd(small) else word


def _stack_of(kind: str) -> str:
    """The stack that a kind certainly has, "" for a word that only machines know."""
    if kind in _MAKERS:
        return _MAKERS[kind]
    if is_amd(kind):
        return ROCM
    if kind in NVIDIA_ARCHITECTURES or capability(kind) is not None:
        return CUDA
    return read_model(kind).stack
