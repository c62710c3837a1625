"""The image in which `arvados-cwl-runner --submit` runs a workflow: `arvados/jobs:VERSION`, without a registry.

It holds `arvados-cwl-runner` in a Python environment made from the package index, and Node.js of this machine for the
expressions of CWL. The environment is made once for each machine, in the user's cache directory, named by what is in
it; packages of the default version are pinned with their hashes in `runner.txt`. The image is kept beside it, until
the packages of this machine change.
"""

from __future__ import annotations

import contextlib
import fcntl
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from lading.client.images.archive import NormalImage, write_archive
from lading.client.images.from_host import Host, from_host
from lading.core.errors import Invalid, Unavailable

DEFAULT_VERSION = "3.2.1"
_VERSION = re.compile(r"\d+\.\d+[0-9A-Za-z.]*")
_PROGRAM = "arvados-cwl-runner"
# cwltool runs the steps of a workflow that is to stay in a single container.
_COMPANIONS = ("cwltool", "arv-get", "arv-put")
# Descriptions of Google's own services, and what is needed to install and to test, not to run.
_WITHOUT = re.compile(
    r".*/(site|dist)-packages/(googleapiclient/discovery_cache/documents|pip|pip-[^/]*|(.*/)?tests?)(/|$)"
    r"|/usr/lib/node_modules/|/usr/share/nodejs/(npm|corepack)/"
)
_ARCHIVE, _DESCRIPTION = "image.tar", "image.json"
_TIMEOUT = 900.0
Run = Callable[[list[str]], None]


def image_name(version: str) -> str:
    """The name that `arvados-cwl-runner` of that version looks for."""
    return f"arvados/jobs:{version}"


def build_runner(folder: Path, *, version: str, cache: Path, host: Host, run: Run) -> NormalImage:
    """The image of that version, made below the empty directory `folder` unless it was kept.

    Raises Invalid for what is no version and on a machine that lacks a program, Unavailable when the package index
    does not give what is needed.
    """
    if not _VERSION.fullmatch(version):
        raise Invalid(f"--version {version}: not a version; write for example {DEFAULT_VERSION}")
    if not any((host.root / one.lstrip("/") / "node").exists() for one in host.search):
        raise Invalid("node is not on PATH, and expressions of CWL need it; install it: apt install nodejs")
    place = environment(version, cache=cache, run=run)
    names = [*(str(place / "bin" / name) for name in (_PROGRAM, *_COMPANIONS)), "node"]
    kept = place / f"image-{_machine(host)}"
    if not kept.exists():
        image = write_archive(from_host(names, folder, host=host, without=_WITHOUT), folder / "image.tar")
        _keep(image, kept)
    described = msgspec.json.decode((kept / _DESCRIPTION).read_bytes(), type=dict[str, Any])
    return NormalImage(path=kept / _ARCHIVE, **described)


def _machine(host: Host) -> str:
    """Names what an image depends on beside the environment: the packages of the machine, and how images are made."""
    status = host.root / "var/lib/dpkg/status"
    recipe = resources.files("lading.client.images").joinpath("from_host.py").read_bytes()
    return sha256((status.read_bytes() if status.exists() else b"") + recipe).hexdigest()[:16]


def _keep(image: NormalImage, kept: Path) -> None:
    for old in kept.parent.glob("image-*"):
        shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        making = Path(folder) / "image"
        making.mkdir()
        shutil.copyfile(image.path, making / _ARCHIVE)
        described = {"digest": image.digest, "size": image.size, "created": image.created, "notes": image.notes}
        (making / _DESCRIPTION).write_bytes(msgspec.json.encode(described))
        with contextlib.suppress(OSError):
            # Somebody else may have made it meanwhile; either will do.
            making.rename(kept)


def environment(version: str, *, cache: Path, run: Run) -> Path:
    """The Python environment that holds that version, made unless it is there. Raises Unavailable."""
    pinned = resources.files("lading.client.images").joinpath("runner.txt").read_text()
    wanted = pinned if version == DEFAULT_VERSION else f"{_PROGRAM}=={version}\n"
    name = sha256(f"{wanted}{sys.version}".encode()).hexdigest()[:16]
    place = cache / f"{_PROGRAM}-{version}-{name}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            run([sys.executable, "-m", "venv", str(place)])
            requirements = place / "requirements.txt"
            requirements.write_text(wanted)
            pip = [str(place / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            run([*pip, *(["--require-hashes"] if wanted is pinned else []), "-r", str(requirements)])
            (place / "complete").touch()
    return place


def run_program(command: list[str]) -> None:
    """Run a program to its end. Raises Unavailable with its last words when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(command[:4])}: took longer than {_TIMEOUT:.0f} s; try again") from None
    if done.returncode != 0:
        words = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise Unavailable(f"the Python environment of the runner was not made: {words}; try again")
