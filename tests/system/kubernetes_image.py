"""The image of `make image`, built again when anything in it has changed."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from tests.system.environments import ROOT

# What the image is made of.
_SOURCES = ("src", "scripts", "packaging", "requirements/server.txt", "pyproject.toml")
_PATIENCE = 1800.0


def image_archive() -> tuple[Path, str]:
    """The archive and the name of the image. Needs mmdebstrap; takes some minutes when it is
    built.
    """
    note = ROOT / "dist" / "image-of"
    content = _content()
    told = note.read_text().split("\n") if note.exists() else []
    if told[:1] != [content] or not Path(told[1]).exists():
        done = subprocess.run(
            [str(ROOT / "scripts" / "image.sh")],
            capture_output=True, text=True, timeout=_PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"scripts/image.sh: {done.stderr[-2000:]}"
        told = [content, done.stdout.splitlines()[-1]]
        note.write_text("\n".join(told))
    archive = Path(told[1])
    return archive, f"lading:{archive.name.split('-')[1]}"


def _content() -> str:
    """A hash of the files that the image is made of."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *_SOURCES],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout  # fmt: skip
    digest = hashlib.sha256()
    for name in sorted(filter(None, listed.decode().split("\0"))):
        path = ROOT / name
        if path.is_file():
            digest.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
