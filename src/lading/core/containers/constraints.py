"""Runtime constraints and scheduling parameters of requests: defaults, checks, comparison.

- Both are stored with every key, zero where the client gave none (docs/spec/containers).
- `ram` and `vcpus` must be positive when the request is committed.
- Capabilities: `API` gives access to the API and a token for it; `internet` true gives access to
  the internet, false promises that there is no network, absent leaves it open. Others have a name,
  such as `clock`, and true (it must be there), false (it must not), a value, or a range of numbers:
  machines offer them (`core.capabilities`), and a container that none can run waits.
- The legacy `cuda` is kept and also written as `gpu`.
- Caches do not change a result: containers with other cache sizes are acceptable.

`Policy` is the configuration for decisions on records (`Containers.*`, `StorageClasses`), as one
value: the server makes it at start, since `core` cannot read the configuration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

import msgspec
from msgspec import field

from lading.core import capabilities as capability_rules
from lading.core.containers.attempts import spot
from lading.core.containers.attempts.retry_rules import RetryRules, read_rules
from lading.core.containers.constraint_ranges import RANGED, common_range, is_range, lowest
from lading.core.containers.disk_space import ScratchLimits
from lading.core.errors import Failure, Invalid
from lading.core.hpc.gang import KEYS as GANG_KEYS
from lading.core.hpc.gang import read_gang
from lading.core.values import Json, JsonObject, integer, ordered_object, printable

# Larger than any number of retries.
NO_LIMIT = 1 << 30
RETRY_LIMITS: Mapping[Failure, int] = MappingProxyType(
    {
        Failure.USER: 0,
        Failure.OOM: 0,
        Failure.DISK: 1,
        Failure.IMAGE: 0,
        Failure.INPUT: 0,
        Failure.NODE: NO_LIMIT,
        Failure.PREEMPTED: NO_LIMIT,
        Failure.TIMEOUT: 0,
        Failure.INFRASTRUCTURE: NO_LIMIT,
    }
)
"""Retries for a failure of each class. `container_count_max` of the request bounds them in
addition.
"""

GIB = 1 << 30
# Bounds of the automatic disk cache.
CACHE_MIN, CACHE_MAX = 2 * GIB, 32 * GIB
RUNNER = "arvados-cwl-runner"
KEEP_ON_FAILURE = "keep_on_failure"
RETRY = "retry"
"""Scheduling parameter of a request: its rules for retries. Its container does not have it."""
MOST_KEPT = 7 * 86400
"""Seconds for which a failed container may be kept, at most."""
_NO_GPU: Mapping[str, Json] = MappingProxyType(
    {"device_count": 0, "driver_version": "", "hardware_target": [], "stack": "", "vram": 0}
)
_NO_CUDA: Mapping[str, Json] = MappingProxyType(
    {"device_count": 0, "driver_version": "", "hardware_capability": ""}
)
_CAPABILITIES = ("API", "internet")
# Versions of CUDA, for example 11.4.
_DOTTED = re.compile(r"\d+\.\d+")
# Sizes must fit into a signed 64-bit integer of the database.
_TOO_BIG = 1 << 63
_STACKS = (None, "", "cuda", "rocm", "oneapi")
_MOST_PARTITIONS = 200
# Characters: all names together fit into an argument of a program, which has at most 128 KiB.
_LONGEST_PARTITION = 100


class Learning(StrEnum):
    """Use of the amounts that earlier containers of a tool needed (`Containers.LearnResources`)."""

    OFF = "off"
    SUGGEST = "suggest"
    APPLY = "apply"


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration for decisions about requests and containers.

    `spot_attempts`: number of preemptible machines that a request may lose before it gets others, 0
    for no limit. `storage_classes` are the configured names, `default_storage_classes` those marked
    Default. `preemptible`: whether an instance type is preemptible, `always_preemptible`
    whether requests made by a container run on preemptible machines in any case. `image_formats` is
    Containers.SupportedDockerImageFormats. `output_retention`: seconds after which an output
    without a name is trashed, 0 for never. `retry_limits` are the numbers of retries where no rule
    names one; `retry_rules` are those of the configuration. `scratch`: the disk that a container
    may fill. `learning`: what is done with the amounts that later attempts needed.
    """

    max_dispatch_attempts: int = 10
    max_retry_attempts: int = 3
    default_keep_cache_ram: int = 0
    storage_classes: tuple[str, ...] = ("default",)
    default_storage_classes: tuple[str, ...] = ("default",)
    preemptible: bool = False
    always_preemptible: bool = False
    spot_attempts: int = 0
    image_formats: tuple[str, ...] = ("v2",)
    reuse_after_shell: bool = False
    output_retention: int = 0
    retry_limits: Mapping[Failure, int] = field(default_factory=lambda: RETRY_LIMITS)
    retry_rules: RetryRules = field(default_factory=dict)
    scratch: ScratchLimits = ScratchLimits()
    learning: Learning = Learning.OFF


