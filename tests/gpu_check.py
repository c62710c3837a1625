"""`python -m tests.gpu_check`: check GPUs of this machine through a site of its own, and print a
table. On a machine without a GPU it says so and ends.

It needs no tests and no fakes: what it runs are containers on the real devices.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lading.core.containers.gpu_words import in_words
from lading.core.gpu_architectures import CUDA
from lading.core.gpus.devices import GpuDevice, GpuDevices
from lading.core.scheduling.gpu_kinds import kinds_of
from lading.core.scheduling.instance_types import NO_GPU
from lading.process.gpus.inventory import find_machine, read_all
from lading.supervisor.gpu_checks import check_gpus
from tests.system.cluster import Cluster, running_cluster

_ROOT: Final = Path("/")
_CONFIG: Final = "Containers: {{DeviceRoot: {root}}}\n"
_SKIPPED: Final = "skipped: this machine has no GPU: /dev has neither nvidia<n> nor dri/renderD<n>"
_LIST: Final = "ls /dev /dev/dri 2>/dev/null | grep -E '^(nvidia[0-9]+|renderD[0-9]+)$' || true"
# Loads the driver's library as CUDA does, and counts the devices that it offers.
_CUDA: Final = (
    "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); number = ctypes.c_int();"
    "print(cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(number)), number.value)"
)


@dataclass(frozen=True)
class Row:
    """One line of the table: what was checked, whether it is right, and what was seen."""

    check: str
    is_right: bool
    detail: str


def main(root: Path = _ROOT) -> int:
    """Check and print; 0 if all is right or there is no GPU."""
    gpus, readings = find_machine(root)
    if not gpus.devices:
        sys.stdout.write(f"{_SKIPPED}\n")
        return 0
    rows = [
        Row("GPUs", True, ", ".join(gpu.name for gpu in gpus.devices)),
        Row("kinds", True, _kinds(gpus)),
        _timed("readings", lambda: str(len(read_all(root, gpus)))),
    ]
    rows += [
        Row(f"reading of {name}", reading.busy is not None, repr(reading))
        for name, reading in readings.items()
    ]
    verdict = check_gpus(root, is_root=True)
    rows.append(Row("doctor", not verdict.mend, f"{verdict.finding} {verdict.mend}".strip()))
    with tempfile.TemporaryDirectory(prefix="lading-gpus-") as directory:
        config = _CONFIG.format(root=root)
        with running_cluster(Path(directory) / "data", config) as cluster:
            rows += _containers(cluster, gpus)
    width = max(len(row.check) for row in rows)
    for row in rows:
        verdict_word = "ok  " if row.is_right else "FAIL"
        sys.stdout.write(f"{verdict_word}  {row.check:{width}}  {row.detail}\n")
    return 0 if all(row.is_right for row in rows) else 1


def _kinds(gpus: GpuDevices) -> str:
    return " and ".join(
        in_words(
            kind.count,
            memory=kind.vram,
            kinds=kind.targets,
            version=kind.driver,
            stack=kind.stack,
        )
        for kind in kinds_of(gpus, NO_GPU)
    )


def _containers(cluster: Cluster, gpus: GpuDevices) -> Iterator[Row]:
    """What containers with 0, 1 and all GPUs see."""
    python = shutil.which("python3") or "/usr/bin/python3"
    programs = ("sh", "ls", "grep", "sleep", "true", python)
    cluster.lading("image", "add", "--name", "tools:1", "--from-host", *programs)
    for stack in sorted({gpu.stack for gpu in gpus.devices}):
        own = [gpu for gpu in gpus.devices if gpu.stack == stack]
        maker = {"cuda": "nvidia", "rocm": "amd", "oneapi": "intel"}[stack]
        for count in sorted({1, len(own)}):
            yield _seen(cluster, maker, count)
        if stack == CUDA:
            yield _library(cluster, python)
        yield _usage(cluster, maker, own)
    listing = _run(cluster, "sh", "-c", _LIST)
    yield Row("a container without GPUs sees none", not listing, listing)


def _seen(cluster: Cluster, maker: str, count: int) -> Row:
    listing = _run(
        cluster, "--gpus", str(count), "--gpu-type", maker, "--", "sh", "-c", _LIST
    ).split()
    # Instances of one GPU have one device file.
    is_right = 0 < len(listing) <= count
    return Row(f"{count} of {maker}: device files", is_right, " ".join(listing))


def _library(cluster: Cluster, python: str) -> Row:
    answer = _run(cluster, "--gpus", "1", "--", python, "-c", _CUDA)
    return Row("libcuda.so.1 offers the GPU", answer == "0 0 1", answer)


def _usage(cluster: Cluster, maker: str, own: list[GpuDevice]) -> Row:
    _run(cluster, "--gpus", "1", "--gpu-type", maker, "--", "sleep", "5")
    shown = json.loads(cluster.lading("request", "show", "--json", "last").stdout)
    usage = shown["container"]["usage"]
    is_known = any(name.startswith("gpu") for name in usage)
    are_instances = all(gpu.instance for gpu in own)
    return Row(f"use of a GPU of {maker}", is_known or are_instances, repr(usage))


def _run(cluster: Cluster, *arguments: str) -> str:
    done = cluster.lading("run", "--no-reuse", *arguments, check=False)
    return done.stdout.strip() if done.returncode == 0 else f"failed: {done.stderr[-300:]}"


def _timed(check: str, work: Callable[[], str]) -> Row:
    began = time.monotonic()
    detail = work()
    seconds = time.monotonic() - began
    return Row(check, seconds < 10, f"{detail} in {seconds:.2f} s")


if __name__ == "__main__":
    sys.exit(main())
