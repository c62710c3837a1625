"""Secrets of a command line: `--secret NAME[=VALUE|@FILE]`, and advice where --env has one.

A value comes from a file, from standard input (`NAME=@-`), or is asked for on the terminal where
only the name is given: so it is neither in the history of the shell nor in a list of processes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from lading.cli import display
from lading.core import secrets
from lading.core.errors import Invalid
from lading.core.values import JsonObject

if TYPE_CHECKING:
    from lading.client.api import Record

_PIPE: Final = "-"


class SecretOption(msgspec.Struct, frozen=True):
    """One `--secret`. Without `value` and `path` the value is asked for."""

    name: str
    value: str | None = None
    path: str | None = None

    def __repr__(self) -> str:
        """Without the value."""
        return f"SecretOption({self.name!r})"


def parse_secret(option: str) -> SecretOption:
    """Parse NAME[=VALUE|@FILE]. Raises Invalid."""
    return SecretOption(*secrets.parse_option(option))


def read_secrets(options: Sequence[SecretOption], *, needed: Iterable[str] = ()) -> dict[str, str]:
    """The contents of secrets by their names. A `needed` secret without an option is asked
    for where there is a terminal, else left out. Raises Invalid.
    """
    contents: dict[str, str] = {}
    exposed = []
    for option in options:
        if option.name in contents:
            raise click.UsageError(f"--secret {option.name}: given twice")
        contents[option.name] = _read(option)
        exposed += [option.name] if option.value is not None else []
    if exposed:
        name = exposed[0]
        display.note(
            f"{', '.join(exposed)}: is in the history of your shell and the list of processes; "
            f"give {name}=@FILE, {name}=@- for a pipe, or {name} alone, which asks"
        )
    if is_terminal():
        asked = (name for name in needed if name not in contents)
        contents |= {name: _ask(name) for name in asked}
    return contents


def read_needed(
    options: Sequence[SecretOption], requests: Iterable[Mapping[str, Any]]
) -> dict[str, str]:
    """The contents of the secrets that requests need, by their names, given or asked for. Raises
    UsageError for one that none of them needs, Invalid.
    """
    needed = dict.fromkeys(
        name
        for request in requests
        for name in secrets.needed_names(request.get("secrets_needed") or ())
    )
    unneeded = next((option.name for option in options if option.name not in needed), None)
    if unneeded is not None:
        raise click.UsageError(f"--secret {unneeded}: no request that is run needs it")
    return read_secrets(options, needed=needed)


def secrets_again(request: Record, contents: Mapping[str, str]) -> JsonObject:
    """The attributes of a request that repeats `request`, for its secrets. Raises Invalid where
    `contents` lack one.
    """
    try:
        mounts = secrets.restored(request.get("secrets_needed") or (), contents)
    except Invalid as error:
        raise Invalid(f"{request['uuid']}: {error.message}") from None
    return {"secret_mounts": mounts} if mounts else {}


def is_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty()


def takes_standard_input(options: Iterable[SecretOption]) -> bool:
    """Whether one of the secrets is read from standard input."""
    return any(option.path == _PIPE for option in options)


def advise(names: Iterable[str]) -> None:
    """Advise to use --secret, in one line, if one of these variables of --env looks like a
    secret.
    """
    telling = [name for name in names if secrets.is_telling(name)]
    if telling:
        display.note(
            f"{', '.join(telling)}: --env is shown to everybody who may read the request; "
            f"for a secret use --secret {telling[0]}"
        )


def _read(option: SecretOption) -> str:
    if option.value is not None:
        return option.value
    if option.path is None:
        if not is_terminal():
            raise Invalid(
                f"--secret {option.name}: there is no terminal to ask for it; "
                f"give {option.name}=@FILE, or {option.name}=@- for standard input"
            )
        return _ask(option.name)
    if option.path == _PIPE:
        data = sys.stdin.buffer.read(secrets.LARGEST + 1)
    else:
        try:
            with Path(option.path).open("rb") as file:
                data = file.read(secrets.LARGEST + 1)
        except OSError as error:
            raise Invalid(f"--secret {option.name}: {option.path}: {error.strerror}") from error
    return secrets.read_content(option.name, data)


def _ask(name: str) -> str:
    answer: str = click.prompt(f"secret {name}", hide_input=True, err=True)
    return answer
