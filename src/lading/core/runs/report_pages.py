"""A report on a run as one HTML page without scripts, or as Markdown. All texts are escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Final

from lading.core.drawing.gantt import Timeline, lay_out
from lading.core.drawing.layered import layers
from lading.core.quantities import duration, shorten
from lading.core.runs.report import ReportTable, RunReport

_MOST_ROWS: Final = 200
"""Rows of the time line, which has one row for each step beyond."""
_WIDTH: Final = 720
"""Pixels of the time line."""
_NAMES: Final = 200
"""Pixels of the names beside it."""
_ROW: Final = 22
_NODE: Final = (180, 40)
_GAP: Final = (60, 16)
_COLOURS: Final = {
    "done": "#2e7d32",
    "failed": "#c62828",
    "cancelled": "#8d6e63",
    "running": "#0277bd",
    "waiting": "#9e9e9e",
}
_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; }
th, td { border-bottom: 1px solid #8884; padding: .2rem .8rem .2rem 0; text-align: left;
  vertical-align: top; overflow-wrap: anywhere; }
pre { background: #8882; overflow-x: auto; padding: .6rem; }
svg { display: block; height: auto; max-width: 100%; }
svg text { fill: currentColor; font-size: 12px; }
h2 { margin-top: 2rem; }
"""
# Characters with a meaning in Markdown, and those that begin HTML.
_MARKS: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def write_html(report: RunReport) -> str:
    """The report as one page."""
    return "".join(_html(report))


def write_markdown(report: RunReport) -> str:
    """The report as GitHub-flavoured Markdown."""
    return "\n".join(_markdown(report)) + "\n"


def _html(report: RunReport) -> Iterator[str]:
    title = escape(f"{report.title}: {report.state}")
    yield f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{_STYLE}</style></head><body><h1>{title}</h1>\n<table>"
    for name, value in report.facts:
        yield f"<tr><th scope=row>{escape(name)}</th><td>{escape(value)}</td></tr>"
    yield "</table>\n"
    if report.failures:
        yield "<h2>Failures</h2>\n"
    for failure in report.failures:
        yield f"<h3>{escape(failure.name)}: {escape(failure.fault)}</h3>"
        yield f"<p>{escape(failure.uuid)}</p>"
        if failure.lines:
            yield f"<pre>{escape(chr(10).join(failure.lines))}</pre>\n"
    if report.groups:
        yield f"<h2>Graph</h2>\n{_graph(report)}<h2>Timeline</h2>\n{_timeline(report)}"
    for table in report.tables:
        if table.rows:
            yield _table(table)
    if report.warnings:
        items = "".join(f"<li>{escape(warning)}</li>" for warning in report.warnings)
        yield f"<h2>Warnings</h2><ul>{items}</ul>\n"
    yield "</body></html>\n"


def _table(table: ReportTable) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in table.headings)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows
    )
    return f"<h2>{escape(table.title)}</h2>\n<table><tr>{head}</tr>{rows}</table>\n"


def _timeline(report: RunReport) -> str:
    chart = lay_out(report.tasks, now=report.now, width=_WIDTH, most=_MOST_ROWS)
    height = (len(chart.rows) + 1) * _ROW
    label = escape(f"Timeline of {len(report.tasks)} requests")
    box = f'viewBox="0 0 {_NAMES + _WIDTH + 8} {height}" width="{_NAMES + _WIDTH + 8}"'
    return f'<svg role="img" aria-label="{label}" {box}>{"".join(_bars(chart))}</svg>\n'


def _bars(chart: Timeline) -> Iterator[str]:
    for number, row in enumerate(chart.rows):
        top = number * _ROW
        worst = next(
            (state for state in _COLOURS if state != "done" and state in row.states), "done"
        )
        name = escape(shorten(row.name, 28))
        yield f'<text x="0" y="{top + 15}">{name}</text>'
        yield _bar(row.waiting.x, row.waiting.width, top, _COLOURS["waiting"], 0.4)
        if row.running is not None:
            reused = all(task.is_reused for task in row.tasks)
            opacity = 0.45 if reused else 1.0
            yield _bar(row.running.x, row.running.width, top, _COLOURS[worst], opacity)
    span = duration(chart.end - chart.begin)
    bottom = len(chart.rows) * _ROW + 15
    yield f'<text x="{_NAMES}" y="{bottom}">0</text>'
    yield f'<text x="{_NAMES + _WIDTH}" y="{bottom}" text-anchor="end">{escape(span)}</text>'


def _bar(x: float, width: float, top: int, colour: str, opacity: float) -> str:
    place = f'x="{_NAMES + x:.1f}" y="{top + 3}" width="{max(width, 2):.1f}" height="14"'
    return f'<rect {place} fill="{colour}" fill-opacity="{opacity}" rx="2"/>'


def _graph(report: RunReport) -> str:
    groups = {group.name: group for group in report.groups}
    columns = layers(list(groups), report.edges)
    (width, height), (across, down) = _NODE, _GAP
    corner = {
        name: (column * (width + across), row * (height + down))
        for column, names in enumerate(columns)
        for row, name in enumerate(names)
    }
    parts: list[str] = []
    for first, second in report.edges:
        (x, y), (to_x, to_y) = corner[first], corner[second]
        start, end = f"{x + width} {y + height // 2}", f"{to_x} {to_y + height // 2}"
        middle = (x + width + to_x) // 2
        curve = f"M{start} C{middle} {y + height // 2} {middle} {to_y + height // 2} {end}"
        parts.append(f'<path d="{curve}" fill="none" stroke="#888" stroke-width="1.5"/>')
    for name, (x, y) in corner.items():
        counts = groups[name].counts
        colour = _COLOURS[str(groups[name].state)]
        box = f'x="{x}" y="{y}" width="{width}" height="{height}"'
        parts.append(f'<rect {box} fill="{colour}" fill-opacity=".15" stroke="{colour}" rx="4"/>')
        parts.append(f'<text x="{x + 8}" y="{y + 17}">{escape(shorten(name, 24))}</text>')
        told = (
            f"{counts.done} of {counts.total}{f', {counts.failed} failed' if counts.failed else ''}"
        )
        parts.append(f'<text x="{x + 8}" y="{y + 33}">{escape(told)}</text>')
    right = len(columns) * (width + across)
    bottom = max(len(names) for names in columns) * (height + down)
    label = escape(f"Graph of {len(groups)} steps")
    box = f'viewBox="-2 -2 {right + 4} {bottom + 4}" width="{right}"'
    return f'<svg role="img" aria-label="{label}" {box}>{"".join(parts)}</svg>\n'


def _markdown(report: RunReport) -> Iterator[str]:
    yield f"# {_plain(report.title)}: {report.state}"
    yield ""
    yield from _rows(("", ""), report.facts)
    if report.failures:
        yield "## Failures"
        yield ""
    for failure in report.failures:
        yield f"- **{_plain(failure.name)}** ({failure.uuid}): {_plain(failure.fault)}"
        # Indented, so that no line of a command can end it.
        yield from ("", *(f"      {line}" for line in failure.lines), "")
    for table in report.tables:
        if table.rows:
            yield f"## {table.title}"
            yield ""
            yield from _rows(table.headings, table.rows)
    if report.warnings:
        yield "## Warnings"
        yield ""
        yield from (f"- {_plain(warning)}" for warning in report.warnings)


def _rows(headings: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for row in rows:
        yield f"| {' | '.join(_plain(cell) for cell in row)} |"
    yield ""


def _plain(cell: str) -> str:
    return _MARKS.sub(r"\\\1", " ".join(cell.split()))
