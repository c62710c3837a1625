"""Shells on the page, for tests with a real browser."""

from __future__ import annotations

from playwright.sync_api import Locator, expect

from tests.system.cluster import Cluster
from tests.system.page_visitor import PATIENCE, Visitor, submit

_SERVICE = "while :; do sleep 1; done"


def running(cluster: Cluster, name: str) -> str:
    """A request whose command runs until it is cancelled; its uuid."""
    uuid = submit(cluster, name, f": {name}; {_SERVICE}")
    cluster.lading("shell", "--wait", uuid, "--", "true")
    return uuid


def open_shell(visitor: Visitor, request: str) -> Locator:
    """Open a shell on the page of a request; its lines."""
    visitor.go(f"/ui/requests/{request}/shell")
    visitor.page.get_by_role("button", name="Open a shell").click()
    expect(visitor.page.locator("#shell-said")).to_have_text("Connected")
    lines = visitor.page.locator(".xterm-rows")
    expect(lines).to_contain_text("#", timeout=PATIENCE)
    return lines
