"""Texts in templates."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import jinja2
import pytest

from lading.core.drawing.folding import LineageNode
from lading.web import rendering
from lading.web.rendering import Renderer, exact, tick


@pytest.fixture
def renderer() -> Renderer:
    return Renderer(lambda: datetime(2026, 1, 2, 3, 5, tzinfo=UTC))


def test_everything_is_escaped(renderer: Renderer) -> None:
    text = renderer.render("fault.html", {"title": "<b>", "text": "\"'<script>"})
    assert "&lt;b&gt;: &#34;&#39;&lt;script&gt;" in text


def test_the_age_of_a_record(renderer: Renderer) -> None:
    row = SimpleNamespace(
        state="done", reused=False, uuid="x", title="a", fault="", progress=None, seconds=None,
        created_at="2026-01-02T03:04:00.000000000Z",
    )  # fmt: skip
    group = SimpleNamespace(uuid="", rows=[row])
    listed = SimpleNamespace(groups=[group], is_grouped=False, columns=(), cells={})
    assert (
        '<time datetime="2026-01-02T03:04:00.000000000Z" title="2026-01-02 03:04:00 UTC">'
        "1 min ago</time>"
    ) in renderer.render("requests_rows.html", {"listed": listed})


def test_nothing_is_left_out_silently(renderer: Renderer) -> None:
    with pytest.raises(jinja2.UndefinedError):
        renderer.render("fault.html", {})


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("a\u202etxt.exe", "a\\u202etxt.exe"),
        ("\x1b[31m", "\\x1b[31m"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("two\nlines\tand ü", "two\nlines\tand ü"),
        (5, 5),
    ],
)
def test_misleading_characters_are_shown(given: object, shown: object) -> None:
    assert rendering.visible(given) == shown


def test_names_of_files_can_be_told_apart() -> None:
    names = ("a\tb", "a b", " a b", "a  b", "a\nb", "a\u202eb")
    assert len({exact(name) for name in names}) == len(names)
    assert exact("<a\n>") == '<span class="exact">&lt;a\\n&gt;</span>'


def test_states_have_a_word_and_a_shape() -> None:
    assert "✗</span> failed 5" in rendering.state("failed 5")
    assert "•</span> &lt;x&gt;" in rendering.state("<x>")


def test_moments_name_their_zone() -> None:
    assert rendering.moment("2026-01-02T03:04:05.123Z").endswith(">2026-01-02 03:04:05 UTC</time>")
    assert rendering.moment(None) == ""


def test_a_reused_result_has_its_own_shape() -> None:
    assert rendering.look("done, reused") == ("good", "↺")
    assert rendering.look("failed 3, reused") == ("bad", "✗")
    assert rendering.worst(["done", "failed 3", "running"]) == "failed 3"


def test_places_on_an_axis_of_time_differ() -> None:
    assert [tick(one) for one in (0.5, 30.0, 79.0, 158.0, 1200.0, 5400.0)] == [
        "0.50 s", "30 s", "1.3 min", "2.6 min", "20 min", "1.5 h",
    ]  # fmt: skip


def test_what_a_reader_must_see_comes_first() -> None:
    states = ("done", "failed 3", "running", "done", "cancelled")
    nodes = [
        LineageNode(key=f"{n}", kind="request", name=f"sort_{9 - n}0", state=one)
        for n, one in enumerate(states)
    ]
    nodes.append(LineageNode(key="5", kind="request", name="sort_7", state="done"))
    assert [one.key for one in rendering.worst_first(nodes, 5)] == ["1", "4", "2", "5", "3"]
