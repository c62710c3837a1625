"""Selects machines that suit a container: instance types of a cloud.

Instance types (docs/spec/cloud, section Instance types):

- A container needs the RAM of its supervisor beside its own. A VM counts for five per cent less RAM
  than its type says, as its kernel keeps some.
- A type that is preemptible runs only containers that ask for that, and they run only on such
  types.
- A type with GPUs runs only containers that need GPUs of its maker; there must be enough of them,
  each with enough memory, a driver as new as requested, and a requested capability or
  architecture (`core.gpu_architectures`). A request that names none of these takes any; the
  driver 0.0 is as old as one can be.
- Of the types that can hold a container those are eligible that cost at most `price_factor` times
  the cheapest one, in the order of price, then larger ones first.
- A gang that no type can hold is spread over several VMs of one type, each with as many ranks as
  fit; the price is that of all of them, and of equal prices that with fewer VMs comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import structs

from lading.core.containers.gpu_words import STACKS
from lading.core.errors import Invalid
from lading.core.gpu_architectures import default_stack, suits
from lading.core.resources import Resources, format_bytes

# The kernel of a VM keeps a twentieth of the RAM of its type.
_KEPT = 20
_PREEMPTIBLE = ".preemptible"
SHARED = "shared"
"""The kind of GPUs that several containers use at a time."""


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs of an instance type, or required GPUs of a container; `vram` is bytes of each."""

    stack: str = ""
    count: int = 0
    driver: str = ""
    targets: tuple[str, ...] = ()
    vram: int = 0


NO_GPU = Gpu()


