"""Options of commands that submit requests: the GPUs of the container."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from lading.cli.options import option_of
from lading.core.containers.gpu_words import (
    parse_count,
    parse_kinds,
    parse_memory,
    parse_version,
)
from lading.core.errors import Invalid

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Value = TypeVar("_Value")


class _Word(click.ParamType[_Value]):
    """A word about GPUs, in the form of the API."""

    name = "word"

    def __init__(self, parse: Callable[[str], _Value]) -> None:
        self._parse = parse

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> _Value:
        try:
            return self._parse(value)
        except Invalid as error:
            self.fail(error.message, param, ctx)


def _parse_all(
    context: click.Context, option: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    try:
        return parse_kinds(texts)
    except Invalid as error:
        raise click.BadParameter(error.message, context, option) from None


def gpu_options(section: str) -> Callable[[_Command], _Command]:
    """The options, under a heading of `--help`.

    The command gets `gpus`, `gpu_memory` (bytes) and `cuda`, None where they are not given, and
    `gpu_type`, a tuple.
    """
    option = option_of(section)
    options = (
        option(
            "--gpus",
            type=_Word(parse_count),
            metavar="N",
            help="GPUs for it alone.  [default: 1 with another GPU option, else 0]",
        ),
        option(
            "--gpu-memory",
            type=_Word(parse_memory),
            metavar="SIZE",
            help="Least memory of each GPU, such as 16GiB.",
        ),
        option(
            "--gpu-type",
            multiple=True,
            callback=_parse_all,
            metavar="KIND",
            help="Least compute capability, as 8.0, or architecture, as ampere or gfx90a.",
        ),
        option(
            "--cuda",
            type=_Word(parse_version),
            metavar="VERSION",
            help="Version of CUDA that the driver supports at least, as 12.4.",
        ),
    )

    def add(command: _Command) -> _Command:
        for decorate in reversed(options):
            command = decorate(command)
        return command

    return add
