"""The specifications of a machine: which files are read."""

from __future__ import annotations

import json
from pathlib import Path

from lading.process.gpus.cdi_files import read_devices

SPECIFICATION = {
    "cdiVersion": "0.8.0",
    "kind": "nvidia.com/gpu",
    "devices": [
        {
            "name": f"GPU-{number}",
            "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia{number}"}]},
        }
        for number in (0, 1)
    ],
}


def test_files_that_are_not_read_are_named(tmp_path: Path) -> None:
    good = tmp_path / "etc/cdi/nvidia.json"
    good.parent.mkdir(parents=True)
    good.write_text(json.dumps(SPECIFICATION))
    odd = {
        "bad.json": "{",
        "loose.yaml": good.read_text(),
        "alias.yaml": "a: &a [1]\nb: *a\n",
        "large.json": " " * ((1 << 20) + 1),
        "deep.yaml": "[" * 900_000,
        "number.yaml": f"x: 1{':1' * 400}.5",
        "truth.yaml": "x: !!bool maybe",
        "integer.yaml": "x: !!int ''",
        "time.yaml": "x: !!timestamp never",
    }
    for name, text in odd.items():
        (good.parent / name).write_text(text)
    (good.parent / "loose.yaml").chmod(0o666)
    (good.parent / "notes.txt").write_text("x")
    devices, faults = read_devices(tmp_path)
    assert set(devices.names("nvidia.com/gpu")) == {"GPU-0", "GPU-1"}
    assert len(faults) == len(odd)
    for name, words in (
        ("alias.yaml", "YAML aliases"),
        ("bad.json", "CDI: "),
        ("deep.yaml", "more than 32 objects and lists in each other"),
        ("number.yaml", "is no value"),
        ("large.json", "more than 1048576 bytes"),
        ("loose.yaml", "nobody else may write it"),
    ):
        assert any(name in fault and words in fault for fault in faults)
