"""Readings of GPUs: their use and their health, from the answers of programs and of the kernel.

`nvidia-smi --query-gpu` answers a line for each GPU, with values between commas; a value that a GPU
does not have stands in brackets or is N/A. The kernel has a file for each value of a GPU of AMD.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

FIELDS: Final = (
    "pci.bus_id", "uuid", "name", "memory.total", "memory.used", "utilization.gpu", "compute_cap",
    "mig.mode.current", "ecc.errors.uncorrected.volatile.total", "remapped_rows.failure",
)  # fmt: skip
"""The fields that `nvidia-smi` is asked for."""
OLD_FIELDS: Final = FIELDS[:6]
"""The fields that the programs of all drivers know."""
_MOST_GPUS: Final = 256
_LONGEST: Final = 200
_MOST_MEMORY: Final = 1 << 50
_BUS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-7])?")
_CUDA_VERSION = re.compile(r"CUDA (?:UMD )?Version\s*:\s*(\d{1,3}\.\d{1,3})")
_RAS = re.compile(r"^ue:\s*(\d+)", re.MULTILINE)


class GpuReading(msgspec.Struct, frozen=True, kw_only=True):
    """The reading of a GPU at one moment.

    `busy` is the share of the time in which it worked, from 0 to 1, None where it is not known;
    memory is in bytes, 0 where it is not known. `errors` are memory errors that were not corrected
    since it was reset last; `is_worn`: bad memory could not be replaced by spare memory;
    `is_divided`: it has instances (MIG) in place of itself.
    """

    bus: str = ""
    uuid: str = ""
    model: str = ""
    capability: str = ""
    memory: int = 0
    memory_used: int = 0
    busy: float | None = None
    errors: int = 0
    is_worn: bool = False
    is_divided: bool = False


def read_query(answer: str, fields: Sequence[str] = FIELDS) -> tuple[GpuReading, ...]:
    """The readings in the answer of `nvidia-smi --query-gpu=FIELDS --format=csv,noheader,nounits`;
    lines of another form are left out.
    """
    return tuple(_readings(answer, fields))[:_MOST_GPUS]


def _readings(answer: str, fields: Sequence[str]) -> Iterator[GpuReading]:
    for line in answer.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(fields):
            continue
        values = {
            name: "" if cell.startswith("[") or cell == "N/A" else cell[:_LONGEST]
            for name, cell in zip(fields, cells, strict=True)
        }
        if not read_bus(values["pci.bus_id"]):
            continue
        busy = _number(values["utilization.gpu"])
        yield GpuReading(
            bus=read_bus(values["pci.bus_id"]),
            uuid=values["uuid"],
            model=values["name"],
            capability=values.get("compute_cap", ""),
            memory=_mebibytes(values["memory.total"]),
            memory_used=_mebibytes(values["memory.used"]),
            busy=None if busy is None else min(busy, 100) / 100,
            errors=_number(values.get("ecc.errors.uncorrected.volatile.total", "")) or 0,
            is_worn=values.get("remapped_rows.failure", "").casefold() in ("yes", "1"),
            is_divided=values.get("mig.mode.current", "") == "Enabled",
        )


def read_bus(word: str) -> str:
    """A PCI address in one form, without the function: "0000:3b:00"; "" for another word."""
    match = _BUS.fullmatch(word.strip().casefold())
    return f"{match[1][-4:]}:{match[2]}:{match[3]}" if match else ""


def read_cuda_version(table: str) -> str:
    """The version of CUDA that the driver supports, in the table that `nvidia-smi` prints; "" where
    it has none.
    """
    match = _CUDA_VERSION.search(table)
    return match[1] if match else ""


def read_information(content: str) -> Mapping[str, str]:
    """The values of a file /proc/driver/nvidia/gpus/<address>/information."""
    pairs = (line.partition(":") for line in content.splitlines()[:64])
    return {name.strip(): value.strip()[:_LONGEST] for name, separator, value in pairs if separator}


def read_kernel_values(values: Mapping[str, str]) -> GpuReading:
    """The reading of a GPU of AMD or Intel from files of the kernel, by their names below its
    device: `mem_info_vram_total`, `mem_info_vram_used`, `gpu_busy_percent`, `unique_id`,
    `product_name`, `lmem_total_bytes`, and `ras/*_err_count`.
    """
    busy = _number(values.get("gpu_busy_percent", ""))
    errors = (
        int(match[1])
        for name, counts in values.items()
        if name.startswith("ras/") and (match := _RAS.search(counts))
    )
    total = values.get("mem_info_vram_total") or values.get("lmem_total_bytes", "")
    unique = values.get("unique_id", "").strip().casefold()
    return GpuReading(
        uuid=f"GPU-{unique}" if unique else "",
        model=values.get("product_name", ""),
        memory=_number(total) or 0,
        memory_used=_number(values.get("mem_info_vram_used", "")) or 0,
        busy=None if busy is None else min(busy, 100) / 100,
        errors=sum(errors),
    )


def _mebibytes(word: str) -> int:
    """Bytes of so many MiB; 0 where they are not known, or more than a GPU can have."""
    size = (_number(word) or 0) << 20
    return size if size <= _MOST_MEMORY else 0


def _number(word: str) -> int | None:
    digits = word.strip()
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 19 else None
