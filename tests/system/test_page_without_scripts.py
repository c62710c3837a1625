"""The page in a browser that runs no scripts: every page can be read, and every form sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.system.cluster import Cluster
from tests.system.page_views import views
from tests.system.page_visitor import (
    PATIENCE,
    Visitor,
    chromium,
    cluster,
    make_run,
    make_template,
    submit,
)

__all__ = ["chromium", "cluster"]
pytestmark = pytest.mark.system


@pytest.fixture
def reader(cluster: Cluster, chromium: Browser) -> Iterator[Visitor]:
    """A visitor who is logged in; the browser runs no scripts."""
    context = chromium.new_context(ignore_https_errors=True, java_script_enabled=False)
    made = Visitor(cluster, context.new_page())
    made.log_in()
    yield made
    assert made.faults == []
    context.close()


def test_every_page_can_be_read(cluster: Cluster, reader: Visitor, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    cluster.lading("put", "--name", "data", str(tmp_path))
    request = submit(cluster, "done", "echo said; echo made > /out/a.txt")
    cluster.lading("wait", request)
    listed = json.loads(cluster.lading("ls", "--json").stdout)
    collection = next(one["uuid"] for one in listed if one["name"] == "data")
    project = json.loads(cluster.lading("project", "create", "--json", "p").stdout)
    hook = cluster.lading("webhook", "create", "https://a.example/", "--json").stdout
    webhook = json.loads(hook)["uuid"]
    run = make_run(cluster, "cohort")
    template = make_template(cluster, run, "template")
    owner = project["owner_uuid"]
    uuids = (request, collection, project["uuid"], owner, webhook, run, template)
    seen = list(views(reader.page, reader.origin, uuids, path="a.txt"))
    assert len(seen) > 15
    for one in seen:
        reader.go(one.path)
        main = reader.page.get_by_role("main")
        expect(main.get_by_role("heading", level=1)).to_be_visible()
        # What only a script does is not offered, or has another way beside it.
        expect(main.get_by_text(re.compile("Loading|wait a moment", re.IGNORECASE))).to_have_count(
            0
        )
        for button in reader.page.get_by_role("button").all():
            assert button.evaluate("one => !!one.form || one.type === 'submit'"), one.path


def test_a_request_from_the_form_to_its_cancellation(reader: Visitor) -> None:
    page = reader.page
    reader.go("/ui/requests")
    page.get_by_role("link", name="Submit a request").click()
    page.get_by_label("Image", exact=True).fill("tools:1")
    page.get_by_role("button", name="Submit").click()
    # What is wrong is said beside its field, and what was right is kept.
    expect(page.get_by_role("alert")).to_contain_text("not submitted")
    expect(page.get_by_text("is needed; write the command to run")).to_be_visible()
    expect(page.get_by_label("Image", exact=True)).to_have_value("tools:1")
    page.get_by_label("Name", exact=True).fill("no scripts")
    page.get_by_label("Command", exact=True).fill("sh -c 'echo begun; sleep 600'")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name="no scripts")).to_be_visible()
    reader.go("/ui/requests?q=no+scripts")
    page.locator("#rows input[type=checkbox]").check()
    page.get_by_role("button", name="Cancel the selected").click()
    expect(page.get_by_role("status").filter(has_text="1 cancelled")).to_be_visible()
    page.get_by_role("link", name="no scripts").click()
    page.reload()
    expect(page.locator("#state .state")).to_contain_text("cancelled", timeout=PATIENCE)


def test_data_and_access(reader: Visitor) -> None:
    page = reader.page
    reader.go("/ui/projects")
    page.get_by_label("Name", exact=True).fill("without scripts")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name="without scripts", level=1)).to_be_visible()
    page.get_by_label("Collection name").fill("empty one")
    page.get_by_role("button", name="Create and add files").click()
    expect(page.get_by_text("lading put").first).to_be_visible()
    page.get_by_role("link", name="Share").click()
    page.get_by_label("User or role").fill("everyone")
    page.get_by_role("button", name="Share").click()
    expect(page.get_by_role("button", name=re.compile("Remove")).first).to_be_visible()
    page.go_back()
    page.go_back()
    page.get_by_role("button", name="Move to the trash").click()
    reader.go("/ui/trash")
    page.get_by_role("button", name=re.compile("Restore")).first.click()
    page.get_by_label("Search everything").fill("empty one")
    page.keyboard.press("Enter")
    expect(page.get_by_role("main").get_by_role("link", name="empty one")).to_be_visible()


def test_tokens_and_machines(reader: Visitor) -> None:
    page = reader.page
    reader.go("/ui/tokens")
    page.get_by_role("button", name="Make the token").click()
    expect(page.get_by_label("Token", exact=True)).to_have_value(re.compile("^v2/"))
    reader.go("/ui/machines")
    page.get_by_label("Reason").fill("a test")
    page.get_by_role("button", name=re.compile("^Hold")).click()
    expect(page.get_by_role("status").filter(has_text="hold was ordered")).to_be_visible()
    run = page.get_by_role("button", name=re.compile("^Run"))
    for _ in range(60):
        # Its dispatcher does it and reports; without scripts a reader reloads.
        page.wait_for_timeout(500)
        page.reload()
        if run.count():
            break
    run.click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()
