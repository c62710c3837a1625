"""The command line of the children."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.wiring.process import parse_options


def test_all_is_read(tmp_path: Path) -> None:
    arguments = [
        "--data",
        str(tmp_path),
        "--listen",
        "127.0.0.1:1",
        "--parent",
        "7",
        "--ready-fd",
        "3",
    ]
    options = parse_options("x", arguments)
    assert options.directory.socket == tmp_path / "api.sock"
    another = parse_options("x", [*arguments, "--socket", str(tmp_path / "b.sock")])
    assert another.directory.socket == tmp_path / "b.sock"
    assert (options.directory.root, options.listen, options.parent, options.ready) == (
        tmp_path,
        "127.0.0.1:1",
        7,
        3,
    )


def test_something_missing_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_options("x", ["--data", "d"])
    assert "--listen" in capsys.readouterr().err
