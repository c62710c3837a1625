"""Very many requests are cancelled by the server while the command shows it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.running.test_bulk_actions import listed, names, submit
from tests.cli.site import Site


@pytest.fixture(scope="module")
def image(site: Site) -> str:
    """The image that requests name."""
    return site.call(site.world.ensure_image())


@contextmanager
def cancelling(site: Site) -> Iterator[None]:
    """The server cancels many requests in the background."""
    work = asyncio.run_coroutine_threadsafe(site.world.app.cancellations.run(), site.loop)
    try:
        yield
    finally:
        work.cancel()


def test_all_are_cancelled_by_the_server(site: Site, image: str) -> None:
    alice = site.call(site.world.user("alice"))
    for number in range(2):
        spec = site.call(site.world.spec("do", token=alice, name=f"all.{number}", priority=0))
        site.call(site.world.ok("POST", "container_requests", spec, token=alice))
    other = submit(site, image, "other")
    refused = site.lading("request", "cancel", "--all", "last", code=2)
    assert "--all selects all requests" in refused.stderr
    refused = site.lading("request", "cancel", "--all", code=1, token=alice)
    assert "2 requests match; give --yes" in refused.stderr
    with cancelling(site):
        done = site.lading("request", "cancel", "--all", "--yes", token=alice)
        assert "2 of 2 requests cancelled" in done.stderr
        assert {one["uuid"] for one in listed(site, "--state", "Committed")} == {other}
        shown = site.lading("request", "cancel", "--all", "--yes", "--json").stdout
    lines = [json.loads(line) for line in shown.splitlines()]
    assert (lines[0]["cancelled"], lines[-1]["cancelled"]) == (0, 1)
    assert {one["state"] for one in listed(site, "--name", "all.*")} == {"Final"}
    site.lading("request", "cancel", "--all", "--yes", code=1)


def test_more_than_a_thousand_that_match(site: Site, image: str) -> None:
    spec = site.call(site.world.spec("many", name="many_1", use_existing=False, priority=0))
    for _ in range(2):
        body = {"container_requests": [spec] * 501}
        site.call(site.world.ok("POST", "container_requests/batch", body))
    submit(site, image, "many.1")
    with cancelling(site):
        done = site.lading("request", "cancel", "--name", "many_?", "--yes")
    assert "1,002 of 1,002 requests cancelled" in done.stderr
    assert names(site, "--name", "many*", "--state", "Committed") == ["many.1"]
