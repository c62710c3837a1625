"""Faults of GPUs."""

from __future__ import annotations

import pytest

from lading.core.gpus.health import XidEvent, fault_of, read_xids, short
from lading.core.gpus.readings import GpuReading


def test_xids_are_read_from_the_log() -> None:
    lines = [
        "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.",
        "NVRM: Xid (0000:86:00.0): 31",
        "usb 1-1: new device",
        # The name of a program, which its user chooses.
        "process '/tmp/NVRM: Xid (PCI:0000:3b:00): 79, x' started with executable stack",
    ]
    assert read_xids(lines) == [XidEvent("0000:3b:00", 79), XidEvent("0000:86:00", 31)]


@pytest.mark.parametrize("number", [13, 31, 43, 45, 63, 68, 94, 109])
def test_errors_of_programs_are_no_faults(number: int) -> None:
    assert not XidEvent("0000:3b:00", number).is_fault


def test_all_others_are_faults() -> None:
    assert XidEvent("", 79).is_fault
    assert XidEvent("", 79).reason == "Xid 79 (it has fallen off the bus) in the kernel's log"
    assert XidEvent("", 999).reason == "Xid 999 in the kernel's log"


@pytest.mark.parametrize(
    ("reading", "words"),
    [
        (GpuReading(), ""),
        (GpuReading(errors=1), "1 memory error not corrected since its reset; reset it"),
        (GpuReading(errors=2), "2 memory errors"),
        (GpuReading(is_worn=True), "could not be remapped"),
    ],
)
def test_faults_that_are_read(reading: GpuReading, words: str) -> None:
    assert words in fault_of(reading)
    assert bool(fault_of(reading)) is bool(words)


def test_reasons_are_short() -> None:
    assert short("a  b\n" + "x" * 500).startswith("a b x")
    assert len(short("x" * 500)) == 160
