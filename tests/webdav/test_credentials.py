from __future__ import annotations

from base64 import b64encode

import pytest

from lading.core.errors import Forbidden
from lading.webdav.credentials import Credential, find_credential, session_cookie
from lading.webdav.file_request import parse_address as parse

PATH = "/c=zzzzz-4zz18-000000000000001"
COOKIE = f"a=b; {session_cookie('v2/x/~').partition(';')[0]}"


@pytest.mark.parametrize(
    ("path", "headers", "query", "token"),
    [
        (f"{PATH}/t=a/f", {"authorization": "Bearer b"}, "api_token=c", "a"),
        (f"{PATH}/t=/f", {"authorization": "Bearer b"}, "", ""),
        (PATH, {"authorization": "Bearer b"}, "api_token=c", "b"),
        (PATH, {"authorization": "OAuth2 b "}, "", "b"),
        (PATH, {"authorization": f"Basic {b64encode(b'u:p:q').decode()}"}, "", "p:q"),
        (PATH, {"authorization": "Basic ???", "cookie": COOKIE}, "api_token=c", "c"),
        (PATH, {"cookie": COOKIE}, "", "v2/x/~"),
        (PATH, {"cookie": "arvados_api_token=%%%"}, "", ""),
        (PATH, {"cookie": "\x01=;;"}, "", ""),
        (PATH, {}, "other=1", ""),
    ],
)
def test_find(path: str, headers: dict[str, str], query: str, token: str) -> None:
    assert find_credential("GET", parse(path), headers, query) == Credential(token=token)


def test_a_cookie_only_reads() -> None:
    assert find_credential("DELETE", parse(PATH), {"cookie": COOKIE}, "").token == ""


def test_a_browser_goes_on_without_the_token() -> None:
    found = find_credential(
        "GET", parse(f"{PATH}/d/"), {"accept": "text/html"}, "x=1&api_token=c&y="
    )
    assert found == Credential(token="c", onward=f"{PATH}/d/?x=1&y=")
    assert (
        find_credential("GET", parse(PATH), {"accept": "text/html"}, "api_token=c").onward
        == f"{PATH}/"
    )
    assert find_credential("HEAD", parse(PATH), {"accept": "text/html"}, "api_token=c").onward == ""


def test_a_page_of_another_site_reads_nothing_with_what_a_browser_keeps() -> None:
    foreign = {
        "sec-fetch-site": "same-site",
        "sec-fetch-mode": "no-cors",
        "sec-fetch-dest": "image",
    }
    assert find_credential("GET", parse(PATH), {"cookie": COOKIE, **foreign}, "").token == ""
    with pytest.raises(Forbidden):
        find_credential("GET", parse(PATH), {"authorization": "Basic dTpw", **foreign}, "")
    link = {
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
    }
    assert find_credential("GET", parse(PATH), {"cookie": COOKIE, **link}, "").token == "v2/x/~"
    assert (
        find_credential("PUT", parse(PATH), {"authorization": "Bearer b", **foreign}, "").token
        == "b"
    )
