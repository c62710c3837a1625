"""The page in a real browser on a real server: login by link, lists, a request followed to its end,
logs, keys, attacks; no console error, no request to another host, no violation by axe-core.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.system.cluster import Cluster
from tests.system.page_visitor import (
    PATIENCE,
    Visitor,
    chromium,
    cluster,
    reader,
    submit,
    visitor,
)

__all__ = ["chromium", "cluster", "reader", "visitor"]
pytestmark = pytest.mark.system
EVIL = "<script>document.title='owned'</script><img src=x onerror=alert(1)>"


def _waiting(cluster: Cluster, name: str) -> str:
    """Submit a request that no machine can run; its uuid."""
    # A command of its own: the result of an equal one would be used, whatever its size.
    return submit(cluster, name, f": {name}", "--vcpus", "64")


def test_every_view_is_clean(cluster: Cluster, visitor: Visitor) -> None:
    failed = submit(cluster, EVIL, "seq 900; echo it broke >&2; touch '/out/<b>.html'; exit 7")
    large = _waiting(cluster, "too large")
    cluster.lading("wait", failed, check=False)
    for path in (
        "/ui/",
        "/ui/requests",
        "/ui/requests?state=Failed",
        f"/ui/requests/{failed}",
        f"/ui/requests/{large}",
        f"/ui/requests/{failed}/log",
        f"/ui/requests/{failed}/log?q=99",
        f"/ui/requests/{failed}/files",
        f"/ui/requests/{failed}/timeline",
        f"/ui/requests/{failed}/graph",
        f"/ui/requests/{failed}/compare",
        f"/ui/requests/{failed}/compare?with={large}",
        "/ui/images",
        "/ui/requests/submit",
        f"/ui/requests/submit?from={failed}",
    ):
        visitor.go(path)
        visitor.check()
        assert visitor.page.title() != "owned"
    cluster.lading("request", "cancel", large)


def test_a_request_is_submitted_from_the_form(reader: Visitor) -> None:
    page = reader.page
    reader.go("/ui/requests")
    page.get_by_role("link", name="Submit a request").click()
    page.get_by_label("Name", exact=True).fill("from the form")
    page.get_by_label("Image", exact=True).fill("tools:1")
    page.get_by_label("Command", exact=True).fill("sh -c 'echo $Q; echo done > /out/x")
    page.get_by_label("Environment", exact=True).fill("Q=7")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_text("No closing quotation")).to_be_visible()
    page.get_by_label("Command", exact=True).fill("sh -c 'echo $Q; echo done > /out/x'")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("#state .state")).to_contain_text("done", timeout=PATIENCE)
    # The browser can come back to the refused form, and go on again.
    page.go_back()
    expect(page.get_by_text("No closing quotation")).to_be_visible()
    page.go_forward()
    expect(page.locator("#state .state")).to_contain_text("done", timeout=PATIENCE)
    # The request has its output a moment after its container has ended.
    reader.cluster.lading("wait", "last")
    page.reload()
    expect(page.get_by_role("link", name="x", exact=True)).to_be_visible()
    reader.check()
    page.get_by_role("link", name="Submit with changes").click()
    page.wait_for_url("**/submit?from=*")
    assert page.get_by_label("Environment", exact=True).input_value() == "Q=7"
    reader.check()


def test_every_view_of_data_is_clean(cluster: Cluster, visitor: Visitor, tmp_path: Path) -> None:
    (tmp_path / "<b>.txt").write_text("text")
    # No slash: it is not allowed in names of projects and collections.
    evil = "<img src=x onerror=document.title='owned'>"
    known = cluster.lading("project", "list").stdout
    if evil not in known:
        cluster.lading("project", "create", evil)
        cluster.lading("put", "--project", evil, "--name", evil, str(tmp_path))
    project = re.search(r"(\w{5}-j7d0g-\w{15}) .*<img", cluster.lading("project", "list").stdout)
    assert project
    for path in (
        "/ui/trash",
        "/ui/projects",
        "/ui/projects/shared",
        "/ui/search?q=%3Cimg",
        "/ui/search?q=img&kind=collections",
        f"/ui/projects/{project[1]}",
    ):
        visitor.go(path)
        visitor.check()
    visitor.go(f"/ui/access/{project[1]}")
    visitor.check()
    visitor.page.go_back()
    visitor.page.locator("#collections ~ * a").first.click()
    visitor.page.wait_for_url("**/ui/collections/**")
    visitor.check()
    assert visitor.page.title() != "owned"


def test_a_project_is_made_and_found(cluster: Cluster, reader: Visitor) -> None:
    reader.go("/ui/")
    reader.page.keyboard.press("g")
    reader.page.keyboard.press("p")
    reader.page.get_by_label("Name", exact=True).fill("made in a browser")
    reader.page.get_by_role("button", name="Create", exact=True).click()
    expect(reader.page.get_by_role("heading", level=1)).to_have_text("made in a browser")
    reader.page.keyboard.press("u")
    expect(reader.page.get_by_role("link", name="made in a browser/")).to_be_visible()
    reader.check()


def test_a_collection_goes_to_the_trash_and_back(
    cluster: Cluster, reader: Visitor, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("text")
    cluster.lading("put", "--name", "first name", str(tmp_path))
    page = reader.page
    page.get_by_label("Search everything").fill("first name")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="first name").click()
    page.get_by_label("Name", exact=True).fill("second name")
    page.get_by_role("button", name="Rename").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("second name")
    page.get_by_role("button", name="Move to the trash").click()
    reader.check()
    page.get_by_role("button", name="Restore second name").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("second name")
    reader.check()


def test_files_are_uploaded(cluster: Cluster, reader: Visitor, tmp_path: Path) -> None:
    # More than a block, and a name that is markup.
    names = {"large": b"0123456789" * 7_000_000, "<b>.txt": b"small"}
    for name, data in names.items():
        (tmp_path / name).write_bytes(data)
    reader.go("/ui/projects")
    page = reader.page
    page.get_by_label("Collection name").fill("uploaded")
    page.get_by_role("button", name="Create and add files").click()
    page.get_by_label("Choose files").set_input_files([tmp_path / name for name in names])
    for name in names:
        expect(page.get_by_role("link", name=name, exact=True)).to_be_visible(timeout=PATIENCE)
    reader.check()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save large").click()
    assert Path(saved.value.path()).read_bytes() == names["large"]


def test_a_request_is_followed_to_its_end(cluster: Cluster, reader: Visitor) -> None:
    uuid = submit(cluster, "followed", "while [ ! -e /out/go ]; do echo still; sleep 0.2; done")
    reader.log_in(uuid)
    page = reader.page
    expect(page.locator("#state .state")).to_contain_text("running", timeout=PATIENCE)
    expect(page.locator("#live")).to_have_text("Live")
    page.keyboard.press("l")
    page.wait_for_url("**/log")
    before = page.locator(".log .line").count()
    expect(page.locator(".log .line").nth(before + 3)).to_be_attached(timeout=PATIENCE)
    page.keyboard.press("u")
    page.wait_for_url(f"**/{uuid}")
    page.get_by_role("button", name="Cancel").click()
    # Without a reload: the state comes by the stream of events.
    expect(page.locator("#state .state")).to_contain_text("cancelled", timeout=PATIENCE)
    reader.check()


def test_a_list_says_that_there_is_more(cluster: Cluster, reader: Visitor) -> None:
    reader.go("/ui/requests")
    expect(reader.page.locator("#live")).to_have_text("Live")
    submit(cluster, "newer", "true")
    expect(reader.page.locator("#new")).to_contain_text("newer requests", timeout=PATIENCE)


def test_many_are_cancelled_by_keys(cluster: Cluster, reader: Visitor) -> None:
    for number in range(2):
        _waiting(cluster, f"by-key-{number}")
    reader.go("/ui/requests?q=by-key")
    page = reader.page
    for key in ("j", "x", "j", "x"):
        page.keyboard.press(key)
    assert page.locator("input[name=uuid]:checked").count() == 2
    page.get_by_role("button", name="Cancel the selected").click()
    expect(page.get_by_text("2 cancelled.")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    reader.check()


def test_output_is_saved_and_never_shown(cluster: Cluster, reader: Visitor) -> None:
    uuid = submit(cluster, "writes", "echo '<script>alert(1)</script>' > /out/page.html")
    cluster.lading("wait", uuid)
    reader.go(f"/ui/requests/{uuid}")
    with reader.page.expect_download() as saved:
        reader.page.get_by_role("link", name="Save page.html").click()
    assert saved.value.suggested_filename == "page.html"
    assert Path(saved.value.path()).read_text() == "<script>alert(1)</script>\n"


def test_it_works_without_scripts(cluster: Cluster, chromium: Browser) -> None:
    context = chromium.new_context(ignore_https_errors=True, java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"https://{cluster.address}/")
    page.get_by_label("Token").fill(cluster.environment["ARVADOS_API_TOKEN"])
    page.get_by_role("button", name="Log in").click()
    uuid = _waiting(cluster, "no scripts")
    page.get_by_role("navigation").get_by_role("link", name="Requests").click()
    page.get_by_role("link", name="no scripts").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Log out").click()
    page.goto(f"https://{cluster.address}/ui/requests/{uuid}")
    assert "/ui/login?next=" in page.url
    context.close()


def test_another_site_can_do_nothing(cluster: Cluster, reader: Visitor) -> None:
    uuid = _waiting(cluster, "attacked")
    form = (
        f"<form id=f method=post action='https://{cluster.address}/ui/requests/{uuid}/cancel'>"
        "<input name=form_token value=x></form>"
    )
    # A page of an origin of its own.
    reader.page.goto("data:text/html,x")
    reader.page.set_content(form)
    with reader.page.expect_navigation():
        reader.page.evaluate("document.getElementById('f').submit()")
    assert "Cancelled" not in reader.page.content()
    shown = json.loads(cluster.lading("request", "show", "--json", uuid).stdout)
    assert shown["priority"] > 0
    cluster.lading("request", "cancel", uuid)
