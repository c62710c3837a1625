"""Inputs as the command line has them: `TARGET=SOURCE`."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import click
import msgspec

from lading.cli.references import FileReference, need_reference
from lading.core.errors import Invalid

STDIN = "stdin"
"""The target that is no path: the standard input of the command."""

LINKS = "--links"
LINKS_OPTION: dict[str, Any] = {
    # The values of `client.files.listing.LinkPolicy`, whose import most calls do not need.
    "type": click.Choice(["follow", "skip", "fail"]),
    "default": "follow",
    "show_default": True,
    "help": "Links on disk: follow them; skip also leaves out what cannot be stored; fail refuses"
    " each.",
}


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed `--input TARGET=SOURCE`: a path on disk, or stored data."""

    target: str
    path: Path | None = None
    stored: FileReference | None = None


def parse_input(argument: str) -> Input:
    """Parse `TARGET=SOURCE`. Raises Invalid."""
    target, separator, source = argument.partition("=")
    if not separator or not source:
        raise Invalid(f"{argument}: not TARGET=SOURCE; write for example /in/reads.fq=reads.fq")
    if target != STDIN and not _is_target(target):
        raise Invalid(
            f"{argument}: TARGET must be an absolute path in the container without '..', or stdin"
        )
    path = Path(source)
    # A file of this name has precedence over stored data.
    if path.exists():
        return Input(target=target, path=path)
    # A text in the form of a path is no name.
    if source.startswith(("/", ".", "~")):
        raise Invalid(f"{argument}: {source} is no file here")
    return Input(target=target, stored=need_reference(source))


def _is_target(target: str) -> bool:
    # ".." could leave the directory of the mount.
    return target.startswith("/") and target != "/" and ".." not in PurePosixPath(target).parts
