from __future__ import annotations

from pathlib import Path

import pytest

from lading.config.site import Config, load
from lading.core.errors import Invalid
from lading.core.resources import GIB, Resources
from lading.core.scheduling.instance_types import Gpu
from lading.dispatch.fleets.cloud import settings
from lading.dispatch.fleets.cloud.settings import CloudSettings

SMALL = (
    "InstanceTypes: {small: {VCPUs: 1, RAM: 2GiB, IncludedScratch: 5GiB, "
    "AddedScratch: 3GiB, Price: 0.1}}\n"
)


def config(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "config.yml"
    file.write_text(text)
    return load(file)


def read(tmp_path: Path, text: str) -> CloudSettings:
    return settings.read(config(tmp_path, text), set_id="s", template={})


def test_types_and_times_are_read(tmp_path: Path) -> None:
    more = (
        "Containers: {PreemptiblePriceFactor: 0.5, CloudVMs: {TimeoutIdle: 5s, "
        "MaxInstances: 3, SSHPort: '2222'}}"
    )
    found = read(tmp_path, SMALL + more)
    assert [one.name for one in found.types] == ["small", "small.preemptible"]
    assert found.types[0].resources == Resources(1, 2 * GIB, 8 * GIB)
    assert found.types[0].added == 3 * GIB
    assert (found.times.idle, found.limits.most, found.ssh_port) == (5.0, 3, 2222)
    assert found.by_name["small.preemptible"].price == 0.05


def test_gpus_are_read(tmp_path: Path) -> None:
    gpu = (
        "GPU: {Stack: cuda, DriverVersion: '12.2', HardwareTarget: ['8.0'], "
        "DeviceCount: 2, VRAM: 40GiB}"
    )
    found = read(tmp_path, f"InstanceTypes: {{g: {{VCPUs: 8, RAM: 64GiB, {gpu}}}}}")
    assert found.types[0].gpu == Gpu(
        stack="cuda", count=2, driver="12.2", targets=("8.0",), vram=40 * GIB
    )
    assert found.types[0].resources.gpus == 2
    model = "GPU: {Model: nvidia-a100-80gb, DeviceCount: 1}"
    described = read(tmp_path, f"InstanceTypes: {{g: {{VCPUs: 8, RAM: 64GiB, {model}}}}}")
    assert described.types[0].gpu == Gpu(
        stack="cuda", count=1, targets=("8.0", "a100"), vram=80 * GIB
    )


def test_loopback_needs_no_types(tmp_path: Path) -> None:
    (only,) = read(tmp_path, "Containers: {CloudVMs: {Driver: loopback}}").types
    assert only.name == "localhost"
    assert only.resources.vcpus >= 1


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", r"InstanceTypes: there are none; name at least one"),
        ("InstanceTypes: {a: {RAM: 1GiB}}", r"InstanceTypes\.a\.VCPUs: 0; it must be more than 0"),
        (
            "InstanceTypes: {a: {VCPU: 1}}",
            r"unknown key InstanceTypes\.a\.VCPU; known here: .*VCPUs",
        ),
        (
            "InstanceTypes: {a: {VCPUs: 1, RAM: 1GiB, GPU: {Stack: cude, DeviceCount: 1}}}",
            r"InstanceTypes\.a\.GPU\.Stack: 'cude'; it must be one of cuda, rocm, oneapi",
        ),
        (
            SMALL + "Containers: {MaximumPriceFactor: -1}",
            r"Containers\.MaximumPriceFactor: -1; it must be 0 or more",
        ),
        (
            SMALL + "Containers: {CloudVMs: {TimeoutIdle: 0}}",
            r"Containers\.CloudVMs\.TimeoutIdle: 0.0; it must be more than 0",
        ),
        (
            SMALL + "Containers: {CloudVMs: {MaxInstances: -1}}",
            r"Containers\.CloudVMs\.MaxInstances: -1; it must be at least 0",
        ),
        (
            SMALL + "Containers: {CloudVMs: {SupervisorFraction: 2}}",
            r"SupervisorFraction: 2.0; it must be from 0 to 1",
        ),
        (
            SMALL + "Containers: {CloudVMs: {SSHPort: ssh}}",
            r"SSHPort: 'ssh'; it must be a number from 1 to 65535",
        ),
        (
            SMALL + "Containers: {CloudVMs: {DeployRunnerDirectory: here}}",
            r"DeployRunnerDirectory: 'here'; it must be an absolute path without spaces",
        ),
        (
            SMALL + "Containers: {CloudVMs: {TagKeyPrefix: 'a b'}}",
            r"TagKeyPrefix: 'a b'; it must be ASCII",
        ),
        (
            SMALL + "Containers: {CloudVMs: {TimeoutIdel: 1}}",
            r"unknown key Containers\.CloudVMs\.TimeoutIdel; known",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_key_value_and_what_is_allowed(
    tmp_path: Path, text: str, fault: str
) -> None:
    with pytest.raises(Invalid, match=fault):
        read(tmp_path, text)


def test_the_first_script_writes_the_secret_and_then_ours(tmp_path: Path) -> None:
    found = read(tmp_path, SMALL + "Containers: {CloudVMs: {InstanceInitCommand: touch /x}}")
    script = found.user_data("abc")
    assert script.startswith(
        "#!/bin/sh\n(umask 0177; printf %s abc >/var/run/arvados-instance-secret~"
    )
    assert script.endswith("touch /x\n")
    assert found.tag("InstanceSecret") == "ArvadosInstanceSecret"
