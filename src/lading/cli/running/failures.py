"""Prints the step that a failure comes from, with the last lines of its command."""

from __future__ import annotations

from lading.cli import display
from lading.client.provenance.failures import FailureReport

AMONG_OTHERS = 3
"""Failures whose last lines are shown at the end of many requests."""
LINES_AMONG_OTHERS = 5


def failure_text(report: FailureReport) -> str:
    """The failure in one paragraph: the step, if it is another one, its end, and the last lines."""
    name = f"{display.plain(report.name)} ({report.uuid}) " if report.is_other else ""
    head = f"{name}{display.plain(report.sentence)}"
    return "\n".join((head, *(f"  | {line}" for line in report.lines)))


def failure_fields(report: FailureReport | None) -> str:
    """The failure above the fields of a request; "" without one."""
    if report is None or not (report.is_other or report.lines):
        return ""
    where = f", last lines of {report.stream}" if report.lines else ""
    head, *lines = failure_text(report).split("\n")
    return "\n".join((f"{'failed step: ' if report.is_other else ''}{head}{where}", *lines))
