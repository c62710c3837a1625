from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lading.config.site import load
from lading.core.errors import Invalid
from lading.core.resources import GIB, MIB, Resources
from lading.core.scheduling.instance_types import Gpu
from lading.dispatch.fleet import FleetSite
from lading.dispatch.fleets.kubernetes.settings import KubernetesSettings, read_settings
from lading.testing.containers import TOKEN

PLAIN = {"VCPUs": 4, "RAM": "8GiB", "Scratch": "50GiB"}


def read(**section: Any) -> KubernetesSettings:
    usual = {"Image": "lading:1", "Nodes": {"plain": PLAIN}}
    config = load(
        overrides={"Containers": {"ReserveExtraRAM": "1MiB", "Kubernetes": usual | section}}
    )
    site = FleetSite(
        config=config,
        token=TOKEN,
        run_directory=Path("/r"),
        cache_directory=Path("/c"),
        template={"engine": "native", "large_input": 5},
        api_url="https://server",
        certificate="PEM",
    )
    return read_settings(site)


def test_the_configuration_becomes_settings() -> None:
    found = read(GracePeriod="2m", MaxPendingPods=7, Labels={"queue": "x"})
    assert found.pods.dispatcher == TOKEN
    assert found.pods.command == ("/usr/lib/lading/bin/python", "-m", "lading.supervisor")
    assert (found.pods.grace_period, found.pods.extra_ram) == (120, MIB)
    assert (found.most_waiting, found.pods.labels) == (7, {"queue": "x"})
    assert found.kinds["plain"].capacity == Resources(4, 8 * GIB, 50 * GIB)
    assert found.template == {
        "engine": "native", "api_url": "https://server", "gateway": "tunnel", "large_input": 0,
        "dispatcher_classifies": True,
    }  # fmt: skip


def test_privileged_pods_mount_large_inputs() -> None:
    assert read(Isolation="privileged").template["large_input"] == 5


def test_a_kind_of_node_has_gpus_tolerations_and_classes() -> None:
    kind = read(
        Nodes={
            "big": PLAIN
            | {
                "GPUs": 2,
                "GPUMemory": "40GiB",
                "Partitions": ["gpu"],
                "Closed": True,
                "Price": 1.5,
                "NodeSelector": {"a": "b"},
                "Tolerations": [{"key": "k", "operator": "Exists"}],
                "PriorityClass": "low",
                "RuntimeClass": "vm",
            }
        }
    ).kinds["big"]
    assert kind.gpu is not None
    assert (kind.gpu.count, kind.gpu.vram, kind.capacity.gpus) == (2, 40 * GIB, 2)
    assert (kind.partitions, kind.closed, kind.price) == (frozenset({"gpu"}), True, 1.5)
    assert kind.tolerations == ({"key": "k", "operator": "Exists"},)
    assert (kind.priority_class, kind.runtime_class) == ("low", "vm")


@pytest.mark.parametrize(
    ("keys", "gpu"),
    [
        ({}, Gpu(stack="cuda", count=2)),
        (
            {"NodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}},
            Gpu(stack="cuda", count=2, targets=("8.0", "a100"), vram=40 * GIB),
        ),
        (
            {"GPUResource": "nvidia.com/mig-1g.10gb", "GPUDriverVersion": "12.4"},
            Gpu(stack="cuda", count=2, targets=("1g.10gb",), vram=10 * GIB, driver="12.4"),
        ),
        (
            {"GPUResource": "amd.com/gpu", "GPUType": ["mi250"]},
            Gpu(stack="rocm", count=2, targets=("mi250", "gfx90a")),
        ),
        ({"GPUResource": "gpu.intel.com/i915"}, Gpu(stack="oneapi", count=2)),
        ({"GPUResource": "nvidia.com/gpu.shared"}, Gpu(stack="cuda", count=2, targets=("shared",))),
        ({"GPUShared": True}, Gpu(stack="cuda", count=2, targets=("shared",))),
        ({"GPUResource": "x.org/y", "GPUStack": "rocm"}, Gpu(stack="rocm", count=2)),
    ],
)
def test_resources_and_labels_tell_what_gpus_are(keys: dict[str, Any], gpu: Gpu) -> None:
    assert read(Nodes={"n": {**PLAIN, "GPUs": 2, **keys}}).kinds["n"].gpu == gpu


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"Image": ""}, "Kubernetes.Image: ''; name the image"),
        ({"ImagePullPolicy": "never"}, "ImagePullPolicy: 'never'; it must be IfNotPresent or"),
        ({"Isolation": "none"}, "Isolation: 'none'; it must be user-namespace or privileged"),
        ({"Namespace": "a/b"}, "Namespace: 'a/b'; it must be the name of a namespace"),
        ({"NodeCacheDirectory": "x"}, "NodeCacheDirectory: 'x'; it must begin with /"),
        ({"MaxPendingPods": 0}, "MaxPendingPods: 0; it must be at least 1"),
        ({"Labels": {"lading/container": "x"}}, "Labels: 'lading/container'; this label is"),
        ({"Nodes": {}}, "Kubernetes.Nodes: there are none; name at least one"),
        ({"Nodes": {"n": {"VCPUs": 1, "RAM": 1}}}, "Nodes.n: .*Scratch"),
        ({"Nodes": {"n": {**PLAIN, "VCPU": 1}}}, "Nodes.n: .*VCPU"),
        ({"Nodes": {"n": {**PLAIN, "RAM": "much"}}}, "Nodes.n: not a size"),
        (
            {"Nodes": {"n": {**PLAIN, "GPUs": 1, "GPUResource": "x.org/y"}}},
            "Nodes.n.GPUStack: ''; x.org/y does not tell it",
        ),
        ({"Nodes": {"n": {**PLAIN, "VCPUs": 0}}}, "Nodes.n: .* must be above 0"),
    ],
)
def test_a_fault_is_named_by_its_key(section: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        read(**section)
