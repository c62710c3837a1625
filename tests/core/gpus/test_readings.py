"""Readings of GPUs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lading.core.gpus.readings import (
    FIELDS,
    OLD_FIELDS,
    GpuReading,
    read_bus,
    read_cuda_version,
    read_information,
    read_kernel_values,
    read_query,
)

LINE = "00000000:3B:00.0, GPU-1, NVIDIA A100, 40960, 1024, 50, 8.0, Enabled, 2, Yes"


def test_an_answer_is_read() -> None:
    assert read_query(f"{LINE}\nnonsense\nx, GPU-1, N, 1, 1, 1, 1, 1, 1, 1\n") == (
        GpuReading(
            bus="0000:3b:00", uuid="GPU-1", model="NVIDIA A100", capability="8.0",
            memory=40 << 30, memory_used=1 << 30, busy=0.5, errors=2, is_worn=True,
            is_divided=True,
        ),
    )  # fmt: skip


def test_what_a_gpu_does_not_have_is_not_known() -> None:
    line = "00000000:3B:00.0, GPU-1, [N/A], [Not Supported], N/A, 200"
    [reading] = read_query(line, OLD_FIELDS)
    assert (reading.model, reading.memory, reading.busy, reading.errors) == ("", 0, 1.0, 0)
    [unknown] = read_query(line.replace("200", "[N/A]"), OLD_FIELDS)
    assert unknown.busy is None


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert len(read_query(text, FIELDS)) <= 256
    assert isinstance(read_bus(text), str)
    assert isinstance(read_cuda_version(text), str)


def test_addresses_have_one_form() -> None:
    assert read_bus("0000:3B:00.0") == read_bus("00000000:3b:00.0") == "0000:3b:00"
    assert read_bus("0000:3b:00") == "0000:3b:00"
    assert read_bus("3b:00") == ""


def test_the_version_of_cuda_is_in_the_table() -> None:
    assert read_cuda_version("| Driver Version: 550.1  CUDA Version: 12.4 |") == "12.4"
    assert read_cuda_version("GPU 0") == ""


def test_information_of_the_driver() -> None:
    values = read_information("Model: \t A100\nDevice Minor: \t 3\nnothing\n")
    assert values == {"Model": "A100", "Device Minor": "3"}


def test_values_of_the_kernel() -> None:
    values = {
        "mem_info_vram_total": "17179869184", "mem_info_vram_used": "5", "gpu_busy_percent": "75",
        "unique_id": "AB12", "ras/umc_err_count": "ue: 2\nce: 1", "ras/gfx_err_count": "odd",
    }  # fmt: skip
    assert read_kernel_values(values) == GpuReading(
        uuid="GPU-ab12", memory=16 << 30, memory_used=5, busy=0.75, errors=2
    )
    assert read_kernel_values({"lmem_total_bytes": "7"}) == GpuReading(memory=7)


def test_an_impossible_memory_is_not_known() -> None:
    line = f"00000000:3b:00.0, GPU-1, x, {10**17}, 7, 5"
    assert read_query(line, OLD_FIELDS)[0].memory == 0
