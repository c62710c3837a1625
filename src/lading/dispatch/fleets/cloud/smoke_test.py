"""Program that runs a container on a VM as a test of its engine, sent over ssh to `python3 -c`.

Only the standard library of Python 3.9 may be used. With crun the container has the programs of the
VM, read-only, in its own namespaces; docker and podman are only asked whether they respond, as
there is no image yet. The result is one line of JSON: {"engine": ..., "said": ...} or {"engine":
..., "error": ...}.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SBIN = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHOWN = ("bin", "sbin", "lib", "lib32", "lib64", "usr", "etc")
PATIENCE = 60
"""Seconds for one program of the test, each of which ends within a second on a sound VM."""


def main(directory: str) -> int:
    """Try the first engine that is there; 0 when it works."""
    os.environ["PATH"] = os.environ.get("PATH", "") + ":" + SBIN
    engine = next((name for name in ("crun", "docker", "podman") if shutil.which(name)), "")
    try:
        said = _run_crun(directory) if engine == "crun" else _ask(engine)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        print(json.dumps({"engine": engine, "error": str(error)}))  # noqa: T201 - its answer
        return 1
    print(json.dumps({"engine": engine, "said": said}))  # noqa: T201 - its answer
    return 0


def _ask(engine: str) -> str:
    if not engine:
        raise ValueError("there is neither crun nor docker nor podman")
    return "it serves, version " + _output([engine, "version", "--format", "{{.Server.Version}}"])


def _run_crun(directory: str) -> str:
    Path(directory).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        bundle = Path(folder)
        (bundle / "config.json").write_text(json.dumps(_spec(bundle / "rootfs")))
        # crun fails on the unified hierarchy of a hybrid machine.
        command = (
            "umount -l /sys/fs/cgroup/unified 2>/dev/null; "
            'exec crun --root "$0/crun" --cgroup-manager=disabled run -b "$0" smoke-test'
        )
        return _output(["unshare", "--mount", "sh", "-c", command, folder])


def _spec(root: Path) -> dict[str, Any]:
    mounts: list[dict[str, Any]] = [{"destination": "/proc", "type": "proc", "source": "proc"}]
    mounts.append(
        {
            "destination": "/dev",
            "type": "tmpfs",
            "source": "tmpfs",
            "options": ["nosuid", "mode=755"],
        }
    )
    for name in ("proc", "dev"):
        (root / name).mkdir(parents=True)
    for name in SHOWN:
        path = Path("/") / name
        if path.is_symlink():
            (root / name).symlink_to(path.readlink())
        elif path.is_dir():
            (root / name).mkdir()
            options = ["rbind", "ro", "nosuid", "nodev"]
            mounts.append(
                {
                    "destination": str(path),
                    "type": "none",
                    "source": str(path),
                    "options": options,
                }
            )
    kinds = ("pid", "mount", "ipc", "uts", "network")
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0}, "cwd": "/", "env": ["PATH=" + SBIN],
            "noNewPrivileges": True, "args": ["sh", "-c", 'echo "a container ran as process $$"'],
        },
        "root": {"path": str(root), "readonly": True},
        "hostname": "smoke-test",
        "mounts": mounts,
        "linux": {"namespaces": [{"type": kind} for kind in kinds]},
    }  # fmt: skip


def _output(command: list[str]) -> str:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip() or "no word").splitlines()[-1]
        raise ValueError(f"exit code {done.returncode}: {words}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
