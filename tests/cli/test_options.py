"""Values of options."""

from __future__ import annotations

from typing import Any

import click
import pytest

from lading.cli.options import ASSIGNMENT, DURATION, INPUT, SIZE
from lading.cli.submission import Input


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (SIZE, "512MiB", 512 << 20),
        (SIZE, "1000", 1000),
        (SIZE, 5, 5),
        (DURATION, "90", 90),
        (DURATION, "2h", 7200),
        (ASSIGNMENT, "A=", ("A", "")),
        (ASSIGNMENT, ("A", "b"), ("A", "b")),
        (ASSIGNMENT, "LADING_TEST", ("LADING_TEST", "here")),
        (INPUT, Input(target="/in"), Input(target="/in")),
    ],
)
def test_values(kind: click.ParamType[Any], text: object, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LADING_TEST", "here")
    assert kind.convert(text, None, None) == value


@pytest.mark.parametrize(("kind", "text"), [(SIZE, "x"), (DURATION, "x"), (ASSIGNMENT, "=x"), (INPUT, "x")])
def test_what_is_no_value(kind: click.ParamType[Any], text: str) -> None:
    with pytest.raises(click.BadParameter):
        kind.convert(text, None, None)
