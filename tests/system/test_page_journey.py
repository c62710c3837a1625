"""What users do on the page from morning to night, in a real browser on a real server, with SQLite
and with PostgreSQL; and every page of the table of routes by axe-core, in each look.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.system.cluster import Cluster, running_cluster
from tests.system.page_views import views
from tests.system.page_visitor import (
    LOOKS,
    PATIENCE,
    Visitor,
    chromium,
    look_at,
    make_run,
    make_template,
    need_page,
    postgres_config,
    submit,
)

__all__ = ["chromium"]
pytestmark = pytest.mark.system
_MANY = 500
_FAILING = 317


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def cluster(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    need_page()
    config = "Containers: {StopGracePeriod: 500ms, LogUpdatePeriod: 100ms}\n"
    if request.param == "postgresql":
        config += postgres_config(request)
    with running_cluster(tmp_path_factory.mktemp("journey") / "data", config) as running:
        running.lading("image", "add", "--name", "tools:1", "--from-host",
                       "sh", "seq", "sleep", "echo", "touch", "mkdir", "cat")  # fmt: skip
        yield running


@pytest.fixture
def user(cluster: Cluster, chromium: Browser) -> Iterator[Visitor]:
    """A visitor who is logged in by a link."""
    yield from look_at(cluster, chromium, "light")


@pytest.mark.quick
def test_a_request_from_the_form_to_its_end(cluster: Cluster, user: Visitor) -> None:
    page = user.page
    user.go("/ui/")
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.get_by_role("link", name="Submit a request").click()
    page.get_by_label("Name", exact=True).fill("long one")
    page.get_by_label("Image", exact=True).fill("tools:1")
    script = "echo result > /out/a.txt; while :; do echo tick; sleep 0.2; done"
    page.get_by_label("Command", exact=True).fill(f"sh -c '{script}'")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("#state .state")).to_contain_text("running", timeout=PATIENCE)
    page.keyboard.press("l")
    page.wait_for_url("**/log**")
    expect(page.get_by_text("tick").nth(3)).to_be_attached(timeout=PATIENCE)
    user.check()
    page.keyboard.press("u")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#state .state")).to_contain_text("cancelled", timeout=PATIENCE)
    user.check()


def test_the_failure_among_many_is_found(cluster: Cluster, user: Visitor, tmp_path: Path) -> None:
    table = tmp_path / "table.tsv"
    table.write_text("n\n" + "".join(f"{number}\n" for number in range(_MANY)))
    script = f"[ {{n}} -ne {_FAILING} ] || {{ echo sample {{n}} is empty >&2; exit 4; }}"
    cluster.lading(
        "map", "--image", "tools:1", "--name", "sample-{n}", "--table", str(table), "--",
        "sh", "-c", script, check=False, timeout=900,
    )  # fmt: skip
    page = user.page
    user.go("/ui/requests")
    page.get_by_role("link", name="failed", exact=True).click()
    page.get_by_role("link", name=f"sample-{_FAILING}").click()
    expect(page.get_by_text("failed 4").first).to_be_visible()
    expect(page.get_by_text(f"sample {_FAILING} is empty", exact=True)).to_be_visible()
    user.check()
    user.go("/ui/requests?q=sample-41")
    assert page.locator("#rows tr").count() == 11
    user.check()


def test_why_compare_and_browse(cluster: Cluster, user: Visitor) -> None:
    first = submit(cluster, "first", "mkdir /out/sub; echo $Q > /out/sub/a.txt", "--env", "Q=1")
    second = submit(cluster, "second", "mkdir /out/sub; echo $Q > /out/sub/a.txt", "--env", "Q=2")
    for uuid in (first, second):
        cluster.lading("wait", uuid)
    page = user.page
    user.log_in(second)
    page.keyboard.press("w")
    expect(page.get_by_text("Why", exact=True).first).to_be_visible()
    said = cluster.lading("request", "why", second).stdout
    assert "environment" in said
    expect(page.get_by_text("environment").first).to_be_attached()
    user.go(f"/ui/requests/{second}/compare?with={first}")
    expect(page.get_by_text("a.txt").first).to_be_visible()
    expect(page.get_by_role("heading", name="Differences that prevent reuse")).to_be_visible()
    user.check()
    user.go(f"/ui/requests/{second}/files")
    page.get_by_role("link", name="sub/").click()
    expect(page.get_by_role("link", name="a.txt").first).to_be_visible()
    user.check()


def test_files_are_uploaded_and_seen(cluster: Cluster, user: Visitor, tmp_path: Path) -> None:
    (tmp_path / "reads.txt").write_bytes(b"ACGT\n" * 1000)
    page = user.page
    user.go("/ui/projects")
    page.get_by_label("Collection name").fill("of the journey")
    page.get_by_role("button", name="Create and add files").click()
    page.get_by_label("Choose files").set_input_files([tmp_path / "reads.txt"])
    expect(page.get_by_role("link", name="reads.txt").first).to_be_visible(timeout=PATIENCE)
    user.check()


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_of_the_table(
    cluster: Cluster, chromium: Browser, tmp_path: Path, look: str
) -> None:
    (tmp_path / "a.txt").write_text("text")
    cluster.lading("put", "--name", f"data {look}", str(tmp_path))
    running = submit(cluster, f"runs {look}", f"echo {look}; sleep 600")
    done = submit(cluster, f"done {look}", f"echo {look} > /out/a.txt; echo said")
    cluster.lading("wait", done)
    found = json.loads(cluster.lading("ls", "--json").stdout)
    collection = next(one["uuid"] for one in found if one["name"] == f"data {look}")
    project = json.loads(cluster.lading("project", "create", "--json", f"p {look}").stdout)
    hook = cluster.lading("webhook", "create", "https://a.example/", "--json").stdout
    webhook = json.loads(hook)["uuid"]
    run = make_run(cluster, f"cohort {look}")
    template = make_template(cluster, run, f"template {look}")
    owner = project["owner_uuid"]
    uuids = (done, running, collection, project["uuid"], owner, webhook, run, template)
    try:
        for visitor in look_at(cluster, chromium, look):
            seen = list(views(visitor.page, visitor.origin, uuids, path="a.txt"))
            assert len(seen) > 15
            for one in seen:
                visitor.go(one.path)
                visitor.check()
                _check_focus(visitor)
    finally:
        cluster.lading("request", "cancel", running)


def _check_focus(visitor: Visitor) -> None:
    """What axe-core does not see: the focus is visible and below nothing (WCAG 2.2, sections 2.4.7
    and 2.4.11).
    """
    page = visitor.page
    page.locator("body").press("Home")
    for _ in range(25):
        page.keyboard.press("Tab")
        state = page.evaluate(
            """() => { const one = document.activeElement, box = one.getBoundingClientRect();
            if (one === document.body) return "";
            const style = getComputedStyle(one);
            const x = box.left + box.width / 2, y = box.top + box.height / 2;
            const over = document.elementFromPoint(x, y);
            const hidden = y >= 0 && y <= innerHeight && x >= 0 && x <= innerWidth
                && over && !one.contains(over) && !over.contains(one);
            const shown = style.outlineStyle !== 'none' || style.boxShadow !== 'none';
            return hidden ? `covered: ${one.outerHTML}` : shown ? "" : `unseen: ${one.outerHTML}`;
            }"""
        )
        assert state == "", page.url
