"""Pages of the site in a real browser: machines, users, tokens, health."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.reality import need_program, need_root
from tests.system.cluster import LADING, Cluster, running_cluster
from tests.system.page_visitor import PATIENCE, Visitor

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_root()
    for program in ("crun", "chromium"):
        need_program(program)
    config = "Local: {Price: 0.5}\nContainers: {StopGracePeriod: 500ms}\n"
    with running_cluster(tmp_path_factory.mktemp("site") / "data", config) as running:
        running.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep")
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@pytest.fixture(params=["light", "dark", "narrow"])
def visitor(
    cluster: Cluster, chromium: Browser, request: pytest.FixtureRequest
) -> Iterator[Visitor]:
    """A visitor who is logged in, with each look."""
    context = chromium.new_context(
        ignore_https_errors=True,
        color_scheme="dark" if request.param == "dark" else "light",
        viewport={"width": 320 if request.param == "narrow" else 1280, "height": 800},
    )
    made = Visitor(cluster, context.new_page())
    made.log_in()
    yield made
    context.close()


@pytest.fixture
def reader(cluster: Cluster, chromium: Browser) -> Iterator[Visitor]:
    """A visitor who is logged in."""
    context = chromium.new_context(ignore_https_errors=True)
    made = Visitor(cluster, context.new_page())
    made.log_in()
    yield made
    context.close()


def _run(cluster: Cluster, name: str, seconds: int) -> str:
    said = cluster.lading("run", "--detach", "--name", name, "--image", "tools:1", "--",
                          "sleep", str(seconds)).stdout  # fmt: skip
    found = re.search(r"\w{5}-xvhdp-\w{15}", said)
    assert found
    return found[0]


def test_every_view_is_clean(cluster: Cluster, visitor: Visitor) -> None:
    uuid = _run(cluster, "<b>runs</b>", 600)
    visitor.go("/ui/machines")
    expect(visitor.page.get_by_role("link", name="<b>runs</b>").first).to_be_visible(
        timeout=PATIENCE
    )
    user = json.loads(cluster.lading("user", "list", "--json").stdout)[0]["uuid"]
    cluster.lading("quota", "set", user, "--ram", "900GiB", "--money", "50/day", "--name", "<b>")
    for path in (
        "/ui/",
        "/ui/machines",
        "/ui/machines?state=none",
        "/ui/tokens",
        "/ui/tokens?owner=all",
        "/ui/admin",
        "/ui/quotas",
        "/ui/admin/users",
        f"/ui/admin/users/{user}",
    ):
        visitor.go(path)
        visitor.check()
    cluster.lading("request", "cancel", uuid)


def test_a_machine_is_held_and_runs_again(cluster: Cluster, reader: Visitor) -> None:
    page = reader.page
    reader.go("/ui/")
    page.keyboard.press("g")
    page.keyboard.press("m")
    page.get_by_label("Reason").fill("new disk")
    # The list is fetched anew every 5 s, but not under the hands of who writes.
    page.wait_for_timeout(6000)
    expect(page.get_by_label("Reason")).to_have_value("new disk")
    page.get_by_role("button", name="Hold").click()
    expect(page.get_by_role("status").filter(has_text="hold was ordered")).to_be_visible()
    # Without a reload: the list is fetched anew every few seconds.
    expect(page.get_by_text("held")).to_be_visible(timeout=PATIENCE)
    uuid = _run(cluster, "waits", 0)
    reader.go(f"/ui/requests/{uuid}")
    expect(page.get_by_text("An admin holds this machine: new disk").first).to_be_visible(
        timeout=PATIENCE
    )
    reader.check()
    reader.go("/ui/machines")
    page.get_by_role("button", name="Run").click()
    cluster.lading("wait", uuid)


def test_a_machine_is_killed(cluster: Cluster, reader: Visitor) -> None:
    uuid = _run(cluster, "to be ended", 601)
    reader.go("/ui/machines")
    page = reader.page
    expect(page.get_by_role("link", name="to be ended")).to_be_visible(timeout=PATIENCE)
    page.get_by_role("button", name="Kill").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Kill")
    reader.check()
    page.get_by_role("button", name="Kill").click()
    expect(page.get_by_role("link", name="to be ended")).to_be_hidden(timeout=PATIENCE)
    expect(page.get_by_text("held")).to_be_visible()
    cluster.lading("request", "cancel", uuid)
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("held")).to_be_hidden(timeout=PATIENCE)


def test_a_token_is_made_and_revoked(cluster: Cluster, reader: Visitor) -> None:
    page = reader.page
    reader.go("/ui/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.get_by_label("It may").select_option(label="Read all that you can read")
    page.get_by_role("button", name="Make the token").click()
    secret = page.get_by_label("Token", exact=True).input_value()
    reader.check()
    environment = cluster.environment | {"ARVADOS_API_TOKEN": secret}
    seen = subprocess.run([LADING, "request", "list"], env=environment, capture_output=True)
    assert seen.returncode == 0
    page.get_by_role("button", name=f"Revoke {secret.split('/')[1]}").click()
    expect(page.get_by_text(secret.split("/")[1])).to_be_hidden()
    seen = subprocess.run([LADING, "request", "list"], env=environment, capture_output=True)
    assert seen.returncode != 0


def test_a_user_is_made_and_deactivated(cluster: Cluster, reader: Visitor) -> None:
    page = reader.page
    reader.go("/ui/admin/users")
    page.get_by_label("User name").fill("grace")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("grace")
    page.get_by_role("button", name="Deactivate").click()
    expect(page.get_by_text("inactive")).to_be_visible()
    reader.check()
    [user] = [
        one
        for one in json.loads(cluster.lading("user", "list", "--json").stdout)
        if one["username"] == "grace"
    ]
    assert not user["is_active"]
    page.get_by_role("button", name="Activate", exact=True).click()
    expect(page.get_by_role("button", name="Deactivate")).to_be_visible()


def test_a_collection_is_shared_by_address(
    cluster: Cluster, reader: Visitor, chromium: Browser, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("for whoever has the address")
    made = json.loads(cluster.lading("put", "--json", "--name", "shared", str(tmp_path)).stdout)
    reader.go(f"/ui/access/{made['uuid']}")
    reader.page.get_by_role("button", name="Make an address").click()
    address = reader.page.get_by_label("Address", exact=True).input_value()
    reader.check()
    stranger = chromium.new_context(ignore_https_errors=True)
    assert "for whoever" in stranger.request.get(f"{address}a.txt").text()
    reader.page.get_by_role("button", name="End the address").click()
    expect(reader.page.get_by_text("You have given no address.")).to_be_visible()
    assert stranger.request.get(f"{address}a.txt").status == 401
    stranger.close()