"""The command that runs workflows: its containers are supervisors of others."""


def fill(constraints: Mapping[str, Json]) -> JsonObject:
    """Runtime constraints with every key; `cuda` with devices also gives `gpu`."""
    filled: JsonObject = {
        "API": False,
        "keep_cache_disk": 0,
        "keep_cache_ram": 0,
        "ram": 0,
        "vcpus": 0,
    }
    filled.update((key, value) for key, value in constraints.items() if value is not None)
    filled.update((key, _whole(filled[key])) for key in RANGED)
    gpu, cuda = filled.get("gpu", {}), filled.get("cuda")
    if isinstance(cuda, dict):
        filled["cuda"] = cuda = {**_NO_CUDA, **cuda}
    if isinstance(gpu, dict):
        filled["gpu"] = gpu = {**_NO_GPU, **gpu}
        if isinstance(cuda, dict) and _devices(cuda) and not _devices(gpu):
            filled["gpu"] = _from_cuda(cuda)
    return filled


def check(constraints: Mapping[str, Json], *, committed: bool) -> None:
    """Check filled constraints; `ram` and `vcpus` must be positive once `committed`. Raises Invalid
    naming the key.
    """
    named = capabilities(constraints)
    if named:
        capability_rules.check(named)
    for key in _CAPABILITIES:
        if not isinstance(constraints.get(key, False), bool):
            raise Invalid(f"Runtime constraints [{key}]: must be true or false")
    if constraints["API"] and not constraints.get("internet", True):
        raise Invalid(
            "Runtime constraints [internet]: cannot be false with API, "
            "which is reached over the network"
        )
    for key in RANGED:
        _check_size(
            key,
            constraints[key],
            least=1 if committed and key in ("ram", "vcpus") else 0,
            ranged=True,
        )
    _check_gpu(constraints["gpu"])
    if "cuda" in constraints:
        _check_cuda(constraints["cuda"])


def capabilities(constraints: Mapping[str, Json]) -> JsonObject:
    """The constraints that only name a capability of a machine."""
    own = {*RANGED, *_CAPABILITIES, "gpu", "cuda"}
    return {name: value for name, value in constraints.items() if name not in own}


def resolve(constraints: Mapping[str, Json], *, policy: Policy) -> JsonObject:
    """The constraints of a container from checked ones: caches chosen, keys sorted.

    Of a range the minimum is taken; `growth` tells the possible increase.
    """
    # Few requests name a range.
    has_range = any(isinstance(constraints.get(name), list) for name in RANGED)
    chosen = lowest(constraints) if has_range else dict(constraints)
    chosen["keep_cache_ram"] = chosen["keep_cache_ram"] or policy.default_keep_cache_ram
    if not chosen["keep_cache_ram"] and not chosen["keep_cache_disk"]:
        chosen["keep_cache_disk"] = _disk_cache(chosen["ram"])
    return ordered_object(chosen)


def essential(constraints: Mapping[str, Json]) -> JsonObject:
    """The part of resolved constraints that must be equal for reuse: no cache sizes, `cuda` as
    `gpu`, no empty `gpu`.

    `internet` is kept when it is true: false and absent mean the same.
    """
    compared = {
        key: value for key, value in constraints.items() if not key.startswith("keep_cache_")
    }
    gpu, cuda = compared.pop("gpu", None), compared.pop("cuda", None)
    if not compared.get("internet"):
        compared.pop("internet", None)
    if not _devices(gpu) and isinstance(cuda, dict) and _devices(cuda):
        gpu = _from_cuda(cuda)
    if _devices(gpu):
        compared["gpu"] = gpu
    return ordered_object(compared)


def has_network(constraints: Mapping[str, Json]) -> bool:
    """Whether a container with these constraints has more network than its own loopback
    interface.
    """
    return constraints.get("API") is True or has_internet(constraints)


def has_internet(constraints: Mapping[str, Json], *, with_api: bool = False) -> bool:
    """Whether it has access to the internet. `with_api`: containers with API access have it too."""
    return constraints.get("internet") is True or (with_api and constraints.get("API") is True)


