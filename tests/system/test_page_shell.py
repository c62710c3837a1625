"""A shell in a container, in a real browser: typed, read, sized, left and ended."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.system.cluster import Cluster
from tests.system.page_shells import open_shell, running
from tests.system.page_visitor import PATIENCE, Visitor, chromium, cluster, reader, visitor

__all__ = ["chromium", "cluster", "reader", "visitor"]
pytestmark = pytest.mark.system


def _luminance(colour: str) -> float:
    """Relative luminance of `rgb(...)` (WCAG 2.2)."""
    values = [int(one) / 255 for one in re.findall(r"\d+", colour)[:3]]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in values]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _colour(element: Locator, name: str) -> float:
    return _luminance(str(element.evaluate(f"one => getComputedStyle(one)['{name}']")))


def test_a_command_is_typed_and_its_output_can_be_read(cluster: Cluster, visitor: Visitor) -> None:
    request = running(cluster, "entered")
    lines = open_shell(visitor, request)
    visitor.page.keyboard.type("echo $((6 * 7)) é; stty size\n")
    expect(lines).to_contain_text("42 é")
    found = re.search(r"\b(\d+) (\d+)\b", lines.inner_text().partition("42 é")[2])
    assert found
    # As many columns as the window has room for, not the 80 of a terminal without a size.
    room = int(visitor.page.evaluate("document.getElementById('terminal').clientWidth"))
    assert room // 10 <= int(found[2]) <= room // 7
    # Assertions on text do not see that text has the colour of its ground.
    ground = _colour(visitor.page.locator(".xterm-scrollable-element").first,
                     "backgroundColor")  # fmt: skip
    light, dark = sorted((_colour(lines.locator("div").first, "color"), ground), reverse=True)
    assert (light + 0.05) / (dark + 0.05) > 7
    visitor.check()
    # The terminal takes Tab; the way out is another key.
    visitor.page.keyboard.press("Shift+F6")
    expect(visitor.page.get_by_role("button", name="End the shell")).to_be_focused()
    cluster.lading("request", "cancel", request)
    expect(visitor.page.locator("#shell-said")).to_contain_text("ended", timeout=PATIENCE)


def test_a_shell_ends_with_an_exit_code(cluster: Cluster, reader: Visitor) -> None:
    request = running(cluster, "ended")
    open_shell(reader, request)
    reader.page.keyboard.type("exit 7\n")
    expect(reader.page.locator("#shell-said")).to_have_text("The shell has ended with exit code 7.")
    expect(reader.page.get_by_role("button", name="Open a shell")).to_be_visible()
    trail = cluster.lading("request", "logs", request, "--file", "crunch-run.txt").stdout
    assert "a user has entered the container" in trail
    cluster.lading("request", "cancel", request)


def test_output_without_end_leaves_the_page_alive(cluster: Cluster, reader: Visitor) -> None:
    request = running(cluster, "chatty")
    lines = open_shell(reader, request)
    reader.page.keyboard.type("seq 100000000\n")
    expect(lines).to_contain_text(re.compile(r"\d{6}"), timeout=PATIENCE)
    reader.page.keyboard.press("Control+c")
    reader.page.keyboard.type("echo still he''re\n")
    expect(lines).to_contain_text("still here", timeout=PATIENCE)
    reader.check()
    cluster.lading("request", "cancel", request)


def test_logging_out_elsewhere_ends_it(cluster: Cluster, reader: Visitor) -> None:
    request = running(cluster, "left")
    open_shell(reader, request)
    other = reader.page.context.new_page()
    other.goto(f"{reader.origin}/ui/")
    other.get_by_role("button", name="Log out").click()
    expect(reader.page.locator("#shell-said")).to_contain_text("You have logged out")
    cluster.lading("request", "cancel", request)


def test_without_scripts_it_says_what_to_do(cluster: Cluster, chromium: Browser) -> None:
    request = running(cluster, "no scripts")
    context = chromium.new_context(ignore_https_errors=True, java_script_enabled=False)
    page = context.new_page()
    link = cluster.lading("open", "--print", request).stdout.strip().splitlines()[-1]
    page.goto(link)
    page.get_by_role("link", name="Shell", exact=True).click()
    expect(page.get_by_text(f"lading shell {request}")).to_be_visible()
    context.close()
    cluster.lading("request", "cancel", request)
