"""The cookie, the token of forms, and where a login may lead."""

from __future__ import annotations

import re

import pytest

from lading.core.errors import Forbidden
from lading.web import browser_rules

SECRET, CHANCE = "5" * 64, b"\x01" * 32


@pytest.mark.parametrize(
    "place",
    [
        "", "/", "/ui", "//evil.example", "/ui//evil.example", "/\\evil.example", "/ui/\\evil",
        "https://evil.example/ui/", "/ui/\n", "/ui/a b", "/ui/../login", "/ui/%2E./login",
        "/ui/\x00", "javascript:x",
        "/ui/ü",
    ],
)  # fmt: skip
def test_a_login_leads_to_the_page_only(place: str) -> None:
    assert browser_rules.safe_place(place) == "/ui/"


@pytest.mark.parametrize("place", ["/ui/requests?state=Failed", "/ui/x?next=//y", "/ui/a%20b"])
def test_addresses_of_the_page(place: str) -> None:
    assert browser_rules.safe_place(place) == place


def test_the_cookie() -> None:
    assert browser_rules.read_cookie("a=b; __Host-lading=c") == "c"
    assert browser_rules.read_cookie("a=b") == ""
    assert browser_rules.read_cookie('"; =,') == ""
    assert browser_rules.read_cookie("x=1 __Host-lading=evil; __Host-lading=c") == "c"
    assert browser_rules.read_cookie("__Host-lading=c; __Host-lading=d") == ""
    assert "Max-Age=0" in browser_rules.cookie("", seconds=0)


def test_the_token_of_forms_is_that_of_the_session() -> None:
    given, again = (browser_rules.form_token(SECRET, bytes([one]) * 32) for one in (1, 2))
    # Alike in no part: the size of a compressed page tells nothing about it.
    assert not set(re.findall("....", given)) & set(re.findall("....", again))
    browser_rules.check_form("POST", {}, scheme="https", secret=SECRET, form_token=again)
    browser_rules.check_form("POST", {}, scheme="https", secret=SECRET, form_token=given)
    for wrong in ("", "x", "ü", given[:-2], "0" * 128, browser_rules.form_token("6" * 64, CHANCE)):
        with pytest.raises(Forbidden, match="too old"):
            browser_rules.check_form("POST", {}, scheme="https", secret=SECRET, form_token=wrong)


def test_forms_of_this_origin() -> None:
    own = {"origin": "https://here:1", "host": "here:1"}
    browser_rules.check_form("POST", own, scheme="https", secret="", form_token="")
    with pytest.raises(Forbidden, match="another site"):
        browser_rules.check_form(
            "POST", {**own, "origin": "https://here:2"}, scheme="https", secret="", form_token=""
        )


@pytest.mark.parametrize(
    ("referer", "place"),
    [
        ("https://here:9440/ui/access/x?a=b", "/ui/access/x?a=b"),
        ("http://here:9440/ui/", "/ui/"),
        ("https://evil.example/?https://here:9440/ui/", ""),
        ("https://here:9440//evil.example/", ""),
        ("https://here:9440/arvados/v1/users", ""),
        ("javascript://here:9440/ui/", ""),
        ("", ""),
    ],
)
def test_the_page_that_a_form_came_from(referer: str, place: str) -> None:
    headers = {"host": "here:9440", "referer": referer}
    assert browser_rules.own_place(headers) == place
    assert browser_rules.own_place({"referer": referer}) == ""
