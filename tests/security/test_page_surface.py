"""The page in process: cookies of neighbours, secrets of all kinds, forms, links, addresses,
headers of every route, and files and texts of strangers.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import pytest

from lading.client.transport import Response
from lading.testing.asgi import AsgiTransport
from lading.web.sessions import IDLE, LONGEST
from tests.web.addresses import Elements, address, evil_site, routes
from tests.web.browsing import Browser, PageSite, page_site

COOKIE = "__Host-lading"
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[PageSite]:
    async with page_site(tmp_path) as made:
        yield made


async def _people(here: PageSite) -> tuple[Browser, Browser]:
    """The browsers of two users: the victim jane, and mallory."""
    return (
        await here.logged_in(await here.world.user("jane")),
        await here.logged_in(await here.world.user("mallory")),
    )


async def _reader(here: PageSite, cookie: str) -> str:
    """The name of the user whom the page takes for the sender of a Cookie header; "" for none."""
    answer = await here.browser().get("/ui/tokens", cookie=cookie)
    words = answer.body.decode()
    return next((name for name in ("jane", "mallory") if name in words), "")


PLANTED = [
    "x=1 {evil}", "{own}; x=1 {evil}", "{own}; x=1\t{evil}", "x=1 {evil}; {own}", "{own}; {evil}",
    "{evil}; {own}", "{own}; x={evil}", '{own}; x="{evil}"', '{own}; x="a; {evil}; b"',
    "{own}; =1; x {evil}", "{own}; x,{evil}", "{own}; x=1,{evil}", "{own}; $Version=1 {evil}",
    "{own}; $Version=1; x=1, {evil}", "{own}; \xa0{evil}", "{own}; \x85{evil}", "{own}; \x0b{evil}",
    "{own}; \x0c{evil}", "{own}; {lower}", "{own}; {evil}x", "{own}; x{evil}", "{own}; x=1\n{evil}",
    "{own}; x=1\r{evil}", "{own}; x=\xe9; y {evil}", "{own}; x=Wed, 01 Jan {evil}", "{own};{evil}",
    "{own}; x=1 {evil}; y=2 {evil}", "{own}; {evil}; {evil}", "{own}; __Host-lading ={stolen}",
    "{own}; __Host-lading= {stolen}", "{own}; __Secure-lading={stolen}", "{own}; lading={stolen}",
]  # fmt: skip
BROKEN = [
    "x=\xe9",
    'x="',
    "x=\x01",
    "x=[]{}()",
    "=",
    ";;;",
    "x=Wed, 1",
    '"',
    "x=a b c",
    "\xff=\xff",
]


@pytest.mark.attack("a cookie of another host of the domain puts its session into a browser")
async def test_cookies_of_neighbours(here: PageSite) -> None:
    jane, mallory = await _people(here)
    own, stolen = jane.cookies[COOKIE], mallory.cookies[COOKIE]
    for planted in PLANTED:
        cookie = planted.format(
            own=f"{COOKIE}={own}", evil=f"{COOKIE}={stolen}", stolen=stolen,
            lower=f"__host-lading={stolen}",
        )  # fmt: skip
        assert await _reader(here, cookie) in ("jane", ""), planted
    # A neighbour cannot end a session by a cookie that no parser reads.
    for broken in BROKEN:
        for cookie in (f"{broken}; {COOKIE}={own}", f"{COOKIE}={own}; {broken}"):
            assert await _reader(here, cookie) == "jane", cookie


def _near(secret: str) -> Iterator[str]:
    """Texts that are nearly a secret."""
    yield from (secret.upper(), secret[:-1], secret + "0", secret[1:], f"{secret} x", secret[::-1])
    yield from (f"0x{secret}", secret[:32], "", "0" * 64, "f" * 64, f"{secret}%00", secret + "\xe9")
    yield from (f"name {secret}", f"seal {secret}", f"answer 0 of {secret}", "../" + secret, "*")


@pytest.mark.attack("a guessed, cut or foreign secret, or a name on the disk, opens a session")
async def test_secrets_of_another_kind(here: PageSite) -> None:
    jane, _ = await _people(here)
    own = jane.cookies[COOKIE]
    link = await _link(here, here.world.tokens["jane"])
    names = [path.name for path in here.directory.rglob("*") if path.is_file()]
    assert len(names) > 1
    for guess in (*_near(own), *names, link.rpartition("/")[2], here.world.tokens["jane"]):
        assert await _reader(here, f"{COOKIE}={guess}") == "", guess
    for guess in (*_near(link.rpartition("/")[2]), *names, own, here.world.tokens["jane"]):
        answer = await here.browser().get(f"/ui/login/{quote(guess, safe='')}")
        assert answer.status in (200, 403, 404), guess
        assert "set-cookie" not in answer.headers, guess
    # None of these has used it up.
    assert (await here.browser().get(link)).status == 303


@pytest.mark.attack("an answer with a secret is kept, or another user reads the answer to a form")
async def test_answers_to_forms(here: PageSite) -> None:
    jane, mallory = await _people(here)
    secret = await jane.post("/ui/tokens", {"rights": "all"}, sec_fetch_mode="navigate")
    # An answer that is kept has an address of its own.
    assert (secret.status, b"v2/zzzzz-gj3su-" in secret.body) == (200, True)
    refused = await jane.post("/ui/tokens", {"rights": "none"}, sec_fetch_mode="navigate")
    place = refused.headers["location"]
    name = place.rpartition("/")[2]
    for guess in (
        name, "0", "", *(f"{number}{name[1:]}" for number in range(10)), name[:-1], name + "0",
        name.upper(), "\u0663" + name[1:], "..", "%2e%2e", f"0 of {jane.cookies[COOKIE]}",
    ):  # fmt: skip
        for browser in (mallory, here.browser()):
            answer = await browser.get(f"/ui/answers/{quote(guess)}")
            assert answer.status in (303, 404), guess
        if guess != name:
            assert (await jane.get(f"/ui/answers/{quote(guess)}")).status == 404, guess
    assert (await jane.get(place)).status == 200
    cookies = dict(jane.cookies)
    await jane.post("/ui/logout")
    jane.cookies = cookies
    assert (await jane.get(place)).status == 303


@pytest.mark.attack("a session goes on after its end")
@pytest.mark.parametrize(
    ("waits", "is_open"),
    [
        ([IDLE - 1], True), ([IDLE + 1], False), ([IDLE - 1, IDLE - 1], True), ([-60], True),
        ([LONGEST + 1], False), ([IDLE - 10] * 14, True), ([IDLE - 10] * 15, False),
        ([IDLE + 1, -IDLE], False),
    ],
)  # fmt: skip
async def test_the_end_of_a_session(here: PageSite, waits: list[int], is_open: bool) -> None:
    # A session is not longer than its own token, whatever the page is asked.
    jane, _ = await _people(here)
    for seconds in waits:
        here.world.clock.advance(seconds)
        answer = await jane.get("/ui/now", hx_request="true")
    assert (answer.status == 200) is is_open


ENDS = ["logout", "token", "user", "another login"]


@pytest.mark.attack("a copy of a session's cookie is used after a logout or the end of its user")
@pytest.mark.parametrize("end", ENDS)
async def test_a_stolen_cookie_ends(here: PageSite, end: str) -> None:
    jane, _ = await _people(here)
    thief = here.browser()
    thief.cookies = dict(jane.cookies)
    assert (await thief.get("/ui/")).status == 200
    link = await _link(here, here.world.tokens["jane"])
    me = await here.world.ok("GET", "users/current", token=here.world.tokens["jane"])
    filters = [["owner_uuid", "=", me["uuid"]], ["expires_at", "!=", None]]
    match end:
        case "logout":
            assert (await jane.post("/ui/logout")).status == 303
        case "token":
            found = await here.world.ok(
                "GET", "api_client_authorizations", params={"filters": filters}
            )
            for one in found["items"]:
                await here.world.ok("DELETE", f"api_client_authorizations/{one['uuid']}")
        case "user":
            await here.world.ok("PUT", f"users/{me['uuid']}", {"is_active": False})
        case "another login":
            assert (await jane.get(link)).status == 303
    for path in ("/ui/", "/ui/tokens", "/ui/requests", "/ui/projects"):
        answer = await thief.get(path)
        assert answer.status in (303, 401, 403), path
    assert (await thief.post("/ui/tokens", {"rights": "all"})).status in (303, 401, 403)


OTHER_SITES: list[dict[str, str]] = [
    *({"sec_fetch_site": site, "sec_fetch_mode": mode, "sec_fetch_dest": dest}
      for site in ("cross-site", "same-site", "Cross-Site", "unknown")
      for mode, dest in (("navigate", "document"), ("no-cors", "empty"), ("cors", "empty"),
                         ("navigate", "iframe"), ("websocket", "empty"))),
    *({"sec_fetch_site": "", "origin": origin}
      for origin in ("https://evil.example", "null", "https://here.evil.example", "file://",
                     "https://here.example:444", "https://x.here.example",
                     "https://here.example.", "https://here.example@evil.example", "about:blank")),
]  # fmt: skip


@pytest.mark.attack("a page of another site sends a form with a right token of the victim")
async def test_forms_of_other_sites(here: PageSite) -> None:
    jane, _ = await _people(here)
    own = f"/ui/projects/{(await _me(here))}/projects"
    token = await jane.form_token()
    for headers in OTHER_SITES:
        named = {**headers, "host": "here.example"}
        for path, form in (("/ui/tokens", {"rights": "all"}), (own, {"name": "x"})):
            answer = await jane.post(path, {**form, "form_token": token}, **named)
            assert answer.status == 403, (headers, path)
        answer = await jane.post("/ui/logout", {"form_token": token}, **named)
        assert answer.status == 403, headers
        answer = await here.browser().post("/ui/login", {"token": here.world.admin}, **named)
        assert answer.status == 403, headers
    assert (await jane.get("/ui/")).status == 200


async def _me(here: PageSite) -> str:
    user = await here.world.ok("GET", "users/current", token=here.world.tokens["jane"])
    return str(user["uuid"])


@pytest.mark.attack("a form is sent with a token of another session, a cut or a made one")
async def test_tokens_of_forms(here: PageSite) -> None:
    jane, mallory = await _people(here)
    right, other = await jane.form_token(), await mallory.form_token()
    again = await (await here.logged_in(here.world.tokens["jane"])).form_token()
    half = len(right) // 2
    forged = [
        other, again, "", "x", right[:-2], right[2:], right + "00", right[:half] + other[half:],
        other[:half] + right[half:], "0" * 128, "f" * 128, "00" * 64,
        right[:half], right[half:], jane.cookies[COOKIE], jane.cookies[COOKIE] * 2, "null",
        right.replace("a", "b"), f"{right},{right}", "\xe9" * 128, "٣" * 128, "0x" + right,
    ]  # fmt: skip
    for token in forged:
        for path in ("/ui/tokens", "/ui/logout", "/ui/requests/cancel", "/ui/webhooks"):
            answer = await jane.post(path, {"form_token": token, "rights": "all"})
            assert answer.status == 403, (token, path)
    # The first field counts, and none of the address.
    body = f"form_token={other}&form_token={right}&rights=all".encode()
    assert (await _send(jane, "/ui/tokens", body)).status == 403
    assert (await _send(jane, f"/ui/tokens?form_token={right}", b"rights=all")).status == 403
    fields = f"form_token={right}&rights=all".encode()
    for kind in (
        "text/plain", "application/json", "multipart/form-data; boundary=x", "", "text/html",
        "application/x-www-form-urlencodedx", "application/octet-stream",
    ):  # fmt: skip
        assert (await _send(jane, "/ui/tokens", fields, kind)).status in (400, 403), kind
    assert (await _send(jane, "/ui/tokens", fields, f"{FORM}; charset=utf-8")).status == 200
    assert (await jane.get("/ui/")).status == 200


async def _send(browser: Browser, path: str, body: bytes, kind: str = FORM) -> Response:
    headers = {"sec-fetch-site": "same-origin", "content-type": kind}
    return await browser.send("POST", path, headers, body)


async def _link(here: PageSite, token: str, place: str = "/ui/") -> str:
    headers = {"authorization": f"Bearer {token}", "content-type": FORM}
    answer = await AsgiTransport(here.app).request(
        "POST", "/ui/links", headers=headers, body=urlencode({"next": place}).encode()
    )
    return str(msgspec.json.decode(answer.body)["path"])


@pytest.mark.attack("a page of another site logs a browser in with a link of the attacker")
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", "Cross-Site", "x"])
@pytest.mark.parametrize("mode", ["navigate", "no-cors", "cors"])
async def test_a_link_of_an_attacker(here: PageSite, method: str, site: str, mode: str) -> None:
    jane, _ = await _people(here)
    before, link = dict(jane.cookies), await _link(here, here.world.tokens["mallory"])
    headers = {"sec-fetch-site": site, "sec-fetch-mode": mode}
    answer = await jane.send(method, link, headers, b"")
    assert "set-cookie" not in answer.headers
    assert jane.cookies == before
    assert (await jane.get("/ui/")).status == 200
    assert (await here.browser().post(link, sec_fetch_site=site)).status == (
        303 if site == "same-origin" else 403
    )


PLACES = [
    "//evil.example", "///evil.example", "/\\evil.example", "\\\\evil.example",
    "https://evil.example",
    "https:evil.example", "https:/evil.example", "HTTPS://evil.example", "//evil.example/ui/",
    "javascript:alert(1)", "JaVaScript:alert(1)", "data:text/html,x", "vbscript:x",
    "/ui//evil.example",
    "/ui/\\evil.example", "/ui/\t/evil.example", "/\t/evil.example", "/\n/evil.example", "\t//evil",
    "/ui/\r\nLocation: https://evil.example", "/ui/%0d%0aSet-Cookie: x=1\r\n", "/ui/\x00",
    " //evil",
    "//evil.example\\@here.example/ui/", "https://here.example@evil.example/ui/", "/ui/../..//evil",
    "/ui/..", "/ui/../services/x", "/ui/./../services/x", "/ui/%2e%2e/services/x",
    "/ui/.%2e/services/x", "/ui/%2E./services/x", "/ui/%2e%2E/%2e%2e/x", "/ui/x/%2e%2e/%2e%2e/c=x/",
    "/ui/..?x", "/ui/%2e%2e?x", "/ui/..#x", "/ui/%2e%2e", "/ui", "/", "", "ui/", "/uix/", "/UI/",
    "/arvados/v1/users", "/ui/\u2028", "/ui/\uff0f\uff0fevil", "/ui/\u202e", "/ui/ü", "/ui/ x",
    "?next",
    "#", "/ui/..;/x", "/;/ui/", "//ui/", "/ui:80//evil", "/ui@evil.example/", "http://[::1",
]  # fmt: skip


def _stays(location: str) -> bool:
    """Whether a browser that follows a Location from the page stays below /ui/."""
    parts = urlsplit(location)
    path = re.sub(r"%2e", ".", parts.path, flags=re.IGNORECASE)
    is_plain = location.isascii() and location.isprintable() and "\\" not in location
    dots = {".", ".."} & set(path.split("/"))
    return is_plain and not parts.netloc and not parts.scheme and not dots and path[:4] == "/ui/"


@pytest.mark.attack("a login, a link or a form leads to another host, or out of the page")
async def test_where_logins_lead(here: PageSite) -> None:
    jane, _ = await _people(here)
    token = here.world.tokens["jane"]
    for place in PLACES:
        browser, query = here.browser(), urlencode({"next": place})
        answers = [
            await browser.post("/ui/login", {"token": token, "next": place}),
            await here.browser().get(await _link(here, token, place)),
            await jane.get(f"/ui/login?{query}"),
            await jane.get(f"/ui/openid_connect?{query}"),
            await here.browser().post(
                "/ui/login", {"token": "x", "next": place}, sec_fetch_mode="navigate"
            ),
        ]
        for answer in answers:
            assert answer.status == 303, place
            assert _stays(answer.headers["location"]), (place, answer.headers["location"])
        for page in (await here.browser().text(f"/ui/login?{query}"),):
            led = re.findall(r'name="next" value="([^"]*)"', page)
            assert led
            assert _stays(led[0].replace("&amp;", "&")), place
        for host in ("here.example", "evil.example", ""):
            referer = f"https://here.example{place}".encode("latin-1", "replace").decode("latin-1")
            answer = await here.browser().post("/ui/tokens", referer=referer, host=host)
            assert answer.status == 303
            assert _stays(answer.headers["location"]), (place, answer.headers["location"])
    for place in ("/ui/a..b/", "/ui/x%2e%2ey/", "/ui/requests?next=//x/../y"):
        answer = await here.browser().post("/ui/login", {"token": token, "next": place})
        assert answer.headers["location"] == place


GUARDS = {
    "x-content-type-options": "nosniff", "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin", "cross-origin-resource-policy": "same-origin",
}  # fmt: skip


@pytest.mark.attack("a private page, a refusal or a file stays in a cache, or has no guard")
async def test_headers_of_every_answer(here: PageSite) -> None:
    evil = await evil_site(here)
    admin = await here.logged_in()
    stranger, nobody = await here.logged_in(await here.world.user("jane")), here.browser()
    count = 0
    for one in (*routes("GET"), *routes("POST")):
        path = address(one, uuid=evil.uuids[0])
        if path.startswith(("/ui/events", "/ui/logout")):
            continue
        for browser in (admin, stranger, nobody):
            for method, headers in (
                (one.method, {}), (one.method, {"hx-request": "true"}), ("HEAD", {}), ("PUT", {}),
                (one.method, {"sec-fetch-site": "cross-site"}),
            ):  # fmt: skip
                sent = {"sec-fetch-site": "same-origin", "content-type": FORM, **headers}
                answer = await browser.send(method, f"{path}?{evil.query}", sent, b"name=x")
                count += 1
                _check_guards(answer, f"{method} {path} {headers}")
    for path in (
        "/ui/none",
        "/ui/static/none.css",
        "/ui/static/..",
        "/ui/login/x",
        "/ui/answers/0",
    ):
        _check_guards(await admin.get(path), path)
    assert count > 500


def _check_guards(answer: Response, path: str) -> None:
    assert answer.status != 500, path
    for name, value in GUARDS.items():
        assert answer.headers[name] == value, path
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy, path
    assert "unsafe-eval" not in policy
    is_static = "/ui/static/" in path and answer.status == 200
    assert answer.headers["cache-control"] == ("no-cache" if is_static else "no-store"), path
    assert "access-control-allow-origin" not in answer.headers


SCRIPT = b"<script>alert(1)</script>"
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(1)</script></svg>"
GIF = b"GIF89a/*" + b"\0" * 4 + b"*/=1;alert(1)//" + SCRIPT
NAMES = [
    "a.html", "a.htm", "a.HTML", "a.xhtml", "a.xht", "a.shtml", "a.mht", "a.svg", "a.SVG", "a.svgz",
    "a.xml", "a.xsl", "a.pdf", "a.swf", "a.js", "a.mjs", "a.css", "a.json", "a.ipynb", "a.md",
    "a.txt", "a.log", "a.csv", "a.tsv", "a.png", "a.gif", "a.jpg", "a.webp", "a.ico", "a.bmp",
    "a.html.", "a.html ", "a", ".html", "a.html;.txt", "a.txt%00.html", "a.html?x", "a.html#x",
    "html", "a.php", "a.url", "a.hta", "a.wasm", "a.webmanifest", "a.jnlp", "a.tar.gz", "a.eml",
]  # fmt: skip
CONTENTS = [SCRIPT, SVG, GIF, b"\xef\xbb\xbf" + SCRIPT, SCRIPT.decode().encode("utf-16"),
b"%PDF-1.7\n"
            + SCRIPT, b"\x89PNG\r\n\x1a\n" + SCRIPT, b'<?xml version="1.0"?>' + SVG,
            b""]  # fmt: skip
SHOWN = {
    "text/html; charset=utf-8", "image/svg+xml", "image/png", "image/jpeg", "image/gif",
    "image/webp",
}  # fmt: skip


@pytest.mark.attack("a file of a stranger runs as a page of this origin, by any name and content")
async def test_files_of_strangers(here: PageSite) -> None:
    browser = await here.logged_in()
    files = {
        f"{number}/{name}": data
        for number, data in enumerate(CONTENTS) for name in NAMES
    }  # fmt: skip
    uuid = await here.files.collection(files)
    place = f"/ui/collections/{uuid}"
    for path in files:
        query = urlencode({"path": path})
        answer = await browser.get(f"{place}/raw?{query}")
        if answer.status == 200:
            kind = answer.headers["content-type"]
            assert kind in SHOWN, path
            _check_sandbox(answer, path)
            assert "allow-scripts" not in answer.headers["content-security-policy"]
        else:
            assert answer.status in (404, 422), path
        saved = await browser.get(f"{place}/download?{query}")
        assert saved.headers["content-type"] == "application/octet-stream", path
        assert saved.headers["content-disposition"].startswith("attachment; "), path
        _check_sandbox(saved, path)
    for path in list(files)[:: len(NAMES) + 1] + [f"0/{name}" for name in NAMES]:
        page = await browser.get(f"{place}/show?{urlencode({'path': path})}")
        if page.status == 200:
            assert Elements(page.body.decode()).faults == [], path


def _check_sandbox(answer: Response, path: str) -> None:
    policy = answer.headers["content-security-policy"]
    assert "sandbox" in policy, path
    assert "allow-same-origin" not in policy, path
    assert answer.headers["x-content-type-options"] == "nosniff", path
    assert answer.headers["cache-control"] == "no-store", path


@pytest.mark.attack(
    "a link of another site runs the scripts of a file, which its reader has not asked"
)
async def test_scripts_that_another_site_asks_for(here: PageSite) -> None:
    browser = await here.logged_in()
    uuid = await here.files.collection({"a.html": SCRIPT, "a.svg": SVG})
    for name in ("a.html", "a.svg"):
        for view in ("show", "raw"):
            path = f"/ui/collections/{uuid}/{view}?path={name}&scripts=1"
            for headers, runs in (
                ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, False),
                ({"sec_fetch_site": "same-site"}, False),
                ({"sec_fetch_site": "cross-site", "sec_fetch_dest": "iframe"}, False),
                ({"sec_fetch_site": "same-origin", "sec_fetch_dest": "iframe"}, True),
                ({"sec_fetch_site": "same-origin", "sec_fetch_dest": "document"}, view == "show"),
                ({"sec_fetch_site": "none", "sec_fetch_dest": "document"}, view == "show"),
            ):  # fmt: skip
                answer = await browser.get(path, **headers)
                assert answer.status == 200
                told = answer.headers["content-security-policy"] + answer.body.decode()
                assert ("allow-scripts" in told) is runs, (path, headers)


TEXTS = [
    "<script>alert(1)</script>", "</title><script>alert(1)</script>", "</textarea><img src=x>",
    "</pre><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onmouseover='alert(1)",
    '" autofocus onfocus="alert(1)', "`onload=alert(1)", "<svg/onload=alert(1)>", "<base href=//x>",
    "<iframe srcdoc='x'>", "<math><mtext><script>", "<!--><script>alert(1)//-->",
    "<![CDATA[<script>]]>",
    "javascript:alert(1)", "[x](javascript:alert(1))", "![x](x\"onerror=alert(1))", "{{7*7}}",
    "{%x%}",
    "${7*7}", "#{7*7}", "<%= 7*7 %>", "&lt;script&gt;", "&#60;script&#62;", "%3Cscript%3E",
    "\\x3cscript",
    "\u202egnp.exe", "\u2066x\u2069", "\u200bx", "\ufeffx", "\u2028alert(1)", "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07", "\x1b]8;;https://evil.example\x07x\x1b]8;;\x07", "\x1b[2J", "\x9b31m",
    "\x08\x08x",
    "\x0c", "\r<script>", "+ADw-script+AD4-", "\U000e0041", "ﾠ", "<" * 200, "&" * 200, "'" * 200,
    "<style>*{}</style>", "<link rel=stylesheet href=//x>", "<meta http-equiv=refresh content=0>",
    "<form action=//x>", "<a href=javascript:x>", "<script\x0b>", "<scr\u0000ipt>".replace("\0",
    ""),
]  # fmt: skip
MARKS = ("\u202e", "\u2066", "\u2028", "\x1b", "\x9b", "\x08")


@pytest.mark.attack("a text of a stranger in a name, property, log or notebook becomes markup")
async def test_texts_of_strangers(here: PageSite) -> None:
    world, browser = here.world, await here.logged_in()
    pages = []
    for number, text in enumerate(TEXTS):
        about = {"group_class": "project", "description": text, "properties": {text: text}}
        for name in (f"{number} {text}".replace("/", ""), str(number)):
            reply = await world.request("POST", "groups", {**about, "name": name})
            # A name with control characters is refused.
            assert reply.status == 200 or (reply.status == 422 and name != str(number)), text
            if reply.status == 200:
                uuid = reply.json["uuid"]
                pages += [f"/ui/projects/{uuid}", f"/ui/access/{uuid}"]
    log = "\n".join(f"2026-01-02T03:04:05.000000000Z {text}" for text in TEXTS) + "\n".join(TEXTS)
    notebook = msgspec.json.encode({"cells": [{"source": TEXTS, "outputs": [
        {"data": {"text/html": TEXTS, "image/svg+xml": SVG.decode()}}]}]})  # fmt: skip
    files = {
        "a.ipynb": notebook, "a.md": "\n".join(TEXTS).encode(), "a.csv": ",".join(TEXTS).encode(),
        "a.tsv": "\t".join(TEXTS).encode(), "a.txt": log.encode(), "a.json": notebook,
    }  # fmt: skip
    uuid = await here.files.collection(files)
    pages += [f"/ui/collections/{uuid}/show?path={name}" for name in files]
    pages += [f"/ui/collections/{uuid}/show?path={name}&as=text" for name in files]
    request = await world.submit("x", name=TEXTS[0])
    token = await world.lock(request["container_uuid"])
    stored = await here.files.collection({"stderr.txt": log.encode()})
    await world.finish(request["container_uuid"], token, log=await here.files.pdh(stored))
    base = f"/ui/requests/{request['uuid']}"
    pages += [base, f"{base}/log", f"{base}/log?file=stderr.txt"]
    for text in TEXTS:
        query = quote(text)
        pages += [f"/ui/search?q={query}", f"{base}/log?q={query}", f"/ui/requests?q={query}"]
    for page in pages:
        answer = await browser.get(page)
        assert answer.status in (200, 400, 404, 422), page
        words = answer.body.decode()
        assert Elements(words).faults == [], page
        assert not [mark for mark in MARKS if mark in words], page
