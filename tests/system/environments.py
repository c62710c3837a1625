"""Environments of programs that tests drive the server with: made once for each machine, beside
nothing of ours.

Each is kept in the user's cache directory, named by what is in it, so that only the first run asks
the package index.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[2]


def environment(name: str, requirements: str, *options: str) -> Path:
    """The directory of the programs that a file of `requirements/` pins, made if need be. `options`
    are further ones of pip. Fails with what pip said.
    """
    pins = ROOT / "requirements" / requirements

    def make(place: Path) -> None:
        _run(sys.executable, "-m", "venv", "--clear", str(place))
        pip = (str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check")
        _run(*pip, "install", "-q", "--require-hashes", *options, "-r", str(pins))

    return kept(name, pins.read_bytes() + sys.version.encode(), make) / "bin"


def kept(name: str, content: bytes, make: Callable[[Path], None]) -> Path:
    """The directory of this name and content in the user's cache directory; `make` fills it if it
    was never completed.
    """
    key = sha256(content).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lading-tests"
    cache.mkdir(parents=True, exist_ok=True)
    place = cache / f"{name}-{key}"
    with (cache / f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            make(place)
            (place / "complete").touch()
    return place


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr[-2000:]}"
