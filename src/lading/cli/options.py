"""Options of commands: types of their values, and sections of `--help`.

Values are sizes and ranges, durations and moments, assignments. The most needed sections come
first.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from lading.cli.exit_codes import pass_on
from lading.cli.running.inputs import Input, parse_input
from lading.cli.running.secrets import SecretOption, parse_secret
from lading.client.request_options import LEAST_RAM, parse_moment, parse_seconds, parse_span
from lading.core.errors import Invalid
from lading.core.quantities import parse_size

_Command = TypeVar("_Command", bound=Callable[..., Any])
site_config_option = click.option(
    "--config", type=click.Path(dir_okay=False, exists=True, path_type=Path), required=True,
    help="Configuration: config.yml of 'lading up', or the file of 'lading dispatch'.",
)  # fmt: skip
"""The configuration that the test of a cloud or a cluster reads."""


class _Size(click.ParamType[int]):
    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_size(value)
        except Invalid as error:
            self.fail(error.message, param, ctx)


class _Duration(click.ParamType[int]):
    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_seconds(value)
        except Invalid as error:
            self.fail(error.message, param, ctx)


class _Span(click.ParamType[int | list[int]]):
    """A number, or a least and a largest one."""

    name = "span"

    def __init__(self, parse: Callable[[str], int], example: str, least: int = 1) -> None:
        self._parse = parse
        self._example = example
        self._least = least

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | list[int]:
        if isinstance(value, int | list):
            return value
        try:
            return parse_span(value, self._parse, example=self._example, least=self._least)
        except Invalid as error:
            self.fail(error.message, param, ctx)


class _Moment(click.ParamType[str]):
    """A moment of time in the form of the API; given as a time, or as a duration from now."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return parse_moment(str(value), now=datetime.now().astimezone())
        except Invalid as error:
            self.fail(error.message, param, ctx)


class _Property(click.ParamType[tuple[str, Any]]):
    """`K=V`; V is JSON if it can be parsed as such, else a text."""

    name = "property"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Any]:
        if isinstance(value, tuple):
            return value
        name, separator, written = str(value).partition("=")
        if not name or not separator:
            self.fail(f"{value!r} is not K=V", param, ctx)
        try:
            return name, msgspec.json.decode(written)
        except (msgspec.DecodeError, UnicodeError):
            return name, written


class _Assignment(click.ParamType[tuple[str, str]]):
    """`K=V`, or `K` for the value in the environment of this process."""

    name = "assignment"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, separator, text = str(value).partition("=")
        if not name:
            self.fail(f"{value!r} is not K=V", param, ctx)
        if not separator and name not in os.environ:
            self.fail(f"{name} is not set here; write {name}=VALUE", param, ctx)
        return name, text if separator else os.environ[name]


class _Input(click.ParamType[Input]):
    name = "input"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Input:
        try:
            return value if isinstance(value, Input) else parse_input(str(value))
        except Invalid as error:
            self.fail(error.message, param, ctx)


class _Secret(click.ParamType[SecretOption]):
    """`NAME[=VALUE|@FILE]`."""

    name = "secret"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> SecretOption:
        try:
            return value if isinstance(value, SecretOption) else parse_secret(str(value))
        except Invalid as error:
            self.fail(error.message, param, ctx)


class _Retry(click.ParamType[tuple[str, dict[str, Any]]]):
    """`CLASS=LIMIT[,delay=TIME][,factor=NUMBER][,most=SIZE]`."""

    name = "retry"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, dict[str, Any]]:
        if isinstance(value, tuple):
            return value
        # Imported here: most commands have no rule.
        from lading.core.containers.attempts.retry_rules import parse_rule, read_rules

        name, _, text = str(value).partition("=")
        try:
            rule = parse_rule(text)
            read_rules("retry", {name: dict(rule)})
        except Invalid as error:
            self.fail(
                f"{value!r}: {error.message}; write for example oom=3,factor=2,most=64GiB",
                param,
                ctx,
            )
        return name, dict(rule)


SIZE = _Size()
SIZES = _Span(parse_size, "2GiB-8GiB", least=LEAST_RAM)
NUMBERS = _Span(int, "2-8")
MOMENT = _Moment()
PROPERTY = _Property()
DURATION = _Duration()
ASSIGNMENT = _Assignment()
RETRY = _Retry()
INPUT = _Input()
SECRET = _Secret()


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
        for parameter in self.get_params(ctx):
            shown = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if shown is not None:
                sections.setdefault(getattr(parameter, "section", "Options"), []).append(shown)
        # Removed and added again: moves it to the end.
        sections["Options"] = sections.pop("Options", [])
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class PassingCommand(SectionedCommand):
    """A command that ends with the exit code of what it runs; its own failures are 125."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As `click.Command`; wrong usage is a failure of its own too."""
        pass_on(ctx)
        return super().parse_args(ctx, args)


secret_option = click.option(
    "--secret", "secrets", type=SECRET, multiple=True, metavar="NAME[=VALUE|@FILE]",
    help="A secret that the request needs; without a value it is asked for.",
)  # fmt: skip
"""The secrets of requests that are run again."""


def option_of(section: str) -> Callable[..., Callable[[_Command], _Command]]:
    """`click.option` for the options of one section."""

    def option(*names: str, **more: Any) -> Callable[[_Command], _Command]:
        return click.option(*names, cls=SectionedOption, section=section, **more)

    return option
