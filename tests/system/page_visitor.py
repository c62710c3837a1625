"""A real browser on a real server: windows that fail on console messages, on requests to other
hosts, and on what axe-core finds. Test modules import the fixtures that they use.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.postgres import PostgresServer
from tests.reality import need, need_program, need_root
from tests.system.cluster import Cluster, running_cluster

ROOT = Path(__file__).parents[2]
AXE = ROOT / "build/axe/axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# Pixels of the narrowest phone on which no table scrolls sideways. Samples and files are as wide as
# what they show.
_PHONE = 360
_WIDE_TABLES = """[...document.querySelectorAll('.scroll:not(.usage):not(.preview)')]
    .filter(one => one.querySelector('table') && one.scrollWidth > one.clientWidth + 1)
    .map(one => one.getAttribute('aria-label'))"""
PATIENCE = 60_000
"""Milliseconds for which a browser waits for what a test expects."""


def need_page() -> None:
    """Skip the test unless this machine can run containers and open the page."""
    need_root()
    for program in ("crun", "chromium"):
        need_program(program)
    vendor = ROOT / "src/lading/web/static/vendor/prepared"
    need(AXE.is_file() and vendor.is_file(), "what 'scripts/assets.sh test' fetches")


def postgres_config(request: pytest.FixtureRequest) -> str:
    """The line of a cluster's configuration for a fresh database of PostgreSQL."""
    postgres: PostgresServer = request.getfixturevalue("postgres")
    # A browser of another test keeps an event loop in this thread.
    with ThreadPoolExecutor(1) as other:
        found = other.submit(lambda: asyncio.run(postgres.fresh())).result()
    return f"PostgreSQL: {{Connection: {json.dumps(dict(found))}}}\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_page()
    config = "Containers: {StopGracePeriod: 500ms, LogUpdatePeriod: 100ms}\n"
    with running_cluster(tmp_path_factory.mktemp("page") / "data", config) as running:
        running.lading("image", "add", "--name", "tools:1", "--from-host",
                       "sh", "seq", "sleep", "echo", "touch", "stty")  # fmt: skip
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    need_program("chromium")
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        yield browser
        browser.close()


class Visitor:
    """A browser window that fails on console messages and on requests to other hosts."""

    def __init__(self, cluster: Cluster, page: Page) -> None:
        self.page, self.cluster = page, cluster
        self.origin = f"https://{cluster.address}"
        self.faults: list[str] = []
        page.set_default_timeout(PATIENCE)
        # Five seconds otherwise: too few for a machine that is busy with other tests.
        expect.set_options(timeout=PATIENCE)
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("request", self._note_request)

    def log_in(self, *place: str) -> None:
        """Follow a one-time link."""
        self.page.goto(
            self.cluster.lading("open", "--print", *place).stdout.strip().splitlines()[-1]
        )

    def go(self, path: str) -> None:
        """Open an address of the page."""
        self.page.goto(f"{self.origin}{path}")

    def check(self) -> None:
        """What every view must keep to."""
        assert self.faults == [], self.faults
        # Evaluated: the policy of the page refuses a script element.
        self.page.evaluate(f"{AXE.read_text()};0")
        found = self.page.evaluate(f"axe.run(document, {{runOnly: {json.dumps(RULES)}}})")
        violations = [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]]
        assert violations == [], f"{self.page.url}: {violations}"
        size = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        wide, room = self.page.evaluate(size)
        assert wide <= room, "the page scrolls sideways"
        if room >= _PHONE:
            scrolled = self.page.evaluate(_WIDE_TABLES)
            assert scrolled == [], f"tables that scroll sideways on {self.page.url}: {scrolled}"

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.text} ({message.location['url']}, on {self.page.url})")

    def _note_request(self, request: Request) -> None:
        if not request.url.startswith(f"{self.origin}/"):
            self.faults.append(f"request to {request.url}")


LOOKS = ("light", *(pytest.param(look, marks=pytest.mark.long) for look in ("dark", "narrow")))
"""Each change is looked at in light colours; `make long` has the other looks."""


@pytest.fixture(params=LOOKS)
def visitor(
    cluster: Cluster, chromium: Browser, request: pytest.FixtureRequest
) -> Iterator[Visitor]:
    """A visitor who is logged in, with each look."""
    yield from look_at(cluster, chromium, request.param)


@pytest.fixture
def reader(cluster: Cluster, chromium: Browser) -> Iterator[Visitor]:
    """A visitor who is logged in."""
    yield from look_at(cluster, chromium, "light")


def look_at(cluster: Cluster, chromium: Browser, look: str) -> Iterator[Visitor]:
    """A visitor with a look: light, dark or narrow."""
    context = chromium.new_context(
        ignore_https_errors=True,
        color_scheme="dark" if look == "dark" else "light",
        viewport={"width": 360 if look == "narrow" else 1280, "height": 800},
    )
    made = Visitor(cluster, context.new_page())
    made.log_in()
    yield made
    context.close()


def make_run(cluster: Cluster, name: str) -> str:
    """A run of one step that has ended; its uuid."""
    step = submit(cluster, f"step of {name}", f": {name}", "--run", name)
    cluster.lading("wait", step)
    return str(json.loads(cluster.lading("runs", "show", name, "--json").stdout)["uuid"])


def make_template(cluster: Cluster, run: str, name: str) -> str:
    """A template of a run; its uuid."""
    saved = cluster.lading("template", "save", run, "--name", name, "--json")
    return str(json.loads(saved.stdout)["uuid"])


def submit(cluster: Cluster, name: str, script: str, *options: str) -> str:
    """Submit a request; its uuid."""
    said = cluster.lading("run", "--detach", "--name", name, "--image", "tools:1", *options,
                          "--", "sh", "-c", script).stdout  # fmt: skip
    found = re.search(r"\w{5}-xvhdp-\w{15}", said)
    assert found
    return found[0]
