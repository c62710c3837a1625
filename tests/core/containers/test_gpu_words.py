"""GPUs in the words of people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.containers import constraints
from lading.core.containers.gpu_words import (
    MOST_GPUS,
    described,
    gpu_constraint,
    parse_count,
    parse_kinds,
    parse_memory,
    parse_version,
)
from lading.core.errors import Invalid
from lading.core.gpu_architectures import NVIDIA_ARCHITECTURES, suits
from lading.core.scheduling.instance_types import Gpu, gpu_lack, requested_gpus

GIB = 1 << 30
CUDA_KINDS = st.sampled_from(["8.0", "sm_86", "9", "Ampere", "hopper", "nvidia", "A100"])
AMD_KINDS = st.sampled_from(["gfx90a", "GFX942", "amd", "MI300X"])
KINDS = st.one_of(st.lists(CUDA_KINDS, max_size=4), st.lists(AMD_KINDS, min_size=1, max_size=4))


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        ("8.0", ["8.0"]),
        ("sm_80,sm_90a", ["8.0", "9.0"]),
        ("compute_120 8", ["12.0", "8.0"]),
        (["Ampere", "hopper,ampere"], ["ampere", "hopper"]),
        ("GFX90A", ["gfx90a"]),
        ("A100", ["A100"]),
        ([], []),
    ],
)
def test_kinds(words: Any, kinds: list[str]) -> None:
    assert [*parse_kinds(words)] == kinds


def test_counts_memory_and_versions() -> None:
    assert [parse_count(value) for value in (2, "2", " 0 ", "0" * 12 + "1")] == [2, 2, 0, 1]
    assert [parse_memory(value) for value in ("16GiB", 16 * GIB, 0)] == [16 * GIB, 16 * GIB, 0]
    assert [parse_version(value) for value in ("12", "12.4", 12.4, "12.4.1", "012.04")] == [
        "12.0", "12.4", "12.4", "12.4", "12.4",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("parse", "value", "message"),
    [
        (parse_count, "two", "write a number of GPUs"),
        (parse_count, -1, "write a number of GPUs"),
        (parse_count, True, "write a number of GPUs"),
        (parse_count, "9" * 40, f"is more than {MOST_GPUS} GPUs"),
        (parse_memory, "16", "is 16 bytes, which no GPU has"),
        (parse_memory, "much", "not a size"),
        (parse_memory, -(1 << 40), "which no GPU has"),
        (parse_version, "new", "write a version of CUDA"),
        (parse_version, "12.", "write a version of CUDA"),
        (parse_kinds, " , ", "is empty"),
        (parse_kinds, [8.0], "write texts"),
        (parse_kinds, "x" * 65, "is no kind of GPUs"),
        (parse_kinds, ",".join(map(str, range(30))), "more than 20 kinds"),
    ],
)
def test_what_cannot_be_meant(parse: Callable[[Any], Any], value: Any, message: str) -> None:
    with pytest.raises(Invalid, match=message) as caught:
        parse(value)
    assert len(caught.value.message) <= 300


@pytest.mark.parametrize(
    ("count", "more", "expected"),
    [
        (None, {}, None),
        (0, {}, None),
        (2, {}, {"device_count": 2, "stack": "cuda", "driver_version": "0.0", "vram": 0}),
        (None, {"memory": GIB}, {"device_count": 1, "vram": GIB}),
        (None, {"version": "12.4"}, {"device_count": 1, "driver_version": "12.4"}),
        (1, {"kinds": ["gfx90a"]}, {"stack": "rocm", "hardware_target": ["gfx90a"]}),
        (1, {"kinds": ["amd"]}, {"stack": "rocm", "hardware_target": []}),
        (1, {"kinds": ["nvidia", "ampere"]}, {"stack": "cuda", "hardware_target": ["ampere"]}),
        (1, {"kinds": ["amd"], "version": "6.0"}, {"stack": "rocm", "driver_version": "6.0"}),
        (1, {"kinds": ["MI300X"], "stack": "rocm"}, {"stack": "rocm"}),
    ],
)
def test_constraints(count: int | None, more: Any, expected: dict[str, object] | None) -> None:
    constraint = gpu_constraint(count, **more)
    assert constraint == (None if expected is None else {**(constraint or {}), **expected})


@pytest.mark.parametrize(
    ("count", "more", "message"),
    [
        (0, {"memory": GIB}, "0 GPUs have no memory"),
        (1, {"kinds": ["gfx90a", "8.0"]}, "GPUs of one maker"),
        (1, {"kinds": ["gfx90a"], "stack": "cuda"}, "gfx90a, cuda: one container has GPUs of one"),
        (1, {"kinds": ["ampere"], "stack": "rocm"}, "GPUs of one maker"),
    ],
)
def test_contradictions(count: int, more: Any, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        gpu_constraint(count, **more)


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        (gpu_constraint(1), "1 GPU"),
        (gpu_constraint(2, kinds=["amd"]), "2 AMD GPUs"),
        (
            gpu_constraint(2, memory=16 * GIB, kinds=["8.0", "ada"], version="12.4"),
            "2 GPUs (8.0 or ada, 16.0 GiB each, CUDA 12.4)",
        ),
        (gpu_constraint(1, memory=GIB, kinds=["gfx90a"]), "1 GPU (gfx90a, 1.0 GiB)"),
        ({"device_count": 0}, ""),
        (None, ""),
    ],
)
def test_requests_in_words(gpu: object, words: str) -> None:
    assert described({"gpu": gpu}) == words


@given(st.integers(1, MOST_GPUS), KINDS, st.integers(1, 1 << 20), st.floats(0, 99))
def test_the_api_takes_all_words_as_they_are_meant(
    count: int, words: list[str], mebibytes: int, version: float
) -> None:
    kinds, memory = parse_kinds(words), parse_memory(f"{mebibytes}MiB")
    is_cuda = not {"amd", "gfx90a", "gfx942", "MI300X"} & {*kinds}
    wanted = parse_version(f"{version:.1f}") if is_cuda else ""
    constraint = gpu_constraint(count, memory=memory, kinds=kinds, version=wanted)
    filled = constraints.fill({"vcpus": 1, "ram": 1 << 30, "gpu": constraint})
    constraints.check(filled, committed=True)
    asked = requested_gpus(filled)
    assert (asked.count, asked.vram) == (count, memory)
    # A machine that has what the request names suits it, and one that has a GPU less does not.
    driver, targets = asked.driver, asked.targets or ("8.0",)
    machine = Gpu(stack=asked.stack, count=count, driver=driver, targets=targets, vram=memory)
    assert gpu_lack(asked, machine) == ""
    assert gpu_lack(asked, Gpu(stack=asked.stack, count=count - 1)) != ""


@given(st.lists(st.text(max_size=70), max_size=5))
def test_any_text_is_a_kind_or_a_fault(texts: list[str]) -> None:
    try:
        kinds = parse_kinds(texts)
    except Invalid:
        return
    assert parse_kinds(kinds) == kinds
    assert all(suits([kind], [kind]) for kind in kinds)


@given(st.sampled_from([*NVIDIA_ARCHITECTURES]))
def test_architectures_are_written_in_any_case(name: str) -> None:
    assert parse_kinds(name.upper()) == (name,)


@pytest.mark.parametrize(
    ("kind", "stack"),
    [
        ("a100", "cuda"), ("1g.10gb", "cuda"), ("MI250", "rocm"), ("flex170", "oneapi"),
        ("intel", "oneapi"), ("unheard-of", "cuda"),
    ],
)  # fmt: skip
def test_models_and_makers_tell_the_stack(kind: str, stack: str) -> None:
    constraint = gpu_constraint(1, kinds=parse_kinds(kind))
    assert constraint is not None
    assert constraint["stack"] == stack