def cache_difference(
    ours: Mapping[str, Json], theirs: Mapping[str, Json], *, policy: Policy
) -> str | None:
    """The cache key whose size in `theirs` is not acceptable in place of `ours`, or None.

    A range in `ours` accepts every size within it. An absent `keep_cache_disk` is acceptable, an
    absent `keep_cache_ram` is not.
    """
    for key in ("keep_cache_disk", "keep_cache_ram"):
        if is_range(ours.get(key)) and common_range(ours[key], theirs.get(key)) is None:
            return key
    ours = {key: theirs.get(key) if is_range(value) else value for key, value in ours.items()}
    # The sizes that Arvados may have stored for the same request, or for one with another ram.
    disk = (
        None,
        0,
        _disk_cache(ours.get("ram")),
        _disk_cache(theirs.get("ram")),
        CACHE_MIN,
        CACHE_MAX,
        ours.get("keep_cache_disk"),
    )
    if theirs.get("keep_cache_disk") not in disk:
        return "keep_cache_disk"
    ram = (0, policy.default_keep_cache_ram, ours.get("keep_cache_ram"))
    if theirs.get("keep_cache_ram") is None or theirs["keep_cache_ram"] not in ram:
        return "keep_cache_ram"
    return None


def fill_scheduling(parameters: Mapping[str, Json]) -> JsonObject:
    """Scheduling parameters with every key."""
    filled: JsonObject = {
        "max_run_time": 0,
        "partitions": [],
        "preemptible": False,
        "supervisor": False,
    }
    filled.update((key, value) for key, value in parameters.items() if value is not None)
    filled["max_run_time"] = _whole(filled["max_run_time"])
    return spot.filled(filled) if filled[spot.PREEMPTIBLE] == spot.PREFER else filled


def check_scheduling(parameters: Mapping[str, Json], *, committing: bool, policy: Policy) -> None:
    """Check filled parameters. Raises Invalid naming the key, or for preemptible at commit when no
    instance type is preemptible.
    """
    known = {"max_run_time", "partitions", "preemptible", "supervisor", KEEP_ON_FAILURE}
    known |= {RETRY, *GANG_KEYS, *spot.KEYS}
    unexpected = sorted(parameters.keys() - known)
    if unexpected:
        raise Invalid(
            f"Scheduling parameters contains unexpected keys [{printable(', '.join(unexpected))}]"
        )
    if not isinstance(parameters["supervisor"], bool):
        raise Invalid("Scheduling parameters [supervisor]: must be true or false")
    if parameters[spot.PREEMPTIBLE] is not False or not parameters.keys().isdisjoint(spot.KEYS):
        _check_preemptible(parameters, committing=committing, policy=policy)
    _check_times(parameters)
    _check_partitions(parameters["partitions"])
    if not parameters.keys().isdisjoint(GANG_KEYS):
        read_gang(parameters)
    if parameters.get(RETRY) is not None:
        read_rules(f"Scheduling parameters [{RETRY}]", parameters[RETRY])


def _check_preemptible(parameters: Mapping[str, Json], *, committing: bool, policy: Policy) -> None:
    spot.check(parameters)
    # A request that prefers preemptible machines runs on ordinary ones where there are no others.
    needed = spot.preemption(parameters) is spot.Preemption.ONLY
    if committing and needed and not policy.preemptible:
        raise Invalid(
            "Scheduling parameters preemptible instances are not configured in InstanceTypes"
        )


def _check_partitions(names: Json) -> None:
    """The names become an argument of other people's programs, joined by commas."""
    if not isinstance(names, list) or not _are_strings(names):
        raise Invalid("Scheduling parameters [partitions]: must be an array of strings")
    if len(names) > _MOST_PARTITIONS:
        raise Invalid(f"Scheduling parameters [partitions]: has more than {_MOST_PARTITIONS} names")
    for name in map(str, names):
        if name != name.strip() or not 0 < len(name) <= _LONGEST_PARTITION:
            raise Invalid(
                f"Scheduling parameters [partitions]: a name has 1 to {_LONGEST_PARTITION} "
                "characters, without blanks around it"
            )
        if "," in name or not name.isprintable():
            raise Invalid(
                f"Scheduling parameters [partitions]: {printable(name)!r} has a comma, or a "
                "character that cannot be printed"
            )


def _check_times(parameters: Mapping[str, Json]) -> None:
    if not _is_size(parameters["max_run_time"], least=0):
        raise Invalid(
            "Scheduling parameters [max_run_time]: must be an integer of seconds, 0 or more, "
            "at most 2^63 - 1"
        )
    kept = parameters.get(KEEP_ON_FAILURE, 0)
    if not _is_size(kept, least=0) or (integer(kept) or 0) > MOST_KEPT:
        raise Invalid(
            f"Scheduling parameters [{KEEP_ON_FAILURE}]: "
            f"must be an integer of seconds, {MOST_KEPT} at most"
        )


