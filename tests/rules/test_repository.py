"""What must not be committed: addresses of registries, paths of one machine, built packages."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

from tests.rules.sources import ROOT, refuse

REGISTRY = re.compile(
    r"--(?:extra-)?index-url|--find-links|files\.pythonhosted|pypi\.(?:org|io)|"
    r"registry *[=:] *.?https?:|" + r"deb\.debian" + r"\.org"
)
BUILT = (".deb", ".egg", ".pyc", ".so", ".whl")
MACHINE = re.compile(r"(?<![\w.])/(?:root|work)/[a-z]")


@cache
def _paths() -> tuple[Path, ...]:
    """The committed files."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    return tuple(ROOT / name for name in listed.decode().split("\0") if name)


@cache
def _committed() -> dict[Path, str]:
    """The texts of committed files."""
    return {
        path: path.read_text(errors="replace")
        for path in _paths()
        if path.suffix not in (".gz", ".png", ".fa") and path.is_file()
    }


def _matches(pattern: re.Pattern[str], *, skip: Path) -> list[str]:
    found = []
    for path, text in _committed().items():
        if path == skip or not pattern.search(text):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    return found


def test_no_registry_is_named() -> None:
    refuse(_matches(REGISTRY, skip=Path(__file__)))


def test_no_path_of_one_machine() -> None:
    refuse(_matches(MACHINE, skip=Path(__file__)))


def test_nothing_built_is_committed() -> None:
    refuse(path.relative_to(ROOT) for path in _paths() if path.suffix in BUILT)
