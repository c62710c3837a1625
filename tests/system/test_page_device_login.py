"""`lading login` of a program, allowed in a real browser by a person who logs in first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.system.page_visitor import Visitor, chromium, cluster, reader, visitor
from tests.system.test_own_site import Home

__all__ = ["chromium", "cluster", "reader", "visitor"]

pytestmark = pytest.mark.system


def test_a_person_allows_a_login(visitor: Visitor, tmp_path: Path) -> None:
    laptop, site = Home(tmp_path), visitor.cluster.address
    words = ("login", f"https://{site}", "--name", "lab", "--no-browser")
    (fingerprint,) = re.findall(r"(?:[0-9A-F]{2}:){31}[0-9A-F]{2}", laptop.lading(*words).stderr)
    with laptop.begin(*words, "--fingerprint", fingerprint) as login:
        assert login.stderr is not None
        lines = iter(login.stderr.readline, "")
        page = next(line for line in lines if line.startswith("https://")).strip()
        (code,) = re.findall(r"[0-9A-Z]{4}-[0-9A-Z]{4}", next(lines))
        visitor.page.goto(page)
        expect(visitor.page.locator("#code")).to_have_text(code)
        visitor.check()
        visitor.page.get_by_role("button", name="Allow").click()
        expect(visitor.page.get_by_role("status").last).to_contain_text("Go back to your terminal")
        visitor.check()
        assert login.wait(60) == 0
    assert "lab" in laptop.lading("--site", "lab", "whoami").stdout
    # Opened again, it is no second login.
    visitor.page.goto(page)
    visitor.page.get_by_role("button", name="Allow").click()
    expect(visitor.page.get_by_role("alert")).to_contain_text("allowed before")