def merge_scheduling(several: Sequence[Mapping[str, Json]]) -> JsonObject:
    """The parameters of one retry for several requests: the most permissive of each."""
    filled = [fill_scheduling(parameters) for parameters in several]
    # Requests of one container agree on its gang: it is part of the recipe.
    merged = {key: several[0][key] for key in GANG_KEYS if key in several[0]}
    seconds = max(integer(parameters.get(KEEP_ON_FAILURE)) or 0 for parameters in filled)
    if seconds:
        merged[KEEP_ON_FAILURE] = seconds
    return merged | {
        "max_run_time": _longest(filled),
        "partitions": _all_partitions(filled),
        "supervisor": any(parameters["supervisor"] for parameters in filled),
        **spot.merged(filled),
    }


def _longest(filled: Sequence[JsonObject]) -> int:
    times = [time for parameters in filled if isinstance(time := parameters["max_run_time"], int)]
    # 0 is no limit: it wins.
    return 0 if 0 in times else max(times)


def _all_partitions(filled: Sequence[JsonObject]) -> list[Json]:
    partitions = [
        names for parameters in filled if isinstance(names := parameters["partitions"], list)
    ]
    # An empty list means all partitions: it wins.
    if not all(partitions):
        return []
    return list(dict.fromkeys(name for names in partitions for name in names))


def _whole(value: Json) -> Json:
    """Integers written as 3.0, in ranges too: JSON has one kind of number. Other values are left
    for the check.
    """
    if isinstance(value, list):
        return [
            integer(item) if isinstance(item, float) and item.is_integer() else item
            for item in value
        ]
    return integer(value) if isinstance(value, float) and value.is_integer() else value


def _is_size(value: Json, *, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < _TOO_BIG


def _are_strings(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _check_size(key: str, value: Json, *, least: int, ranged: bool = False) -> None:
    if ranged and isinstance(value, list):
        if (
            not is_range(value)
            or not _is_size(value[0], least=least)
            or not _is_size(value[1], least=least)
        ):
            raise Invalid(
                f"Runtime constraints [{key}]={printable(repr(value))} must be a range"
                f" [min, max] of integers, {least} or more, min not above max"
            )
        return
    if not _is_size(value, least=least):
        kind = "a positive integer" if least else "an integer, 0 or more"
        raise Invalid(
            f"Runtime constraints [{key}]={printable(repr(value))} must be {kind}, at most 2^63 - 1"
        )


def _check_gpu(gpu: Json) -> None:
    if not isinstance(gpu, dict):
        raise Invalid("Runtime constraints [gpu]: must be an object")
    _check_keys("gpu", gpu, _NO_GPU)
    for key in ("device_count", "vram"):
        _check_size(f"gpu.{key}", gpu[key], least=0)
    if gpu["stack"] not in _STACKS:
        raise Invalid("Runtime constraints [gpu.stack]: must be cuda, rocm or oneapi")
    if _devices(gpu):
        _check_dotted("gpu.driver_version", gpu["driver_version"])
        if not _are_strings(gpu["hardware_target"]):
            raise Invalid("Runtime constraints [gpu.hardware_target]: must be an array of strings")


def _check_cuda(cuda: Json) -> None:
    if not isinstance(cuda, dict):
        raise Invalid("Runtime constraints [cuda]: must be an object")
    _check_keys("cuda", cuda, _NO_CUDA)
    _check_size("cuda.device_count", cuda["device_count"], least=0)
    if _devices(cuda):
        _check_dotted("cuda.driver_version", cuda["driver_version"])
        _check_dotted("cuda.hardware_capability", cuda["hardware_capability"])


def _check_keys(name: str, values: Mapping[str, Json], allowed: Mapping[str, Json]) -> None:
    unexpected = sorted(values.keys() - allowed.keys())
    if unexpected:
        raise Invalid(
            f"Runtime constraints [{name}] contains unexpected keys "
            f"[{printable(', '.join(unexpected))}]"
        )


def _check_dotted(name: str, value: Json) -> None:
    if not isinstance(value, str) or _DOTTED.fullmatch(value) is None:
        raise Invalid(
            f"Runtime constraints [{name}]={printable(repr(value))} must be a version such as 11.4"
        )


def _devices(gpu: Json) -> bool:
    return isinstance(gpu, dict) and gpu.get("device_count", 0) not in (0, None)


def _from_cuda(cuda: Mapping[str, Json]) -> JsonObject:
    return {
        "device_count": cuda["device_count"],
        "driver_version": cuda["driver_version"],
        "hardware_target": [cuda["hardware_capability"]],
        "stack": "cuda",
        "vram": 0,
    }


def _disk_cache(ram: Json) -> int:
    return min(max(integer(ram) or 0, CACHE_MIN), CACHE_MAX)
