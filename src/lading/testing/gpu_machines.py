"""Parts of a machine with GPUs, made of files: instances, the answers of `nvidia-smi`, the kernel's
log.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path

_NULL = os.makedev(1, 3)


def add_instances(root: Path, *, real: bool = True) -> None:
    """Divide GPU 0 of NVIDIA into two instances (MIG), as its specification names them."""
    (root / "dev/nvidia-caps").mkdir()
    for number in (11, 12, 21, 22):
        path = root / f"dev/nvidia-caps/nvidia-cap{number}"
        if real:
            os.mknod(path, stat.S_IFCHR | 0o666, _NULL)
            path.chmod(0o666)
        else:
            path.touch()
    # Each is named by number and by uuid; `all` is both of them.
    names = {"0:0": 1, "0:1": 2, "MIG-aaaaaaaa": 1, "MIG-bbbbbbbb": 2}
    instances = [
        {
            "name": name,
            "annotations": {"profile": "1g.10gb"},
            "containerEdits": {"deviceNodes": _nodes(f"{tens}1", f"{tens}2")},
        }
        for name, tens in names.items()
    ]
    everything = {
        "name": "all",
        "containerEdits": {"deviceNodes": _nodes("11", "12", "21", "22")},
    }
    document = {
        "cdiVersion": "0.8.0",
        "kind": "nvidia.com/gpu",
        "devices": [*instances, everything],
        "containerEdits": {"deviceNodes": [{"path": "/dev/nvidiactl"}]},
    }
    path = root / "etc/cdi/nvidia.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def _nodes(*capabilities: str) -> list[dict[str, str]]:
    paths = ["/dev/nvidia0", *(f"/dev/nvidia-caps/nvidia-cap{number}" for number in capabilities)]
    return [{"path": path} for path in paths]


def write_readings(root: Path, rows: Sequence[Sequence[object]], *, version: str = "12.4") -> None:
    """Make a `nvidia-smi` that answers these rows, each with the values of
    `core.gpus.readings.FIELDS`, and the table with the version of CUDA.
    """
    lines = "\n".join(", ".join(map(str, row)) for row in rows)
    program = root / "usr/bin/nvidia-smi"
    program.parent.mkdir(parents=True, exist_ok=True)
    aside = program.with_name("nvidia-smi.new")
    aside.write_text(
        f"#!/bin/sh\ncase $1 in --query-gpu=*)\ncat <<'END'\n{lines}\nEND\n;; "
        f"*) echo 'CUDA Version: {version}' ;; esac\n"
    )
    aside.chmod(0o755)
    aside.replace(program)


def reading(number: int, **more: object) -> list[object]:
    """The row of one GPU; `more` replaces values by their names without dots."""
    values = {
        "bus": f"00000000:{number:02X}:00.0",
        "uuid": f"GPU-{number:08x}",
        "name": "NVIDIA A100-SXM4-40GB",
        "memory": 40960,
        "used": 1024,
        "busy": 50,
        "capability": "8.0",
        "mig": "Disabled",
        "errors": 0,
        "worn": "No",
        **more,
    }
    return list(values.values())


def add_information(root: Path, number: int) -> None:
    """Add what the driver of NVIDIA tells of a GPU: its uuid and address."""
    path = root / f"proc/driver/nvidia/gpus/0000:{number:02x}:00.0/information"
    path.parent.mkdir(parents=True)
    path.write_text(
        f"Model: \t\t NVIDIA A100-SXM4-40GB\nGPU UUID: \t GPU-{number:08x}\n"
        f"Bus Location: \t 0000:{number:02x}:00.0\nDevice Minor: \t {number}\n"
    )


def log_xid(root: Path, gpu: int, xid: int, *, record: int = 1) -> None:
    """Add a record of the kernel's log: an Xid of a GPU."""
    with (root / "dev/kmsg").open("a") as file:
        file.write(f"3,{record},1000,-;NVRM: Xid (PCI:0000:{gpu:02x}:00): {xid}, pid=1, a fault\n")
