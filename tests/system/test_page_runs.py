"""Runs in a real browser on a real server: from the first screen to the line of standard error of a
failed sample in two clicks, live, clean in the eyes of axe-core.
"""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.system.cluster import Cluster
from tests.system.page_visitor import PATIENCE, Visitor, chromium, cluster, reader, visitor

__all__ = ["chromium", "cluster", "reader", "visitor"]
pytestmark = pytest.mark.system
_SAMPLES = 6
_BAD = 4


def _run(cluster: Cluster, name: str) -> str:
    """A run of some samples, of which one fails, and a step after them; its uuid."""
    for sample in range(_SAMPLES):
        script = f"echo reads of {sample} > /out/reads.txt; echo sample {sample} read >&2"
        if sample == _BAD:
            script = f"echo sample {sample} has no reads >&2; exit 3"
        cluster.lading("run", "--run", name, "--name", f"align_{sample}", "--image", "tools:1",
                       "--", "sh", "-c", script, check=False)  # fmt: skip
    cluster.lading("run", "--run", name, "--name", "plot", "--image", "tools:1",
                   "--", "sh", "-c", "echo drawn > /out/plot.txt")  # fmt: skip
    shown = json.loads(cluster.lading("runs", "show", name, "--json").stdout)
    return str(shown["uuid"])


def test_a_failed_sample_is_found_in_two_clicks(cluster: Cluster, reader: Visitor) -> None:
    _run(cluster, "cohort-7")
    page = reader.page
    reader.go("/ui/")
    clicks = 0
    page.get_by_role("link", name="cohort-7").first.click()
    clicks += 1
    failures = page.get_by_role("group", name=f"Last lines of align_{_BAD}")
    expect(failures).to_contain_text(f"sample {_BAD} has no reads")
    page.get_by_role("link", name="Whole log").first.click()
    clicks += 1
    expect(page.locator(".log")).to_contain_text(f"sample {_BAD} has no reads")
    assert clicks == 2
    reader.check()


def test_every_view_of_runs_is_clean(cluster: Cluster, visitor: Visitor) -> None:
    uuid = _run(cluster, "all views")
    for path in (
        "/ui/",
        "/ui/runs?state=failed",
        "/ui/runs?q=none",
        f"/ui/runs/{uuid}",
        f"/ui/runs/{uuid}/steps",
        f"/ui/runs/{uuid}/steps?state=failed",
        f"/ui/runs/{uuid}/graph",
        f"/ui/runs/{uuid}/timeline",
        f"/ui/runs/{uuid}/outputs",
    ):
        visitor.go(path)
        visitor.check()


def test_the_list_follows_a_run(cluster: Cluster, reader: Visitor) -> None:
    _run(cluster, "followed")
    page = reader.page
    reader.go("/ui/runs?q=followed")
    expect(page.locator("#live")).to_have_text("Live")
    cluster.lading("run", "--run", "followed-next", "--image", "tools:1", "--", "sh", "-c", ":")
    expect(page.locator("#new")).to_contain_text("newer runs", timeout=PATIENCE)
    page.get_by_role("link", name="There are newer runs").click()
    expect(page.get_by_role("link", name="followed-next")).to_be_visible()
    reader.check()
