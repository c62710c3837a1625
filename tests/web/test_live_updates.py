"""What open pages are told."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from lading.client.api import ApiClient
from lading.client.record_events import RecordEvent
from lading.core.errors import Unavailable
from lading.web.live_updates import LiveUpdates, OpenPage
from tests.web.browsing import PageSite

REQUEST, CONTAINER = "zzzzz-xvhdp-000000000000001", "zzzzz-dz642-000000000000001"


def _event(uuid: str, kind: str = "update", **new: object) -> RecordEvent:
    return RecordEvent(event_type=kind, object_uuid=uuid, properties={"new_attributes": new})


async def test_a_change_of_the_request_and_of_its_container() -> None:
    page = OpenPage(frozenset([REQUEST]), new=False)
    page.note(_event(CONTAINER))
    page.note(_event("zzzzz-xvhdp-000000000000009", "create"))
    assert await page.next_events(0) == []
    page.note(_event(REQUEST, container_uuid=CONTAINER))
    assert await page.next_events(1) == ["changed"]
    page.note(_event(CONTAINER))
    page.note(_event(CONTAINER))
    assert await page.next_events(1) == ["changed"]
    assert await page.next_events(0) == []


async def test_new_requests_and_missed_events() -> None:
    page = OpenPage(frozenset(), new=True)
    page.note(_event(REQUEST, "create"))
    page.look_again()
    assert await page.next_events(1) == ["changed", "new"]
    page.end()
    assert await page.next_events(1) is None


async def test_a_page_about_runs_hears_of_all_that_runs_consist_of() -> None:
    page = OpenPage(frozenset(), new=False, runs=True)
    for uuid in (REQUEST, CONTAINER, "zzzzz-j7d0g-000000000000001"):
        page.note(_event(uuid))
        assert await page.next_events(1) == ["changed"]


async def test_changes_come_from_the_api(here: PageSite) -> None:
    live, page = LiveUpdates(), OpenPage(frozenset(), new=True)
    async with live.open(ApiClient(here.files.transport, here.world.admin), page):
        # The connection is there.
        assert await page.next_events(5) == ["changed"]
        await here.world.submit("x")
        assert await page.next_events(5) == ["new"]


async def test_a_page_that_joins_others_looks_again(here: PageSite) -> None:
    live, first = LiveUpdates(), OpenPage(frozenset(), new=True)
    second = OpenPage(frozenset([REQUEST]), new=False)
    admin = ApiClient(here.files.transport, here.world.admin)
    async with live.open(admin, first):
        assert await first.next_events(5) == ["changed"]
        async with live.open(admin, second):
            assert await second.next_events(5) == ["changed"]
            assert await first.next_events(0) == []


async def test_others_hear_nothing(here: PageSite) -> None:
    live, mine, other = (
        LiveUpdates(),
        OpenPage(frozenset(), new=True),
        OpenPage(frozenset(), new=True),
    )
    admin = ApiClient(here.files.transport, here.world.admin)
    jane = ApiClient(here.files.transport, await here.world.user("jane"))
    async with live.open(admin, mine), live.open(jane, other):
        assert await mine.next_events(5) == await other.next_events(5) == ["changed"]
        await here.world.submit("x")
        assert await mine.next_events(5) == ["new"]
        assert await other.next_events(0) == []


async def test_a_token_that_is_refused_ends_the_pages(here: PageSite) -> None:
    page = OpenPage(frozenset(), new=True)
    async with LiveUpdates().open(ApiClient(here.files.transport, "v2/a/b"), page):
        assert await page.next_events(5) is None


async def test_a_login_has_so_many_open_pages(here: PageSite) -> None:
    live, api = LiveUpdates(), ApiClient(here.files.transport, here.world.admin)
    async with AsyncExitStack() as opened:
        for _ in range(50):
            await opened.enter_async_context(live.open(api, OpenPage(frozenset(), new=True)))
        with pytest.raises(Unavailable, match="close some"):
            await opened.enter_async_context(live.open(api, OpenPage(frozenset(), new=True)))
    assert len(asyncio.all_tasks()) < 10
