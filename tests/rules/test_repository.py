"""What must not stand in a committed file: addresses of registries, paths of one machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
REGISTRY = re.compile(
    r"--(?:extra-)?index-url|--find-links|files\.pythonhosted|pypi\.(?:org|io)|"
    r"registry *[=:] *.?https?:|" + r"deb\.debian" + r"\.org"
)
MACHINE = re.compile(r"(?<![\w.])/(?:root|work)/[a-z]")


def _committed() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    return [ROOT / name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()]


def _matches(pattern: re.Pattern[str], *, skip: Path) -> list[str]:
    found = []
    for path in _committed():
        if path == skip or path.suffix in (".gz", ".png", ".fa"):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    return found


def test_no_registry_is_named() -> None:
    assert _matches(REGISTRY, skip=Path(__file__)) == []


def test_no_path_of_one_machine() -> None:
    assert _matches(MACHINE, skip=Path(__file__)) == []
