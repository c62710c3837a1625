"""Tables of items, as CSV or TSV text: what spreadsheets and scripts write.

The first line names the columns (RFC 4180, 2.3). The separator is the first of tab, comma and
semicolon that the line has; spreadsheets of languages with a decimal comma write semicolons. The
text is UTF-8, with or without a byte order mark, or UTF-16 with one.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lading.core.errors import Invalid
from lading.core.quantities import shorten

_SEPARATORS: Final = ("\t", ",", ";")
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
# Byte order marks.
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row: the number of its last line, from 1, and its values by the names of the columns."""

    line: int
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Table:
    """The names of the columns in their order, and the rows."""

    columns: Sequence[str]
    rows: Sequence[TableRow]


def read_table(content: bytes) -> Table:
    """The table in a file. Lines without any value are left out.

    Raises Invalid for text in another encoding, a first line without a name for each column or with
    one name twice, and a row of another length.
    """
    lines = _LINE.findall(_decode(content))
    separators = [separator for separator in _SEPARATORS if lines and separator in lines[0]]
    reader = csv.reader(lines, delimiter=separators[0] if separators else ",", strict=True)
    rows = list[TableRow]()
    try:
        columns = [name.strip() for name in next(reader, ())]
        _check_columns(columns)
        for values in reader:
            if len(values) not in (0, len(columns)):
                raise Invalid(
                    f"line {reader.line_num} has not {len(columns)} columns, but {len(values)}"
                )
            if values:
                rows.append(TableRow(reader.line_num, dict(zip(columns, values, strict=True))))
    except csv.Error as error:
        raise Invalid(f"line {reader.line_num}: {error}") from error
    return Table(columns, rows)


def _check_columns(columns: Sequence[str]) -> None:
    if not columns or not all(columns):
        raise Invalid("its first line must have the names of the columns")
    repeated = [name for name, count in Counter(columns).items() if count > 1]
    if repeated:
        raise Invalid(
            f"its first line names the column {shorten(repeated[0], 100)} twice;"
            " give each column a name of its own"
        )


def _decode(content: bytes) -> str:
    encoding = "utf-16" if content.startswith(_UTF_16) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Invalid(
            f"line {line} is not UTF-8 text; save the table as UTF-8 (in a spreadsheet: CSV UTF-8)"
        ) from error
