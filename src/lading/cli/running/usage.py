"""Memory and processor time that a command used, beside its request, with a suggestion.

The suggestion is made where the two are far apart. The container's attribute `usage` has the
amounts, from its end on. A container may write its own end, so its values are checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lading.cli import display
from lading.core.quantities import parse_time

if TYPE_CHECKING:
    from lading.client.api import Record

_FAR = 0.5
"""Part of the memory asked for below which less is suggested."""
_SPARE = 1.25
"""Room above the peak in suggested amounts."""
_LEAST = 64 << 20
"""Bytes that are suggested at least."""
_USUAL = 256 << 20
"""Bytes; requests of the default or less are not worth a word."""
_LONG = 5.0
"""Seconds; the processor time of shorter commands is no measure."""


def memory_of(container: Mapping[str, Any]) -> float | None:
    """Bytes of memory at most; None if not known."""
    return _amount(container, "memory")


def cpu_of(container: Mapping[str, Any]) -> float | None:
    """Seconds of processor time; None if not known."""
    return _amount(container, "cpu")


def shown_memory(container: Record) -> str:
    """For example `12% of 4.0 GiB`."""
    memory, asked = memory_of(container), _asked(container, "ram")
    if memory is None or not asked:
        return ""
    return f"{100 * memory / asked:.0f}% of {display.size(asked)}"


def shown_cpu(container: Record) -> str:
    """For example `98% of 4`: processor time beside the time of so many processors."""
    busy, asked = _busy(container), _asked(container, "vcpus")
    return f"{100 * busy / asked:.0f}% of {asked}" if busy is not None and asked else ""


def describe(container: Record) -> list[tuple[str, str]]:
    """Names and values for `lading request show`."""
    memory, cpu, busy = memory_of(container), cpu_of(container), _busy(container)
    ram, vcpus = _asked(container, "ram"), _asked(container, "vcpus")
    pairs = []
    if memory is not None and ram:
        less = f"{shown_memory(container)}{_less_memory(memory, ram)}"
        pairs.append(("memory", f"{display.size(memory)} at most, {less}"))
    if cpu is not None:
        of = f", {100 * busy / vcpus:.0f}% of {vcpus} vcpus" if busy is not None and vcpus else ""
        pairs.append(("cpu", f"{display.duration(cpu)}{of}{_fewer(container, busy, vcpus)}"))
    gpus, gpu_memory = _amount(container, "gpu"), _amount(container, "gpu_memory")
    if gpus is not None or gpu_memory:
        words = [] if gpus is None else [f"{100 * gpus / _gpu_count(container):.0f}% busy"]
        words += [f"{display.size(gpu_memory)} of memory at most"] if gpu_memory else []
        pairs.append(("gpus", ", ".join(words)))
    return pairs


def _gpu_count(container: Record) -> int:
    gpu = (container.get("runtime_constraints") or {}).get("gpu")
    count = gpu.get("device_count") if isinstance(gpu, dict) else None
    return count if isinstance(count, int) and count > 0 else 1


def _less_memory(memory: float, ram: int) -> str:
    if ram <= _USUAL or memory >= _FAR * ram:
        return ""
    enough = -(-round(max(memory * _SPARE, _LEAST)) // (1 << 20))
    return f"; --ram {enough}MiB would do"


def _fewer(container: Record, busy: float | None, vcpus: int) -> str:
    """A suggestion for a command that kept less than half of its processors busy."""
    if busy is None or vcpus < 2 or _seconds(container) < _LONG or busy >= _FAR * vcpus:
        return ""
    return f"; --vcpus {max(1, -(-round(100 * busy) // 100))} would do"


def _busy(container: Record) -> float | None:
    """Processors that were busy on average; None if not known."""
    cpu, seconds = cpu_of(container), _seconds(container)
    return cpu / seconds if cpu is not None and seconds > 0 else None


def _seconds(container: Record) -> float:
    if not (container.get("started_at") and container.get("finished_at")):
        return 0.0
    end, start = parse_time(container["finished_at"]), parse_time(container["started_at"])
    return (end - start).total_seconds()


def _asked(container: Record, name: str) -> int:
    value = (container.get("runtime_constraints") or {}).get(name)
    return value if isinstance(value, int) else 0


def _amount(container: Mapping[str, Any], name: str) -> float | None:
    value = (container.get("usage") or {}).get(name)
    return float(value) if isinstance(value, int | float) and value >= 0 else None
