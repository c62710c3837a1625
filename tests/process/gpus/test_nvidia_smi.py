"""`nvidia-smi` with a bound of time."""

from __future__ import annotations

import time
from pathlib import Path

from lading.process.gpus import nvidia_smi
from lading.testing.gpu_machines import reading, write_readings


def write_program(root: Path, text: str) -> Path:
    path = root / "usr/bin/nvidia-smi"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_gpus_are_asked(tmp_path: Path) -> None:
    write_readings(tmp_path, [reading(0), reading(1, errors=3)])
    first, second = nvidia_smi.query_gpus(tmp_path)
    assert (first.bus, first.busy, second.errors) == ("0000:00:00", 0.5, 3)
    assert nvidia_smi.query_cuda_version(tmp_path) == "12.4"


def test_an_older_driver_is_asked_for_less(tmp_path: Path) -> None:
    write_program(
        tmp_path,
        'case $1 in *compute_cap*) echo "Field \\"compute_cap\\" is not valid"; exit 2;; esac\n'
        "echo 00000000:00:00.0, GPU-1, Tesla V100, 16160, 0, 7",
    )
    [only] = nvidia_smi.query_gpus(tmp_path)
    assert (only.model, only.busy, only.capability) == ("Tesla V100", 0.07, "")


def test_without_the_program_nothing_is_known(tmp_path: Path) -> None:
    assert nvidia_smi.query_gpus(tmp_path) == ()
    assert nvidia_smi.query_cuda_version(tmp_path) == ""
    path = write_program(tmp_path, "echo 1")
    assert nvidia_smi.find_program(tmp_path) == path
    assert nvidia_smi.query_gpus(tmp_path) == ()
    path.chmod(0o777)
    assert nvidia_smi.find_program(tmp_path) is None
    path.chmod(0o644)
    assert nvidia_smi.query_gpus(tmp_path) == ()


def test_a_program_that_hangs_stops_nobody(tmp_path: Path) -> None:
    write_program(tmp_path, "exec sleep 60")
    before = time.monotonic()
    assert nvidia_smi.query_gpus(tmp_path, timeout=0.1) == ()
    assert time.monotonic() - before < 10
    # Once it has ended, another one is asked again.
    write_readings(tmp_path, [reading(0)])
    while not nvidia_smi.query_gpus(tmp_path):
        assert time.monotonic() - before < 60


def test_a_program_that_prints_without_end_is_stopped(tmp_path: Path) -> None:
    write_program(tmp_path, "exec yes")
    before = time.monotonic()
    assert nvidia_smi.query_gpus(tmp_path, timeout=60) == ()
    assert time.monotonic() - before < 30
