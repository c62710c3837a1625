"""The least that a container of each step of `examples/samples` costs: `crun run` from bundles that
were made before, two at a time, level by level, in one directory that all of them write to.

Nothing is stored, hashed, logged or isolated from its neighbour: a floor, not an equal.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

_LOOP = """
umount /sys/fs/cgroup/unified 2>/dev/null || true
run="crun --cgroup-manager=disabled run --bundle"
once() { $run "$bundles/$1" "lading-bench-$$-$1" </dev/null; }
once index
ls reads | xargs -P2 -I{} $run "$bundles/{}" "lading-bench-$$-{}"
once merge
once plot
"""


def crun_command(bundles: Path) -> list[str]:
    """A command that runs the bundles of `write_bundles`, in a mount namespace in which crun finds
    one layout of cgroups (bench.floors).
    """
    script = f"set -e; bundles={shlex.quote(str(bundles))}; {_LOOP.strip()}"
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]


def write_bundles(
    folder: Path, *, rootfs: Path, work: Path, quality: int, scripts: Mapping[str, Iterable[str]]
) -> None:
    """A bundle in `folder` for each named step: `sh -ec SCRIPT [WORD...]` in `work`, seen as /w.

    Raises CalledProcessError if crun makes no specification.
    """
    folder.mkdir(parents=True)
    subprocess.run(["crun", "spec"], cwd=folder, check=True, capture_output=True)
    spec = json.loads((folder / "config.json").read_text())
    spec["root"] = {"path": str(rootfs), "readonly": False}
    spec["mounts"].append(
        {"destination": "/w", "type": "bind", "source": str(work), "options": ["rbind"]}
    )
    process = spec["process"]
    process.pop("rlimits", None)
    for kind in process.get("capabilities", {}):
        process["capabilities"][kind] = []
    process |= {"terminal": False, "cwd": "/w", "env": [*process["env"], f"QUALITY={quality}"]}
    for name, (script, *words) in scripts.items():
        process["args"] = ["sh", "-ec", script, "sh", *words]
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(spec))


def unpack_image(archive: Path, rootfs: Path) -> Path:
    """The files of an image that `docker save` could have written. Raises CalledProcessError."""
    parts = rootfs.with_name(f"{rootfs.name}.parts")
    for folder in (parts, rootfs):
        folder.mkdir()
    subprocess.run(["tar", "-xf", str(archive), "-C", str(parts)], check=True)
    (manifest,) = json.loads((parts / "manifest.json").read_text())
    for layer in manifest["Layers"]:
        subprocess.run(["tar", "-xf", str(parts / layer), "-C", str(rootfs)], check=True)
    return rootfs
