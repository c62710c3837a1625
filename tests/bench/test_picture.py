"""The picture of the figures that are kept."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

from bench.figure_tables import fill
from bench.picture import draw
from tests.docs.pages import ROOT

KEPT = ROOT / "docs/figures"
SVG = "{http://www.w3.org/2000/svg}"


def content(*rows: dict[str, Any]) -> dict[str, Any]:
    kept = [{"unit": "/s", "rate": None, "p50": None, "p99": None, **row} for row in rows]
    return {"measured_at": "2026-01-02T00:00:00+00:00", "machine": {"kind": "2 cores"}} | {
        "figures": kept
    }


def drawn(**row: Any) -> ElementTree.Element:
    return ElementTree.fromstring(draw(content(row)))


def test_the_longest_bar_fills_its_place_and_others_are_in_proportion() -> None:
    rows = (("crun run, two at a time", 200.0), ("Lading, 300 no-op containers", 50.0))
    picture = ElementTree.fromstring(draw(content(*({"name": n, "rate": r} for n, r in rows))))
    bars = {
        str(one.get("class")): float(one.get("width", "0"))
        for one in picture.iter(f"{SVG}rect")
        if one.get("class") != "card"
    }
    assert bars["peer"] == 4 * bars["ours"]
    words = [one.text for one in picture.iter(f"{SVG}text")]
    assert {"200", "50", "Lading, log and output saved"} <= set(words)


def test_latencies_lie_on_a_scale_of_powers_of_ten() -> None:
    picture = drawn(name="Queued to user code, one at a time", unit="ms", p50=16.0, p99=25.0)
    words = [one.text for one in picture.iter(f"{SVG}text")]
    assert {"10", "100", "16.0, 25"} <= set(words)
    assert [one.get("class") for one in picture.iter(f"{SVG}circle")] == ["ours"]


def test_nothing_lies_outside() -> None:
    picture = drawn(name="sbatch, to user code", unit="ms", p50=900.0, p99=999.0)
    width = float(picture.get("width", "0"))
    for one in picture.iter(f"{SVG}text"):
        size = 8 * len(one.text or "")
        start = float(one.get("x", "0")) - {"end": size, "middle": size / 2}.get(
            one.get("text-anchor", ""), 0
        )
        assert start >= 0
        assert start + size <= width


def test_the_kept_picture_shows_the_kept_figures() -> None:
    kept = json.loads((KEPT / "containers.json").read_text())
    assert (KEPT / "pace.svg").read_text() == draw(kept)


def test_the_page_has_the_tables_of_the_kept_figures() -> None:
    page = (ROOT / "docs/performance.md").read_text()
    for name in ("containers", "machines", "cwl"):
        assert f"<!-- figures: {name} -->" in page
        assert fill(page, name, json.loads((KEPT / f"{name}.json").read_text())) == page


def test_kept_figures_have_the_kind_of_machine_and_the_date() -> None:
    for name in ("containers", "machines", "cwl"):
        kept = json.loads((KEPT / f"{name}.json").read_text())
        assert {"kind", "processors", "memory_gib", "kernel", "python"} <= set(kept["machine"])
        assert kept["measured_at"].startswith("20")
        assert kept["figures"]
