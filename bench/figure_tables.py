"""The tables of kept figures in the documents, between comments that name their part:

<!-- figures: machines -->
...
<!-- end of figures -->
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

_END: Final = "<!-- end of figures -->"
_COLUMNS: Final = (
    ("p50", "p50"),
    ("p99", "p99"),
    ("rate", "rate"),
    ("server", "server"),
    ("database", "database"),
    ("client", "others"),
    ("target", "promise"),
)


def fill(page: str, part: str, content: Mapping[str, Any]) -> str:
    """The text of a page with the table of what `report.keep` wrote for a part in its place; as it
    is where it has no such place.
    """
    start = re.escape(f"<!-- figures: {part} -->")
    place = re.compile(rf"({start}\n).*?({re.escape(_END)})", re.DOTALL)
    return place.sub(lambda found: f"{found[1]}{table(content)}\n{found[2]}", page)


def table(content: Mapping[str, Any]) -> str:
    """The figures as a table of Markdown, below a line that says where and when; columns without an
    entry are left out.
    """
    rows = [row for row in content["figures"] if row["count"]]
    used = [(key, title) for key, title in _COLUMNS if any(_cell(row, key) for row in rows)]
    machine = content["machine"]
    lines = [
        f"{machine['kind']}; {content['measured_at'][:10]}; load of the last quarter of an hour "
        f"{machine['load']}:",
        "",
        _line(["what", *(title for _, title in used)]),
        _line(["---"] * (len(used) + 1)),
    ]
    return "\n".join(
        [*lines, *(_line([row["name"], *(_cell(row, key) for key, _ in used)]) for row in rows)]
    )


def _cell(row: Mapping[str, Any], key: str) -> str:
    value = row[key]
    if value is None or value == "":
        return ""
    if key == "target":
        return f"{value}: {'kept' if row['met'] else 'broken'}"
    if key == "rate":
        unit = row["unit"]
        return f"{_number(value)}{unit if unit.startswith('/') else f' {unit}'}"
    return f"{_number(value)} ms" if value < 10_000 else f"{value / 1000:.1f} s"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
