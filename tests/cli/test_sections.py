"""Options under headings."""

from __future__ import annotations

import click
from click.testing import CliRunner

from lading.cli.options import SectionedCommand, option_of


def test_options_stand_under_their_headings() -> None:
    @click.command(cls=SectionedCommand)
    @option_of("First")("--one", help="One.")
    @option_of("Second")("--two", help="Two.")
    @option_of("First")("--three", hidden=True)
    @click.argument("word", nargs=-1)
    def command(**_: object) -> None:
        """Do it."""

    text = CliRunner().invoke(command, ["--help"]).output
    order = [
        text.index(word) for word in ("First:", "--one", "Second:", "--two", "Options:", "--help")
    ]
    assert order == sorted(order)
    assert "--three" not in text
    assert CliRunner().invoke(command, ["--one", "x", "y"]).exit_code == 0
