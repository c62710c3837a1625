"""Attacks on every address of the page: script in what it shows, forms of other sites, records of
other users, redirections to other hosts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec
import pytest

from lading.client.transport import Response
from lading.web.routes import PageRoute
from tests.web.addresses import (
    EVIL,
    Elements,
    EvilSite,
    address,
    evil_site,
    nothing_like,
    routes,
    takes_uuid,
)
from tests.web.browsing import Browser, PageSite

FORMS = [one for one in routes("POST") if not one.programs]
ELSEWHERE = ["//evil.example", "https://evil.example/ui/", "/\\evil.example", "/ui/\r\nx-evil: 1"]
GUARDS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
SEEN = 200, 207, 286, 303
"""Statuses of pages that show something or lead there; 286 also ends the calls of a script."""
# A stream has no end and no content of anybody: see test_event_stream. An answer to a form has its
# own test below.
SHOWN = [
    one
    for one in routes("GET")
    if not one.pattern.pattern.startswith(("/ui/events", "/ui/answers/"))
]


def _name(one: PageRoute) -> str:
    return f"{one.method} {address(one, uuid='UUID')}"


def _check(answer: Response, path: str) -> None:
    """What holds for every answer."""
    for name, value in GUARDS.items():
        assert answer.headers[name] == value, path
    policy = answer.headers["content-security-policy"]
    kind = answer.headers.get("content-type", "")
    if kind.startswith("text/html"):
        text = answer.body.decode()
        assert "frame-ancestors 'none'" in policy
        assert "\u202e" not in text, path
        assert Elements(text).faults == [], path
    elif answer.body and not path.startswith(("/ui/static/", "/ui/events")):
        # A file that somebody wrote: a browser must neither run it nor give it our rights.
        assert "sandbox" in policy, path
        assert "allow-same-origin" not in policy, path


async def _state(here: PageSite) -> str:
    """A mark of all records."""
    plurals = ("container_requests", "collections", "groups", "links", "users")
    found = [
        await here.world.ok("GET", one, params={"include_trash": True, "limit": 1000})
        for one in plurals
    ]
    rows = sorted((one["uuid"], one["modified_at"]) for page in found for one in page["items"])
    return hashlib.sha256(msgspec.json.encode(rows)).hexdigest()


@pytest.fixture
async def evil(here: PageSite) -> EvilSite:
    return await evil_site(here)


@pytest.mark.parametrize("one", SHOWN, ids=_name)
async def test_no_text_becomes_a_part_of_a_page(
    here: PageSite, evil: EvilSite, one: PageRoute
) -> None:
    browser = await here.logged_in()
    statuses, text = set(), quote(EVIL)
    for path in evil.addresses(one):
        for query in ("", evil.query, f"q={text}", f"state={text}&kind={text}"):
            answer = await browser.get(f"{path}?{query}")
            statuses.add(answer.status)
            _check(answer, path)
    if not one.open:
        # Else this test has shown nothing: its site needs a record that the page is about.
        assert statuses & set(SEEN), statuses
    assert 500 not in statuses


async def test_an_answer_to_a_form_is_shown_again_as_text(browser: Browser) -> None:
    form = {"command": f"'{EVIL}", "name": EVIL, "image": EVIL, "vcpus": EVIL, "ram": EVIL}
    sent = await browser.post("/ui/requests/submit", form, sec_fetch_mode="navigate")
    answer = await browser.get(sent.headers["location"])
    assert b"{{7*7}}" in answer.body
    _check(answer, sent.headers["location"])


@pytest.mark.parametrize("one", SHOWN, ids=_name)
async def test_no_address_leads_to_another_host(here: PageSite, one: PageRoute) -> None:
    for browser in (here.browser(), await here.logged_in()):
        for place in ELSEWHERE:
            query = "&".join(f"{name}={quote(place)}" for name in ("next", "from", "after", "said"))
            path = f"{address(one)}?{query}"
            answer = await browser.get(path, host="evil.example", x_forwarded_host="evil.example")
            where = urlsplit(answer.headers.get("location", "/ui/"))
            assert (where.scheme, where.netloc) == ("", "")
            assert where.path.startswith("/ui/")
            assert "x-evil" not in answer.headers


@pytest.mark.parametrize("one", FORMS, ids=_name)
async def test_no_form_of_another_page_is_taken(
    here: PageSite, evil: EvilSite, one: PageRoute
) -> None:
    browser, other = await here.logged_in(), await here.logged_in()
    own, foreign = await browser.form_token(), await other.form_token()
    before = await _state(here)
    attacks: list[tuple[str, Mapping[str, str]]] = [
        ("", {}),
        (foreign, {}),
        (own[::-1], {}),
        (own, {"sec_fetch_site": "cross-site"}),
        (own, {"sec_fetch_site": "same-site"}),
        (own, {"sec_fetch_site": "", "origin": "https://evil.example"}),
        (own, {"sec_fetch_site": "", "origin": "null"}),
    ]
    for path in evil.addresses(one):
        for token, headers in attacks:
            sent = {"x_form_token": token, **headers}
            answer = await browser.post(path, {"form_token": token, "name": "x"}, **sent)
            assert answer.status == 403, (path, headers)
    assert await _state(here) == before
    assert (await browser.get("/ui/")).status == 200


@pytest.mark.parametrize("one", [one for one in FORMS if not one.open], ids=_name)
async def test_nothing_is_done_without_a_login(
    here: PageSite, evil: EvilSite, one: PageRoute
) -> None:
    before = await _state(here)
    for path in evil.addresses(one):
        answer = await here.browser().post(path, {"name": "x"}, x_form_token="x")
        assert (answer.status, answer.headers["location"]) == (303, "/ui/login?next=%2Fui%2F")
    assert await _state(here) == before


ABOUT_RECORDS = [one for one in (*SHOWN, *FORMS) if takes_uuid(one)]


@pytest.mark.parametrize("one", ABOUT_RECORDS, ids=_name)
async def test_records_of_another_user_are_not_there(
    here: PageSite, evil: EvilSite, one: PageRoute
) -> None:
    stranger = await here.logged_in(await here.world.user("jane"))
    before = await _state(here)
    form = {"name": "x", "priority": "1", "who": "everyone", "can": "manage"}
    for uuid in evil.uuids:
        answer = await _call(stranger, one, f"{address(one, uuid=uuid)}?{evil.query}", form)
        nothing = nothing_like(uuid)
        wanted = await _call(stranger, one, f"{address(one, uuid=nothing)}?{evil.query}", form)
        # Nothing tells whether there is such a record.
        assert answer.status == wanted.status, uuid
        assert answer.status == 404 or one.method == "POST"
        assert _told(answer, uuid) == _told(wanted, nothing)
    assert await _state(here) == before


def _told(answer: Response, uuid: str) -> str:
    text = re.sub(r'name="form_token" value="\w+"|req-\w{20}', "", answer.body.decode())
    return text.replace(uuid, "UUID")


async def test_the_home_of_another_user_tells_what_the_api_tells(
    here: PageSite, evil: EvilSite
) -> None:
    jane = await here.world.user("jane")
    stranger = await here.logged_in(jane)
    user = await here.world.ok("GET", f"users/{evil.me}", token=jane)
    words = await stranger.words(f"/ui/projects/{evil.me}")
    assert f"Home of {user['username']}" in words
    assert "alert(1)" not in words


async def _call(browser: Browser, one: PageRoute, path: str, form: Mapping[str, str]) -> Response:
    if one.method == "GET":
        return await browser.get(path)
    token = await browser.form_token()
    return await browser.post(path, form, x_form_token=token)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
async def test_other_methods_are_refused(here: PageSite, method: str) -> None:
    browser = await here.logged_in()
    for one in (*routes("GET"), *routes("POST")):
        answer = await browser.send(method, address(one), {}, b"")
        assert answer.status == 405


async def test_programs_are_not_known_by_the_cookie(here: PageSite) -> None:
    browser = await here.logged_in()
    called = [one for one in routes("POST") if one.programs]
    assert called
    for one in called:
        assert (await browser.post(address(one), {"next": "/ui/"})).status == 401


def test_every_template_is_escaped() -> None:
    templates = Path(__file__).parents[2] / "src/lading/web/templates"
    for path in templates.rglob("*.html"):
        text = path.read_text()
        assert "safe" not in text.replace("|", "| ").split(), path
        assert "autoescape" not in text
