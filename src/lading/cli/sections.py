"""Options of commands in sections of `--help`, the most needed ones first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


class SectionedOption(click.Option):
    """An option with the heading under which `--help` shows it."""

    def __init__(self, *names: Any, section: str = "Options", **more: Any) -> None:
        super().__init__(*names, **more)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose options are shown under their headings, in the order of declaration."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """All sections with their options; options without one come last."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            shown = one.get_help_record(ctx) if isinstance(one, click.Option) else None
            if shown is not None:
                sections.setdefault(getattr(one, "section", "Options"), []).append(shown)
        # Removed and added again: moves it to the end.
        sections["Options"] = sections.pop("Options", [])
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def option_of(section: str) -> Callable[..., Callable[[_Command], _Command]]:
    """`click.option` for the options of one section."""

    def option(*names: str, **more: Any) -> Callable[[_Command], _Command]:
        return click.option(*names, cls=SectionedOption, section=section, **more)

    return option
