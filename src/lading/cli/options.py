"""Values of options: sizes, durations, assignments."""

from __future__ import annotations

import os
from typing import Any

import click

from lading.cli.submission import Input, parse_input
from lading.config import parse_duration, parse_size
from lading.core.errors import Invalid


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
            return round(parse_duration(float(value) if str(value).isdigit() else value))
        except Invalid as error:
            self.fail(error.message, param, ctx)


class _Assignment(click.ParamType[tuple[str, str]]):
    """`K=V`, or `K` for the value that this process has."""

    name = "assignment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
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

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Input:
        try:
            return value if isinstance(value, Input) else parse_input(str(value))
        except Invalid as error:
            self.fail(error.message, param, ctx)


SIZE = _Size()
DURATION = _Duration()
ASSIGNMENT = _Assignment()
INPUT = _Input()
