"""Whether a GPU works: faults by its readings and by the kernel's log.

The driver of NVIDIA reports errors as *Xid* with a number in the kernel's log. Some of them are of
the program that uses the GPU, and say nothing about the GPU: an exception of the program, a page
fault, a preemption, or an error of memory that was contained. Every other one takes the GPU out of
service.

A GPU with memory errors that were not corrected is out of service until it reads healthy again: a
reset of the GPU sets its counters back. One with an Xid is out of service until an admin says that
it works, or the machine was started again: nothing that can be read tells that it does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from lading.core.gpus.readings import GpuReading, read_bus

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{7,16})\): (\d{1,4})(?:, (.*))?")
_OF_PROGRAMS: Final = frozenset({13, 31, 43, 45, 63, 68, 94, 109})
"""Exception of a program, page fault, end of a program, preemption, memory remapped, exception of
the video processor, contained error of memory, timeout of a context.
"""
_KNOWN: Final = {
    48: "memory error of two bits", 62: "halt of a microcontroller", 64: "memory not remapped",
    74: "error of NVLink", 79: "it has fallen off the bus", 92: "many memory errors",
    95: "memory error not contained", 119: "no answer of its firmware",
    120: "error of its firmware", 140: "memory error not recovered", 143: "link not trained",
}  # fmt: skip
_LONGEST: Final = 160


class XidEvent(msgspec.Struct, frozen=True):
    """An Xid in the kernel's log: the PCI address of the GPU, and the number."""

    bus: str
    number: int

    @property
    def is_fault(self) -> bool:
        """Whether it takes the GPU out of service."""
        return self.number not in _OF_PROGRAMS

    @property
    def reason(self) -> str:
        """It in words."""
        words = _KNOWN.get(self.number)
        return f"Xid {self.number}{f' ({words})' if words else ''} in the kernel's log"


def read_xids(lines: Iterable[str]) -> list[XidEvent]:
    """The Xids in lines of the kernel's log, in order."""
    # At the beginning: within lines of others stand names that users choose.
    matches = filter(None, map(_XID.match, lines))
    return [XidEvent(read_bus(match[1]), int(match[2])) for match in matches]


def fault_of(reading: GpuReading) -> str:
    """Reason why a GPU with these readings cannot be used, in words, or ""."""
    if reading.errors:
        errors = "memory error" if reading.errors == 1 else "memory errors"
        return f"{reading.errors} {errors} not corrected since its reset; reset it"
    if reading.is_worn:
        return "bad memory that could not be remapped; have it replaced"
    return ""


def short(reason: str) -> str:
    """A reason that fits in a report."""
    return " ".join(reason.split())[:_LONGEST]
