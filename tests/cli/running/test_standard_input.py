"""Standard input as an input; what the command gets of it is tested with `lading run`."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from lading.cli.running.standard_input import has_data, standard_input
from lading.core.errors import Invalid


def test_a_terminal_is_no_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", _Terminal())
    with pytest.raises(Invalid, match="--stdin: standard input is a terminal"), standard_input():
        pass


def test_data_that_waits_on_standard_input(tmp_path: Path) -> None:
    assert not has_data(io.StringIO("x"))
    (tmp_path / "file").write_text("x")
    with (tmp_path / "file").open() as file:
        assert has_data(file)
        file.read()
        assert not has_data(file)
    with open(os.devnull) as file:
        assert not has_data(file)
    reading, writing = os.pipe()
    with os.fdopen(reading) as pipe:
        assert not has_data(pipe)
        os.write(writing, b"x")
        assert has_data(pipe)
        os.close(writing)
    assert not has_data(pipe)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True