class InstanceType(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of VM: `name` is ours, `provider_type` the cloud's.

    `price` is dollars an hour, `added` scratch disk that has to be asked for (bytes, a part of
    `resources.disk`).
    """

    name: str
    provider_type: str
    resources: Resources
    price: float = 0.0
    preemptible: bool = False
    gpu: Gpu = NO_GPU
    added: int = 0


class ContainerShape(msgspec.Struct, frozen=True, kw_only=True):
    """Requirements that are equal for containers which can take each other's place.

    `nodes` is 1 for a container on one VM. Else it is a gang of so many ranks that is spread over
    several, and `need` is that of one rank.
    """

    need: Resources
    preemptible: bool = False
    gpu: Gpu = NO_GPU
    runs_workflow: bool = False
    nodes: int = 1


def with_preemptible(types: Iterable[InstanceType], factor: float) -> tuple[InstanceType, ...]:
    """The types, and for each that is not preemptible another one that is, at `factor` of its
    price; 0: none.
    """
    listed = tuple(types)
    if factor <= 0:
        return listed
    names = {kind.name for kind in listed}
    more = (
        structs.replace(
            kind, name=kind.name + _PREEMPTIBLE, price=kind.price * factor, preemptible=True
        )
        for kind in listed
        if not kind.preemptible and kind.name + _PREEMPTIBLE not in names
    )
    return (*listed, *more)


def requested_gpus(runtime_constraints: Mapping[str, object]) -> Gpu:
    """The GPUs that the `gpu` constraint asks for. A malformed value counts as absent; without a
    stack it is that of the architectures, else `cuda`.
    """
    asked = runtime_constraints.get("gpu")
    if not isinstance(asked, Mapping) or not _whole(asked.get("device_count")):
        return NO_GPU
    named = asked.get("hardware_target")
    targets = tuple(map(str, named)) if isinstance(named, list) else ()
    return Gpu(
        stack=str(asked.get("stack") or default_stack(targets)),
        count=_whole(asked.get("device_count")),
        driver=str(asked.get("driver_version") or ""),
        targets=targets,
        vram=_whole(asked.get("vram")),
    )


def on_machine(need: Resources, *, extra_ram: int) -> Resources:
    """Amounts of a VM that a container occupies: its need, its supervisor's, and the kernel's
    share.
    """
    return Resources(
        need.vcpus, (need.ram + extra_ram) * _KEPT // (_KEPT - 1), need.disk, need.gpus
    )


def eligible(
    shape: ContainerShape,
    types: Iterable[InstanceType],
    *,
    price_factor: float = 1.0,
    most_containers: int = 0,
) -> tuple[InstanceType, ...]:
    """The types for a container, cheapest first; empty when none can hold it. `most_containers` on
    a VM, 0 any.
    """
    able = [
        (machines(shape, kind, most_containers=most_containers), kind)
        for kind in types
        if lack(shape, kind) == ""
    ]
    able.sort(key=lambda pair: (pair[0] * pair[1].price, pair[0], *_by_size(pair[1])))
    most = able[0][0] * able[0][1].price * max(price_factor, 1.0) if able else 0.0
    return tuple(kind for number, kind in able if number * kind.price <= most)


def machines(shape: ContainerShape, kind: InstanceType, *, most_containers: int = 0) -> int:
    """Number of VMs of a type that a container takes; the type can hold one rank of it."""
    if shape.nodes == 1:
        return 1
    there = kind.resources.holds(shape.need)
    return -(-shape.nodes // (min(there, most_containers) if most_containers else there))


def lack(shape: ContainerShape, kind: InstanceType) -> str:
    """Reason that a type does not satisfy a container, in a few words, or ""."""
    if shape.preemptible is not kind.preemptible:
        return "it is preemptible" if kind.preemptible else "it is not preemptible"
    if shape.gpu.count == 0 and kind.gpu.count:
        return "it is for containers that need GPUs"
    if shape.gpu.count:
        return gpu_lack(shape.gpu, kind.gpu) or _size_lack(shape.need, kind)
    return _size_lack(shape.need, kind)


def nearest(shape: ContainerShape, types: Sequence[InstanceType]) -> str:
    """Sentence with the reason that no type satisfies a container, by the nearest type."""
    if not types:
        return "No instance types are configured; add some under InstanceTypes."
    best = min(
        types,
        key=lambda kind: (
            kind.preemptible is not shape.preemptible,
            _short(shape, kind),
            kind.name,
        ),
    )
    what, it = ("it", "it") if shape.nodes == 1 else (f"one of its {shape.nodes} ranks", "each")
    return (
        f"No instance type can hold {what}: {it} needs {shape.need} with what runs beside it; "
        f"the nearest, {best.name}, has {best.resources} ({lack(shape, best)})."
    )


def gpu_lack(asked: Gpu, offered: Gpu) -> str:
    """Reason that the GPUs of a type do not satisfy the requested ones, in words that say what it
    has and what is needed; "" if they do.
    """
    if offered.count < asked.count:
        return _number_lack(asked.count, offered.count)
    if SHARED in offered.targets and (lack_of_sharing := _sharing_lack(asked)):
        return lack_of_sharing
    if asked.stack != offered.stack:
        return f"its GPUs are for {offered.stack or 'no stack'}, and {asked.stack} is needed"
    if offered.vram < asked.vram:
        return (
            f"its GPUs have too little memory: {format_bytes(offered.vram)} each, and "
            f"{format_bytes(asked.vram)} are needed"
        )
    if _version(offered.driver) < _version(asked.driver):
        own = offered.driver or "no version"
        return (
            "its GPU driver is too old: it supports "
            f"{STACKS.get(offered.stack, offered.stack)} {own}, "
            f"and {asked.driver} is needed"
        )
    if not suits(asked.targets, offered.targets):
        own = " and ".join(offered.targets) or "no known one"
        return f"its GPUs are of another kind: {own}, and {' or '.join(asked.targets)} is needed"
    return ""


def _number_lack(asked: int, offered: int) -> str:
    needed = f"{asked} {'is' if asked == 1 else 'are'} needed"
    return f"it has too few GPUs: {offered}, and {needed}" if offered else "it has no GPUs"


def _sharing_lack(asked: Gpu) -> str:
    """Reason that GPUs which several containers use at a time are none for a container, or ""."""
    if SHARED not in asked.targets:
        return f"its GPUs are shared with other containers: ask for the kind {SHARED}"
    return "" if asked.count == 1 else "its GPUs are shared, and each container gets one alone"


def _size_lack(need: Resources, kind: InstanceType) -> str:
    room = kind.resources
    short = [
        name
        for name, mine, available in (
            ("VCPUs", need.vcpus, room.vcpus),
            ("RAM", need.ram, room.ram),
            ("scratch disk", need.disk, room.disk),
            ("GPUs", need.gpus, room.gpus),
        )
        if mine > available
    ]
    return f"it has too little of: {', '.join(short)}" if short else ""


def _short(shape: ContainerShape, kind: InstanceType) -> float:
    return max(0.0, (shape.need - kind.resources).share_of(kind.resources))


def _by_size(kind: InstanceType) -> tuple[int, int, int, str]:
    return -kind.resources.ram, -kind.resources.vcpus, -kind.resources.disk, kind.name


def _version(version: str) -> tuple[int, ...]:
    numbers = [int(number) for number in version.split(".") if number.isdecimal()]
    # 12 is as new as 12.0, and 0.0 as old as no version.
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _whole(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def check_types(types: Sequence[InstanceType]) -> None:
    """Check instance types. Raises Invalid naming the type and the invalid key."""
    for kind in types:
        for name, value in (("VCPUs", kind.resources.vcpus), ("RAM", kind.resources.ram)):
            if value <= 0:
                raise Invalid(
                    f"configuration: InstanceTypes.{kind.name}.{name}: {value}; "
                    "it must be more than 0"
                )
        if kind.price < 0:
            raise Invalid(
                f"configuration: InstanceTypes.{kind.name}.Price: {kind.price:g}; "
                "it must not be negative"
            )
