"""Login at a provider of OpenID Connect: a real browser, a real server, and the provider in a
process of its own.
"""

from __future__ import annotations

import http.client
import json
import re
import secrets
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from tests.reality import need_program, need_root
from tests.system.cluster import Cluster, running_cluster
from tests.system.page_visitor import PATIENCE, Visitor

pytestmark = pytest.mark.system
JANE = {"email": "jane@example.org", "email_verified": True, "name": "Jane Doe", "groups": ["lab"]}


@dataclass
class Provider:
    """A provider and where it is."""

    issuer: str

    def describe(self, subject: str, claims: dict[str, object]) -> None:
        """Set the claims of a person."""
        request = urllib.request.Request(
            f"{self.issuer}/users/{subject}",
            data=json.dumps(claims).encode(),
            method="PUT",
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.status == 204


@contextmanager
def running_provider() -> Iterator[Provider]:
    """A provider until the end."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = Path(sys.executable).with_name("oidc-provider-mock")
    process = subprocess.Popen(
        [program, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        provider = Provider(f"http://localhost:{port}")
        for _ in range(300):
            try:
                provider.describe("jane", JANE)
                break
            except OSError:
                time.sleep(0.1)
        yield provider
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with running_provider() as running:
        yield running


@pytest.fixture(scope="module")
def cluster(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_root()
    for program in ("crun", "chromium"):
        need_program(program)
    config = f"""
Users: {{NewUsersAreActive: true}}
Login:
  OpenIDConnect: {{Enable: true, Issuer: "{provider.issuer}", ClientID: lading,
    ClientSecret: secret, GroupsClaim: groups, AdminGroup: admins, AcceptAccessToken: true}}
"""
    with running_cluster(tmp_path_factory.mktemp("login") / "data", config) as running:
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@pytest.fixture
def visitor(cluster: Cluster, chromium: Browser) -> Iterator[Visitor]:
    """A visitor who has not logged in."""
    context = chromium.new_context(ignore_https_errors=True)
    made = Visitor(cluster, context.new_page())
    yield made
    context.close()


def _keep_here(route: Route) -> None:
    """The provider's page loads a style from elsewhere, which must not be asked."""
    host = route.request.url.partition("://")[2].partition("/")[0]
    if host.startswith(("localhost:", "127.0.0.1:")):
        route.continue_()
    else:
        route.abort()


def _go_to_provider(visitor: Visitor) -> Page:
    visitor.page.route("**/*", _keep_here)
    visitor.go("/ui/requests")
    visitor.check()
    visitor.page.get_by_role("link", name="Log in with single sign-on").click()
    visitor.page.wait_for_url("http://localhost:*/**")
    return visitor.page


def _log_in(visitor: Visitor, subject: str) -> None:
    page = _go_to_provider(visitor)
    page.get_by_placeholder("sub").fill(subject)
    page.get_by_role("button", name="Authorize").click()
    page.wait_for_url(f"{visitor.origin}/**")
    # The pages of the provider are not ours.
    visitor.faults.clear()


def test_a_person_logs_in_and_out(visitor: Visitor, chromium: Browser) -> None:
    _log_in(visitor, "jane")
    assert visitor.page.url == f"{visitor.origin}/ui/requests"
    expect(visitor.page.get_by_text("Jane Doe")).to_be_visible()
    visitor.check()
    [user] = [
        one
        for one in json.loads(visitor.cluster.lading("user", "list", "--json").stdout)
        if one["username"] == "jane"
    ]
    assert (user["email"], user["is_admin"]) == ("jane@example.org", False)
    kept = visitor.page.context.storage_state()
    visitor.page.get_by_role("button", name="Log out").click()
    # The provider ends its login too, and leads back.
    visitor.page.get_by_role("button", name="End session").click()
    visitor.page.wait_for_url(f"{visitor.origin}/ui/login")
    visitor.faults.clear()
    visitor.check()
    # The cookie of before is worthless.
    later = chromium.new_context(ignore_https_errors=True, storage_state=kept)
    page = later.new_page()
    page.goto(f"{visitor.origin}/ui/")
    expect(page.get_by_label("Token")).to_be_visible(timeout=PATIENCE)
    later.close()


def test_a_person_is_refused_by_the_provider(visitor: Visitor) -> None:
    page = _go_to_provider(visitor)
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_role("alert")).to_contain_text("did not log you in")
    visitor.faults.clear()
    visitor.check()
    visitor.go("/ui/")
    expect(page.get_by_label("Token")).to_be_visible()


def test_an_answer_is_worth_nothing_in_another_browser(visitor: Visitor) -> None:
    page = _go_to_provider(visitor)
    # A browser that has not begun the login has no cookie of it.
    page.context.clear_cookies()
    page.get_by_placeholder("sub").fill("jane")
    page.get_by_role("button", name="Authorize").click()
    expect(page.get_by_role("alert")).to_contain_text("another browser")
    visitor.go("/ui/")
    expect(page.get_by_label("Token")).to_be_visible()


def test_groups_make_an_admin(provider: Provider, visitor: Visitor) -> None:
    provider.describe("root", {"name": "Root", "groups": ["admins"]})
    _log_in(visitor, "root")
    users = json.loads(visitor.cluster.lading("user", "list", "--json").stdout)
    assert [one["is_admin"] for one in users if one["username"] == "root"] == [True]
    visitor.check()


def _access_token(provider: Provider, subject: str) -> str:
    """An access token that the provider gives to another program for a person."""
    there = urlsplit(provider.issuer)
    program = {"client_id": "program", "redirect_uri": "http://localhost:1/done"}
    query = urlencode(
        {**program, "response_type": "code", "scope": "openid email profile", "state": "1"}
    )
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    with closing(http.client.HTTPConnection(there.netloc, timeout=10)) as connection:
        connection.request("POST", f"/oauth2/authorize?{query}", f"sub={subject}", headers)
        answer = connection.getresponse()
        answer.read()
        [code] = parse_qs(urlsplit(str(answer.getheader("Location"))).query)["code"]
        form = {**program, "grant_type": "authorization_code", "code": code, "client_secret": "x"}
        connection.request("POST", "/oauth2/token", urlencode(form), headers)
        return str(json.loads(connection.getresponse().read())["access_token"])


def _who_is(visitor: Visitor, token: str) -> tuple[int, dict[str, object]]:
    there = urlsplit(visitor.origin)
    trusting = ssl._create_unverified_context()
    headers = {"Authorization": f"Bearer {token}"}
    with closing(
        http.client.HTTPSConnection(there.netloc, timeout=10, context=trusting)
    ) as connection:
        connection.request("GET", "/arvados/v1/users/current", headers=headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def test_a_program_works_with_an_access_token(provider: Provider, visitor: Visitor) -> None:
    provider.describe("john", {"name": "John", "preferred_username": "john"})
    token = _access_token(provider, "john")
    status, user = _who_is(visitor, token)
    assert (status, user["identity_url"]) == (200, f"{provider.issuer}#john")
    assert _who_is(visitor, secrets.token_urlsafe(32))[0] == 401
    # The user is the same after a login with a browser.
    _log_in(visitor, "john")
    users = json.loads(visitor.cluster.lading("user", "list", "--json").stdout)
    assert [one["uuid"] for one in users if one["username"] == "john"] == [user["uuid"]]
    log = "".join(path.read_text() for path in visitor.cluster.data.rglob("*.log"))
    assert re.search("access token accepted", log)
    assert token not in log
