"""`lading open`."""

from __future__ import annotations

import json
import webbrowser

import pytest

from tests.cli.site import Site


def test_a_link_is_printed(site: Site) -> None:
    done = site.lading("open", "--print")
    assert done.stdout.startswith("https://localhost/ui/login/")
    assert "logs in once, within 60 s" in done.stderr


def test_a_link_for_programs(site: Site) -> None:
    made = json.loads(site.lading("open", "--json").stdout)
    assert made["seconds"] == 60
    assert site.world.admin not in made["link"]


@pytest.mark.parametrize("is_opened", [True, False])
def test_a_browser_is_opened(site: Site, monkeypatch: pytest.MonkeyPatch, is_opened: bool) -> None:
    opened: list[str] = []

    def open_browser(link: str) -> bool:
        opened.append(link)
        return is_opened

    monkeypatch.setattr(webbrowser, "open", open_browser)
    done = site.lading("open")
    assert len(opened) == 1
    # Without a browser, the link is for the reader.
    assert (opened[0] in done.stdout) is not is_opened


def test_a_request_that_is_not_there(site: Site) -> None:
    assert "lading: " in site.lading("open", "zzzzz-xvhdp-nosuchrequest00", code=1).stderr
