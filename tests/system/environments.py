"""Environments of programs that tests drive the server with: made once for each machine, beside
nothing of ours.

Each is kept in the user's cache directory, named by a hash of its lock file, so that only the first
run asks the package index. One that was not used for two weeks is removed.

`python -m tests.system.environments LEVEL`: make those that tests of a level need.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests import levels
from tests.time_limits import untimed

ROOT: Final = Path(__file__).parents[2]
_UNUSED: Final = 14 * 86_400.0
"""Seconds after which an environment that nobody used is removed."""


@dataclass(frozen=True)
class Environment:
    """The pinned packages of one: a file of `requirements/`, and further options of pip. `level` is
    the first level of tests that needs it; a benchmark needs it where that is empty.
    """

    requirements: str
    level: str
    options: tuple[str, ...] = ()


ENVIRONMENTS: Final = {
    "arvados-client": Environment("client.txt", "test"),
    "snakemake": Environment("snakemake.txt", "test"),
    "ga4gh-clients": Environment("ga4gh-clients.txt", "test"),
    "s3-clients": Environment("s3-clients.txt", "system"),
    "crates": Environment("crates.txt", "system"),
    "libraries": Environment("libraries.txt", "system"),
    "snakemake-tes": Environment("snakemake-tes.txt", "system"),
    "toil": Environment("toil.txt", "nightly", ("--no-deps",)),
    "hyperqueue": Environment("hyperqueue.txt", ""),
}


def environment(name: str) -> Path:
    """The directory of the programs of an environment, made if need be. Fails with what pip
    said.
    """
    pinned = ENVIRONMENTS[name]
    pins = ROOT / "requirements" / pinned.requirements

    def make(place: Path) -> None:
        _run(sys.executable, "-m", "venv", "--clear", str(place))
        pip = (str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check")
        _run(*pip, "install", "-q", "--require-hashes", *pinned.options, "-r", str(pins))

    return kept(name, pins.read_bytes() + sys.version.encode(), make) / "bin"


def kept(name: str, content: bytes, make: Callable[[Path], None]) -> Path:
    """The directory of this name and content in the user's cache directory; `make` fills it if it
    was never completed.

    It is made in its place, as programs of an environment name their directory; the file `complete`
    says that all of it is there. Of several processes one makes it, and the others wait for it.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lading-tests"
    cache.mkdir(parents=True, exist_ok=True)
    place = cache / f"{name}-{sha256(content).hexdigest()[:16]}"
    with untimed(), _locked(place, fcntl.LOCK_EX):
        if not (place / "complete").exists():
            # What a process that was killed has left of it.
            shutil.rmtree(place, ignore_errors=True)
            make(place)
        (place / "complete").touch()
    _remove_unused(cache, name, keep=place)
    return place


@contextmanager
def _locked(place: Path, kind: int) -> Iterator[None]:
    """The lock of a directory. Raises BlockingIOError if another process has it and `kind` says not
    to wait.
    """
    path = place.with_name(f"{place.name}.lock")
    while True:
        with path.open("w") as lock:
            fcntl.flock(lock, kind)
            if _is_at(path, lock.fileno()):
                yield
                return


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether a path still leads to an open file: the lock is removed with its directory."""
    try:
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


def _remove_unused(cache: Path, name: str, *, keep: Path) -> None:
    """Remove the directories of a name that nobody used for long, and those that were never
    completed.
    """
    for place in cache.iterdir():
        if place == keep or not re.fullmatch(f"{re.escape(name)}-[0-9a-f]{{16}}", place.name):
            continue
        # Another process that makes it has the lock; one that removes it may be faster.
        with (
            contextlib.suppress(FileNotFoundError, BlockingIOError),
            _locked(place, fcntl.LOCK_EX | fcntl.LOCK_NB),
        ):
            if _last_use(place) < time.time() - _UNUSED:
                (place / "complete").unlink(missing_ok=True)
                shutil.rmtree(place)
                place.with_name(f"{place.name}.lock").unlink()


def _last_use(place: Path) -> float:
    complete = place / "complete"
    return (complete if complete.exists() else place).stat().st_mtime


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr[-2000:]}"


def main() -> int:
    """Make the environments of a level, those of the levels before it too."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.system.environments", description=__doc__
    )
    parser.add_argument("level", choices=levels.NAMES)
    asked = levels.NAMES[: levels.NAMES.index(parser.parse_args().level) + 1]
    for name, pinned in ENVIRONMENTS.items():
        if pinned.level in asked:
            environment(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
