from __future__ import annotations

from pathlib import Path

import pytest

from bench.funnel import find_funnel


def test_the_program_is_named_or_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_funnel(None) is None
    program = tmp_path / "funnel"
    program.write_text("")
    program.chmod(0o755)
    assert find_funnel(None) == find_funnel(program) == program
    assert find_funnel(tmp_path / "none") is None
