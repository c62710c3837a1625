"""Reports as HTML and as Markdown: whole, and safe whatever the texts are."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lading.core.runs.report import RunReport, make_report
from lading.core.runs.report_pages import write_html, write_markdown
from lading.core.runs.step_groups import read_step
from tests.core.runs.test_report import RUN, T1, T2, item

ODD = "<script>alert(1)</script>|`*_"


def reported(name: str) -> RunReport:
    """A report in which each text is the given one."""
    steps = [
        read_step(item("a", name=name, output="1", started_at=T1, finished_at=T2)),
        read_step(item("b", name="reused", is_reused=True, inputs=["1"])),
        read_step(
            item("c", name=f"{name} c", state="failed", exit_code=1, depends_on=["a"],
                 runtime_status={"warning": name})
        ),
    ]  # fmt: skip
    # Its log cannot be read.
    steps.append(read_step(item("d", name="silent", state="failed", exit_code=2)))
    run: dict[str, Any] = {**RUN, "name": name, "note": name, "params": {name: name}}
    return make_report(run, steps, user=name, lines={"c": [name]}, now=1767323050.0)


class Tags(HTMLParser):
    """Collects the tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)


@given(st.text(min_size=1, max_size=20) | st.just(ODD))
def test_no_text_becomes_markup(name: str) -> None:
    page, plain = Tags(), Tags()
    page.feed(write_html(reported(name)))
    plain.feed(write_html(reported("plain")))
    assert page.tags == plain.tags
    assert "script" not in page.tags


def test_both_forms_have_all_parts() -> None:
    page, text = write_html(reported(ODD)), write_markdown(reported(ODD))
    for part in ("Failures", "Parameters", "Steps", "Warnings"):
        assert f"<h2>{part}</h2>" in page
        assert f"## {part}" in text
    assert "Timeline of 4 requests" in page
    assert r"\<script\>" in text
    assert not re.search(r"^<script", text, re.MULTILINE)


def test_an_empty_run() -> None:
    report = make_report({**RUN, "params": {}}, [], user="", lines={}, now=5.0)
    assert "<svg" not in write_html(report)
    assert "## Failures" not in write_markdown(report)
