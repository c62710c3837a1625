"""Jobs as container requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.errors import Invalid
from snakemake_executor_plugin_lading.containers import (
    KnownFiles,
    command,
    needs,
    read_secrets,
    take,
    target,
)


def test_the_command_makes_directories_first() -> None:
    made = command("sh", ["\necho a >d/a\n", "echo b"], ["d/a", "e f/b", "c"])
    assert made == ["sh", "-c", "set -eu\nmkdir -p 'd' 'e f'\necho a >d/a\necho b"]
    assert command("/bin/bash", ["true"], [])[2] == "set -euo pipefail\ntrue"


def test_resources_become_constraints() -> None:
    found = needs(
        2, {"mem_mb": 1000, "disk_mb": 5, "runtime": 2, "lading_partition": "a,b", "tmpdir": "/t"}
    )
    assert found == {
        "runtime_constraints": {"vcpus": 2, "ram": 1_000_000_000},
        "scheduling_parameters": {"max_run_time": 120, "partitions": ["a", "b"]},
        "mounts": {"/out": {"kind": "tmp", "capacity": 5_000_000}},
    }
    assert needs(0, {"mem_mb": "<TBD>"})["runtime_constraints"] == {"vcpus": 1, "ram": 64 << 20}
    assert needs(1, {"lading_priority": 7})["priority"] == 7


def test_secrets_come_from_the_environment_and_from_files(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("k\n")
    found = read_secrets(["DB", f"API=@{key}", f"/etc/key@{key}", "X=1"], {"DB": "d", "Y": "y"})
    assert found == {"DB": "d", "API": "k", "/etc/key": "k\n", "X": "1"}
    with pytest.raises(Invalid, match="Z: is not set here"):
        read_secrets(["Z"], {})


def gpus(**resources: object) -> dict[str, object] | None:
    found: dict[str, object] | None = needs(1, resources)["runtime_constraints"].get("gpu")
    return found


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (
            {"gpu": 1},
            {
                "device_count": 1,
                "stack": "cuda",
                "driver_version": "0.0",
                "hardware_target": [],
                "vram": 0,
            },
        ),
        (
            {"gpu": 2, "gpu_manufacturer": "AMD", "gpu_driver_version": "6.0"},
            {"device_count": 2, "stack": "rocm", "driver_version": "6.0"},
        ),
        ({"gpu": "2", "gpu_model": "Ampere,Ada"}, {"hardware_target": ["ada", "ampere"]}),
        ({"gpu": 1, "gpu_hardware_target": "gfx90a"}, {"stack": "rocm"}),
        ({"nvidia_gpu": 2, "gpu_model": "a100"}, {"stack": "cuda", "hardware_target": ["a100"]}),
        ({"amd_gpu": 1, "gpu_model": "MI300X"}, {"stack": "rocm", "hardware_target": ["MI300X"]}),
    ],
)
def test_gpus(resources: dict[str, object], expected: dict[str, object]) -> None:
    assert gpus(**resources) == (gpus(**resources) or {}) | expected


def test_what_is_no_gpu() -> None:
    assert gpus(gpu=0, gpu_model="a100") is None
    for resources, message in (
        ({"gpu": 1, "gpu_manufacturer": "intel"}, "gpu_manufacturer: intel: write nvidia or amd"),
        ({"nvidia_gpu": 1, "amd_gpu": 1}, "amd, nvidia: write nvidia or amd"),
        ({"gpu": "some"}, "gpu: 'some': write a number"),
        ({"gpu": 1, "gpu_driver_version": "new"}, "gpu_driver_version: 'new'"),
    ):
        with pytest.raises(Invalid, match=message):
            gpus(**resources)


def test_inputs_have_their_paths() -> None:
    assert target("./reads//a.fq") == "/out/reads/a.fq"
    assert target("/data/../ref/a") == "/ref/a"
    for path in ("../a", ".", ".."):
        with pytest.raises(ValueError, match="not below the working directory"):
            target(path)


def test_files_are_known_until_they_change(tmp_path: Path) -> None:
    file, kept = tmp_path / "a", tmp_path / "d" / "files.json"
    file.write_text("1")
    known = KnownFiles(kept)
    known.add(str(file), "pdh", "a")
    known.add(str(tmp_path), "pdh", "d")
    known.save()
    again = KnownFiles(kept)
    mount = {"kind": "collection", "portable_data_hash": "pdh", "path": "a"}
    assert again.mount(str(file)) == mount
    assert again.mount(str(tmp_path)) is None
    file.write_text("22")
    assert again.mount(str(file)) is None
    kept.write_text("{")
    assert KnownFiles(kept).mount(str(file)) is None


def test_what_was_made_is_taken(tmp_path: Path) -> None:
    place = tmp_path / "place"
    (place / "d").mkdir(parents=True)
    (place / "d" / "x").write_text("x")
    (place / "l").write_text("new")
    (tmp_path / "l").write_text("old")
    assert take(place, ["d", "l", "missing"], tmp_path) == ["d", "l"]
    assert (tmp_path / "d" / "x").read_text() == "x"
    assert (tmp_path / "l").read_text() == "new"
    (place / "d").write_text("a file")
    with pytest.raises(ValueError, match="a directory is in the place"):
        take(place, ["d"], tmp_path)
