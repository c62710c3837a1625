"""The environment of Snakemake: made once for each machine, as that of the Arvados client.

The plugins and the product are taken from this checkout: Snakemake finds plugins by their names on
the path of modules.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "plugins"
REQUIREMENTS = ROOT / "requirements" / "snakemake.txt"


def snakemake_environment() -> Path:
    """The directory of its programs, made if need be. Fails with what pip said."""
    name = sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lading-tests"
    cache.mkdir(parents=True, exist_ok=True)
    place = cache / f"snakemake-{name}"
    with (cache / f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            _run(sys.executable, "-m", "venv", "--clear", str(place))
            pip = (str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check")
            _run(*pip, "install", "-q", "--require-hashes", "-r", str(REQUIREMENTS))
            (place / "complete").touch()
    return place / "bin"


def variables() -> dict[str, str]:
    """The variables with which its programs find the plugins and the product of this checkout."""
    programs = snakemake_environment()
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    modules = (ROOT / "src", *(one for one in PLUGINS.iterdir() if one.is_dir()))
    return {"PATH": path, "PYTHONPATH": ":".join(map(str, modules))}


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr[-2000:]}"
