"""What `lading doctor` says of GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.supervisor.gpu_checks import check_gpus
from lading.testing.gpu_machines import log_xid, reading, write_readings
from lading.testing.images import add_driver, make_devices


def check(root: Path) -> tuple[str, str]:
    verdict = check_gpus(root, is_root=True)
    return verdict.finding, verdict.mend


def test_a_machine_that_works(tmp_path: Path) -> None:
    tree = make_devices(tmp_path, cuda=1, rocm=1, real=False)
    add_driver(tree)
    finding, mend = check(tree)
    assert finding.startswith("/dev/nvidia0, /dev/dri/renderD128, with ")
    assert mend == ""


@pytest.mark.parametrize(
    ("values", "finding", "mend"),
    [
        ({"errors": 1}, "nvidia0: 1 memory error not corrected", "nvidia-smi --gpu-reset -i 0"),
        ({"mig": "Enabled"}, "nvidia0 is divided (MIG)", "nvidia-ctk cdi generate"),
    ],
)
def test_gpus_that_cannot_be_used(
    tmp_path: Path, values: dict[str, object], finding: str, mend: str
) -> None:
    tree = make_devices(tmp_path, cuda=1, real=False)
    add_driver(tree)
    write_readings(tree, [reading(0, **values)])
    found, told = check(tree)
    assert finding in found
    assert told.startswith(mend)


def test_a_gpu_that_is_out_of_service(tmp_path: Path) -> None:
    tree = make_devices(tmp_path, cuda=1, real=False)
    log_xid(tree, 0, 79)
    fault = tree / "run/lading/gpus/cuda-0.fault"
    fault.parent.mkdir(parents=True)
    fault.touch()
    found, told = check(tree)
    assert "nvidia0 is out of service" in found
    assert told.endswith("rm /run/lading/gpus/cuda-0.fault")


def test_drivers_without_device_files(tmp_path: Path) -> None:
    assert check(tmp_path) == ("none", "")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kfd").touch()
    assert check(tmp_path)[1].startswith("modprobe amdgpu")
    write_readings(tmp_path, [])
    assert check(tmp_path)[1].startswith("modprobe nvidia")
