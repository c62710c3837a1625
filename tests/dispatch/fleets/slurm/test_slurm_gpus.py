"""Types of GPUs in Slurm, and how a job asks for them."""

from __future__ import annotations

import pytest

from lading.config.fleets import SlurmGPUType
from lading.core.errors import Invalid
from lading.core.scheduling.instance_types import Gpu
from lading.dispatch.fleets.slurm.slurm_gpus import (
    ANY_GPUS,
    NO_TYPES,
    JobGpus,
    gpu_types,
    in_words,
    known_kinds,
    total_gpus,
)

AMPERE = Gpu(stack="cuda", count=1, targets=("ampere",))
AT_LEAST_8 = Gpu(stack="cuda", count=1, targets=("8.0",))


def test_types_are_described_by_their_names() -> None:
    kinds = NO_TYPES.kinds("gpu:a100:2(S:0-1),gpu:t4:1,gpu:odd:1,gpu:3,fpga:2")
    assert total_gpus(kinds) == 7
    assert kinds["a100"] == Gpu(stack="cuda", count=2, targets=("a100", "8.0"))
    assert kinds["odd"] == Gpu(count=1)
    assert kinds[""] == Gpu(count=3)
    assert in_words({"a100": kinds["a100"]}) == "2 GPUs (a100 or 8.0)"
    assert len(known_kinds(kinds)) == 4
    assert known_kinds(NO_TYPES.kinds("(null)")) == ()


def test_types_are_described_by_the_configuration() -> None:
    types = gpu_types(
        {
            "fast": SlurmGPUType(HardwareTarget=["9.0"], VRAM=80 << 30, DriverVersion="12.4"),
            "mi250": SlurmGPUType(Feature="amd"),
        }
    )
    assert types.kinds("gpu:fast:1")["fast"] == Gpu(
        stack="cuda", count=1, targets=("fast", "9.0"), vram=80 << 30, driver="12.4"
    )
    assert types.kinds("gpu:mi250:4")["mi250"].stack == "rocm"
    with pytest.raises(Invalid, match=r"GPUTypes\.x\.Stack: 'metal'; it must be one of cuda, rocm"):
        gpu_types({"x": SlurmGPUType(Stack="metal")})


@pytest.mark.parametrize(
    ("asked", "nodes", "chosen"),
    [
        (AMPERE, ["gpu:a100:2"], ANY_GPUS),
        (AMPERE, ["gpu:a100:2", "gpu:2"], JobGpus(type="a100")),
        (AMPERE, ["gpu:a100:2,gpu:t4:2"], JobGpus(type="a100")),
        (AMPERE, ["gpu:t4:2"], ANY_GPUS),
        (AMPERE, ["(null)", "gpu:2"], ANY_GPUS),
        (AT_LEAST_8, ["gpu:a100:2", "gpu:h100:2"], ANY_GPUS),
        (AT_LEAST_8, ["gpu:a100:2", "gpu:h100:2", "gpu:t4:1"], JobGpus(type="a100")),
        (Gpu(stack="cuda", count=2), ["gpu:a100:2", "gpu:mi250:4"], JobGpus(type="a100")),
        (
            Gpu(stack="cuda", count=2, targets=("8.0",)),
            ["gpu:a100:1", "gpu:h100:2", "gpu:t4:2"],
            JobGpus(type="h100"),
        ),
    ],
)
def test_a_type_is_named_where_others_do_not_suit(
    asked: Gpu, nodes: list[str], chosen: JobGpus
) -> None:
    assert NO_TYPES.choose(asked, [NO_TYPES.kinds(node) for node in nodes]) == chosen


def test_features_stand_for_several_types() -> None:
    types = gpu_types({name: SlurmGPUType(Feature=f"has-{name}") for name in ("a100", "h100")})
    nodes = [types.kinds(node) for node in ("gpu:a100:2", "gpu:h100:2", "gpu:t4:2")]
    assert types.choose(AT_LEAST_8, nodes) == JobGpus(features=("has-a100", "has-h100"))
