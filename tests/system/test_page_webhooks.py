"""Webhooks in a real browser: made for a project, tried, a dead letter sent again, a new secret."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.system.cluster import Cluster, running_cluster
from tests.system.page_visitor import LOOKS, PATIENCE, Visitor, chromium, look_at, need_page, reader
from tests.system.test_webhooks import SETTINGS, Receiver, receiving

pytestmark = pytest.mark.system
__all__ = ("chromium", "reader")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_page()
    with running_cluster(tmp_path_factory.mktemp("webhooks") / "data", SETTINGS) as running:
        yield running


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def make(visitor: Visitor, receiver: Receiver, project: str) -> None:
    """Make the webhook `ci` of a project by the form, as its page leads there."""
    page = visitor.page
    visitor.go(f"/ui/projects/{project}")
    page.get_by_role("link", name="Webhooks").last.click()
    page.get_by_label("Address of the receiver").fill(f"{receiver.url}/")
    page.get_by_label("Name, to find it by").fill("ci")
    page.get_by_label("Types of events").fill("lading.group.*")
    page.get_by_role("button", name="Make the webhook").click()
    receiver.secrets["/"] = page.get_by_label("Secret", exact=True).input_value()


def expect_said(visitor: Visitor, text: str) -> None:
    said = visitor.page.get_by_role("status").filter(has_text=text)
    expect(said).to_be_visible(timeout=PATIENCE)


def reload_until(visitor: Visitor, text: str) -> None:
    """Reload until a text is there: the page has no live updates of receivers."""
    for _ in range(120):
        if visitor.page.get_by_text(text).count():
            return
        visitor.page.wait_for_timeout(500)
        visitor.page.reload()
    raise AssertionError(f"{text!r} did not come")


@pytest.fixture
def project(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """A project of this test."""
    made = cluster.lading("project", "create", "--json", request.node.name).stdout
    return str(json.loads(made)["uuid"])


def test_a_dead_letter_is_sent_again(
    cluster: Cluster, reader: Visitor, receiver: Receiver, project: str
) -> None:
    page = reader.page
    make(reader, receiver, project)
    reader.check()
    page.get_by_role("button", name="Send a test").click()
    expect_said(reader, "delivered, answered 204")
    receiver.status = 400
    cluster.lading("project", "create", "--in", project, "inner")
    page.keyboard.press("g")
    page.keyboard.press("w")
    page.wait_for_url("**/ui/webhooks")
    expect(page.get_by_text("Failing").first).to_be_visible(timeout=PATIENCE)
    page.get_by_role("link", name="ci").click()
    reload_until(reader, "Events that could not be delivered")
    expect(page.get_by_text("the receiver answered 400").first).to_be_visible()
    reader.check()
    receiver.status = 204
    page.locator("input[name=letter]").check()
    page.get_by_role("button", name="Send the chosen again").click()
    expect_said(reader, "1 dead letter is sent again")
    reload_until(reader, "None: every event was delivered")
    expect(page.get_by_text("delivered, answered 204").first).to_be_visible()
    expect(page.get_by_text("refused, answered 400").first).to_be_visible()
    reader.check()
    assert [one["type"] for _, one in receiver.got][-1] == "lading.group.create"


def test_a_new_secret_a_pause_and_the_end(
    cluster: Cluster, reader: Visitor, receiver: Receiver, project: str
) -> None:
    page = reader.page
    make(reader, receiver, project)
    page.get_by_label("The former secret is valid").select_option(label="not at all")
    page.get_by_role("button", name="Make a new secret").click()
    receiver.secrets["/"] = page.get_by_label("Secret", exact=True).input_value()
    page.get_by_role("button", name="Send a test").click()
    expect_said(reader, "delivered, answered 204")
    page.get_by_label("Reason").fill("too loud")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("too loud")).to_be_visible(timeout=PATIENCE)
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Delete ci?", timeout=PATIENCE)
    reader.check()
    page.get_by_role("button", name="Delete").click()
    page.wait_for_url("**/ui/webhooks")
    found = json.loads(cluster.lading("webhook", "list", "--json").stdout)
    assert project not in [one["owner_uuid"] for one in found]


@pytest.mark.parametrize("look", LOOKS)
def test_every_view_is_clean(
    cluster: Cluster, chromium: Browser, receiver: Receiver, look: str
) -> None:
    made = json.loads(
        cluster.lading("webhook", "create", "--json", "--name", f"of {look}",
                       f"{receiver.url}/a/path/that/is/long/enough/for/a/narrow/window",
                       "--state", "Final").stdout
    )  # fmt: skip
    for visitor in look_at(cluster, chromium, look):
        visitor.page.set_default_timeout(PATIENCE)
        for path in ("/ui/webhooks", "/ui/webhooks?owner=mine", f"/ui/webhooks/{made['uuid']}"):
            visitor.go(path)
            visitor.check()
        visitor.page.get_by_role("button", name="Pause").click()
        expect(visitor.page.get_by_role("button", name="Resume")).to_be_visible()
        visitor.check()
