"""The examples of docs/plugins.md run as a plug-in's author would run them, and pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import blocks

KINDS = ("volume", "engine", "fleet", "driver")


def test_the_examples_pass_their_suites(tmp_path: Path) -> None:
    examples = [one for one in blocks("docs/plugins.md") if one.language == "python"]
    assert len(examples) == len(KINDS)
    for kind, example in zip(KINDS, examples, strict=True):
        (tmp_path / f"test_{kind}.py").write_text(example.text)
    settings = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    (tmp_path / "pytest.ini").write_text(settings)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
