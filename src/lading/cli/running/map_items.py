"""The items of `lading map`: the files that match patterns, or the rows of a table.

A record holds UTF-8 text only. A file name of other bytes is spelled in the command, as in an
output (`core.data.raw_names`); the input itself is read under its own name.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lading.core.data import raw_names
from lading.core.data.tables import read_table
from lading.core.errors import Invalid


@dataclass(frozen=True, slots=True)
class MapItem:
    """One item: its values by the names of placeholders, and its origin for messages."""

    origin: str
    values: Mapping[str, str]

    @property
    def texts(self) -> dict[str, str]:
        """The values as text of a record: names of files that are not UTF-8 are spelled."""
        return {name: _spelled(value) for name, value in self.values.items()}


def files_of(patterns: Sequence[str]) -> list[MapItem]:
    """The files that match, each once. As in a shell, a wildcard matches no name that begins with
    a dot. Raises Invalid when none matches.
    """
    paths = dict.fromkeys(path for pattern in patterns for path in _matching(pattern))
    if not paths:
        raise Invalid(f"{', '.join(patterns)}: nothing to do: no file matches")
    return [
        MapItem(path, {"": path, "name": Path(path).name, "stem": Path(path).stem})
        for path in paths
    ]


def rows_of(path: Path) -> list[MapItem]:
    """The rows of a table. Raises Invalid for one that cannot be read or has no rows."""
    try:
        table = read_table(path.read_bytes())
    except OSError as error:
        raise Invalid(f"{path}: cannot be read: {error.strerror}") from error
    except Invalid as error:
        raise Invalid(f"{path}: {error.message}") from error
    if not table.rows:
        raise Invalid(f"{path}: nothing to do: no row")
    return [
        MapItem(f"{path}: line {row.line}", {"": row.values[table.columns[0]], **row.values})
        for row in table.rows
    ]


def _matching(pattern: str) -> Iterator[str]:
    """The paths that match, sorted; relative to the working directory, or absolute."""
    # Path.glob would match hidden names, such as those that macOS writes beside each file.
    paths = glob.iglob(pattern, recursive=True)  # noqa: PTH207
    yield from sorted(str(Path(path)) for path in paths)


def _spelled(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        return "/".join(raw_names.spell(name) for name in value.split("/"))
    return value
