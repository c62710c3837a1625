"""GPUs of Kubernetes by the names of resources and labels of nodes."""

from __future__ import annotations

import pytest

from lading.core.kubernetes.gpu_resources import describe_gpus, with_sharing
from lading.core.scheduling.gpu_kinds import unsuited_gpu
from lading.core.scheduling.instance_types import Gpu

A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}


@pytest.mark.parametrize(
    ("resource", "selector", "kinds", "gpu"),
    [
        ("nvidia.com/gpu", {}, (), Gpu(stack="cuda", count=1)),
        (
            "nvidia.com/gpu",
            A100,
            (),
            Gpu(stack="cuda", count=1, targets=("8.0", "a100"), vram=80 << 30),
        ),
        (
            "nvidia.com/gpu",
            A100,
            ("8.0",),
            Gpu(stack="cuda", count=1, targets=("8.0",), vram=80 << 30),
        ),
        (
            "nvidia.com/mig-1g.10gb",
            A100,
            (),
            Gpu(stack="cuda", count=1, targets=("8.0", "1g.10gb"), vram=10 << 30),
        ),
        ("nvidia.com/gpu.shared", {}, (), Gpu(stack="cuda", count=1, targets=("shared",))),
        ("amd.com/gpu", {}, (), Gpu(stack="rocm", count=1)),
        ("gpu.intel.com/xe", {}, (), Gpu(stack="oneapi", count=1)),
        ("example.org/gpu", {}, (), Gpu(count=1)),
    ],
)
def test_names_tell_what_gpus_are(
    resource: str, selector: dict[str, str], kinds: tuple[str, ...], gpu: Gpu
) -> None:
    assert describe_gpus(resource, selector, count=1, kinds=kinds) == gpu


def test_shared_gpus_are_for_requests_that_ask_for_them() -> None:
    offered = with_sharing(Gpu(stack="cuda", count=4))
    asked = Gpu(stack="cuda", count=1)
    assert unsuited_gpu(asked, offered) == (
        "its GPUs are shared with other containers: ask for the kind shared"
    )
    assert unsuited_gpu(Gpu(stack="cuda", count=1, targets=("shared",)), offered) == ""
    assert unsuited_gpu(Gpu(stack="cuda", count=2, targets=("shared",)), offered) == (
        "its GPUs are shared, and each container gets one alone"
    )
