"""Models of GPUs by their names."""

from __future__ import annotations

import pytest

from lading.core.gpus.models import GpuModel, read_model


@pytest.mark.parametrize(
    ("name", "stack", "kinds", "gibibytes"),
    [
        ("a100", "cuda", ("8.0", "a100"), 0),
        ("NVIDIA A100-SXM4-40GB", "cuda", ("8.0", "a100"), 40),
        ("tesla_v100-sxm2-16gb", "cuda", ("7.0", "v100"), 16),
        ("nvidia_h100_80gb_hbm3", "cuda", ("9.0", "h100"), 80),
        ("1g.10gb", "cuda", ("1g.10gb",), 10),
        ("a100_1c.3g.20gb", "cuda", ("8.0", "1c.3g.20gb"), 20),
        ("mig-1g.10gb.me", "cuda", ("1g.10gb.me",), 10),
        ("mi250x", "rocm", ("gfx90a", "mi250x"), 0),
        ("flex170", "oneapi", ("flex170",), 0),
        ("quick", "", (), 0),
        ("", "", (), 0),
    ],
)
def test_names_tell_what_a_model_is(
    name: str, stack: str, kinds: tuple[str, ...], gibibytes: int
) -> None:
    assert read_model(name) == GpuModel(stack=stack, kinds=kinds, memory=gibibytes << 30)
