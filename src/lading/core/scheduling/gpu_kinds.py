"""GPUs of several kinds in one machine: whether they suit a container, and whether some are free.

A machine is described by its kinds of GPUs, each with a number. A container gets GPUs of any kinds
that suit it. Of a container that runs it may not be known which GPUs it has: then it counts as
having those that the next container wants. Unknown properties of GPUs (driver, kind, memory) are
not compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import structs

from lading.core.gpu_architectures import CUDA
from lading.core.gpus.devices import GpuDevice, GpuDevices
from lading.core.scheduling.instance_types import Gpu, gpu_lack

_MOST_REASONS = 2
_MOST_KINDS = 8


class GpuHolder(msgspec.Struct, frozen=True):
    """A container with GPUs: which it asked for, and their number.

    `numbers` has for each kind of the machine how many it has; None where that is not known.
    """

    asked: Gpu
    count: int
    numbers: tuple[int, ...] | None = None


def kinds_of(gpus: GpuDevices, configured: Gpu) -> tuple[Gpu, ...]:
    """The kinds of the GPUs with the number of each, the one with the least memory first.

    `configured` has the properties that are configured: those of GPUs of NVIDIA where the
    machine has GPUs of several makers.
    """
    counts: dict[Gpu, int] = {}
    for gpu in gpus.devices:
        kind = kind_of(gpu, gpus, configured)
        counts[kind] = counts.get(kind, 0) + 1
    kinds = (structs.replace(kind, count=count) for kind, count in counts.items())
    return tuple(sorted(kinds, key=lambda kind: (kind.stack, kind.vram, kind.targets)))


def kind_of(gpu: GpuDevice, gpus: GpuDevices, configured: Gpu) -> Gpu:
    """The kind of one GPU, with 0 as its number; see `kinds_of`."""
    is_mixed = len({device.stack for device in gpus.devices}) > 1
    if is_mixed and gpu.stack != CUDA:
        configured = Gpu()
    # The configured memory is that of whole GPUs.
    return Gpu(
        stack=gpu.stack,
        driver=configured.driver or gpu.driver,
        targets=configured.targets or gpu.kinds,
        vram=gpu.memory if gpu.instance and gpu.memory else configured.vram or gpu.memory,
    )


def unsuited_gpu(asked: Gpu, available: Gpu) -> str:
    """Reason that the GPUs of a machine do not satisfy a container, in a few words, or ""."""
    if not asked.count:
        return ""
    compared = structs.replace(
        asked,
        stack=asked.stack if available.stack else "",
        driver=asked.driver if available.driver else "",
        vram=asked.vram if available.vram else 0,
        targets=asked.targets if available.targets else (),
    )
    return gpu_lack(compared, available)


def unsuited_kinds(asked: Gpu, kinds: Sequence[Gpu]) -> str:
    """Reason that the GPUs of a machine do not satisfy a container, in a few words, or ""."""
    if len(kinds) <= 1:
        return unsuited_gpu(asked, kinds[0] if kinds else Gpu())
    single = structs.replace(asked, count=min(1, asked.count))
    lacks = [unsuited_gpu(single, kind) for kind in kinds]
    count = sum(kind.count for kind, lack in zip(kinds, lacks, strict=True) if not lack)
    if count >= asked.count:
        return ""
    if count:
        needed = f"{asked.count} {'is' if asked.count == 1 else 'are'} needed"
        return f"it has too few GPUs of this kind: {count}, and {needed}"
    return " and ".join([*dict.fromkeys(lacks)][:_MOST_REASONS])


def has_free_gpus(
    asked: Gpu, count: int, kinds: Sequence[Gpu], holders: Iterable[GpuHolder]
) -> bool:
    """Whether `count` GPUs that suit are free beside those of `holders`."""
    suited = suited_kinds(asked, kinds)
    free = {index: kinds[index].count for index in suited}
    unknown: list[tuple[frozenset[int], int]] = []
    for holder in holders:
        if holder.numbers is None:
            unknown.append((suited & suited_kinds(holder.asked, kinds), holder.count))
        else:
            for index in suited:
                free[index] -= holder.numbers[index]
    return sum(free.values()) - _most_taken(unknown, free) >= count


def suited_kinds(asked: Gpu, kinds: Sequence[Gpu]) -> frozenset[int]:
    """The indices of the kinds that suit a container."""
    single = structs.replace(asked, count=min(1, asked.count))
    return frozenset(
        index for index, kind in enumerate(kinds) if kind.count and not unsuited_gpu(single, kind)
    )


def _most_taken(holders: Sequence[tuple[frozenset[int], int]], free: Mapping[int, int]) -> int:
    """The largest number of GPUs that holders can have, each so many of some kinds together.

    It is a largest flow, which equals the smallest cut: some kinds as a whole, and all of the
    holders that can have others.
    """
    indices = sorted(free)
    # Machines have few kinds. Of more each holder counts alone, which is never too few.
    sizes = range(len(indices) + 1) if len(indices) <= _MOST_KINDS else (0,)
    return min(
        sum(free[index] for index in cut)
        + sum(count for shared, count in holders if not shared <= set(cut))
        for size in sizes
        for cut in itertools.combinations(indices, size)
    )
