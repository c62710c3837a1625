"""The compiler has no warning for `lading-start`, also when it follows all paths of a function."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import lading.supervisor
from tests.reality import need_program

SOURCES = sorted((Path(lading.supervisor.__file__).parent / "starter").glob("*.c"))
FLAGS = (
    "-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Wshadow",
    "-Wformat=2", "-Wundef", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Wcast-qual",
    "-Wvla", "-Werror",
)  # fmt: skip


@pytest.fixture(scope="module")
def analyzer() -> tuple[str, ...]:
    """The flag of gcc that follows all paths; other compilers have none."""
    need_program("cc")
    asked = subprocess.run(
        ["cc", "-fanalyzer", "-E", "-x", "c", "/dev/null"], capture_output=True, check=False
    )
    return ("-fanalyzer",) if asked.returncode == 0 else ()


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_no_file_has_a_warning(source: Path, analyzer: tuple[str, ...]) -> None:
    compiled = subprocess.run(
        ["cc", *FLAGS, *analyzer, "-c", "-o", "/dev/null", source],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (compiled.returncode, compiled.stderr) == (0, "")
