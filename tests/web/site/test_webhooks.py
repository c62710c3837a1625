"""The pages of webhooks."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lading.api.webhooks.worker import WebhookWorker
from lading.core.records.schema import Record
from lading.testing.world import World
from tests.api.webhooks.fake_sender import WRONG, FakeSender, project, pump, worker_of
from tests.web.browsing import Browser, PageSite, page_site

SLACK = "https://hooks.slack.com/services/T0/B0/key"


@dataclass(slots=True, kw_only=True)
class Sending:
    """A site whose deliveries end as `sender` says."""

    here: PageSite
    browser: Browser
    sender: FakeSender

    @property
    def world(self) -> World:
        return self.here.world

    @property
    def worker(self) -> WebhookWorker:
        return worker_of(self.world, self.sender)


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[Sending]:
    sender = FakeSender()
    async with page_site(tmp_path, webhook_sender=sender) as here:
        yield Sending(here=here, browser=await here.logged_in(), sender=sender)


async def _make(browser: Browser, **form: str) -> tuple[str, str]:
    """The uuid and the secret of a new webhook."""
    answer = await browser.post("/ui/webhooks", {"url": "https://a.example/x", **form})
    text = answer.body.decode()
    assert answer.status == 200, text
    assert answer.headers["cache-control"] == "no-store"
    secret = re.search(r'value="(whsec_[^"]+)"', text)
    uuid = re.search(r"\w{5}-hk4wb-\w{15}", text)
    assert secret
    assert uuid
    return uuid[0], secret[1]


async def _find(it: Sending, uuid: str) -> Record:
    found: Record = await it.world.ok("GET", f"webhooks/{uuid}")
    return found


async def test_one_is_made_and_its_secret_is_shown_once(it: Sending) -> None:
    uuid, secret = await _make(
        it.browser, url=SLACK, format="slack", name="team", states="Final, Cancelled",
        types="lading.container_request.* lading.group.create",
    )  # fmt: skip
    made = await _find(it, uuid)
    assert (made["format"], made["states"]) == ("slack", ["Final", "Cancelled"])
    assert made["event_types"] == ["lading.container_request.*", "lading.group.create"]
    for path in ("/ui/webhooks", f"/ui/webhooks/{uuid}"):
        assert secret not in await it.browser.text(path)
    listed = await it.browser.text("/ui/webhooks")
    assert "https://hooks.slack.com/…" in listed
    # The path of such an address is its secret.
    assert "T0/B0" not in listed
    words = await it.browser.words("/ui/webhooks")
    assert "lading.group.create to Final or Cancelled slack ✓ Active none yet" in words


async def test_email_has_no_secret_to_show(it: Sending) -> None:
    answer = await it.browser.post("/ui/webhooks", {"url": "mailto:a@example.org"})
    assert answer.status == 303
    words = await it.browser.words(answer.headers["location"])
    assert "Format email" in words
    assert "new secret" not in words


async def test_those_of_a_project(it: Sending) -> None:
    place = await project(it.world, "thesis")
    own, _ = await _make(it.browser, name="mine")
    of_project, _ = await _make(it.browser, name="ours", **{"for": "thesis", "in": place["uuid"]})
    assert (await _find(it, of_project))["owner_uuid"] == place["uuid"]
    assert f"/ui/webhooks?owner={place['uuid']}" in await it.browser.text(
        f"/ui/projects/{place['uuid']}"
    )
    everything = await it.browser.text("/ui/webhooks")
    listed = await it.browser.text(f"/ui/webhooks?owner={place['uuid']}")
    mine = await it.browser.text("/ui/webhooks?owner=mine")
    for text, found in ((everything, (True, True)), (listed, (False, True)), (mine, (True, False))):
        assert (own in text, of_project in text) == found
    assert "of thesis" in await it.browser.words("/ui/webhooks")
    # A form on the page of the project makes another one of it.
    assert f'value="{place["uuid"]}"' in listed
    assert (await it.browser.get("/ui/webhooks?owner=x")).status == 404


@pytest.mark.parametrize(
    ("form", "status"),
    [({"url": "ftp://a.example/"}, 422), ({"for": "nowhere"}, 404), ({"types": "A B"}, 422)],
)
async def test_mistakes_make_none(it: Sending, form: dict[str, str], status: int) -> None:
    answer = await it.browser.post("/ui/webhooks", {"url": "https://a.example/", **form})
    assert answer.status == status
    assert (await it.world.ok("GET", "webhooks"))["items"] == []


async def test_a_test_says_how_it_ended(it: Sending) -> None:
    uuid, _ = await _make(it.browser)
    answer = await it.browser.post(f"/ui/webhooks/{uuid}/test")
    assert "delivered, answered 200" in answer.body.decode()
    it.sender.answer = lambda *_: WRONG
    answer = await it.browser.post(f"/ui/webhooks/{uuid}/test")
    assert "the test was not delivered: the receiver answered 400" in answer.body.decode()


async def test_dead_letters_are_sent_again(it: Sending) -> None:
    uuid, _ = await _make(it.browser, types="lading.group.create", name="ci")
    it.sender.answer = lambda *_: WRONG
    for name in ("a", "b"):
        await project(it.world, name)
    await pump(it.world, it.worker, looks=8, after=600)
    place = f"/ui/webhooks/{uuid}"
    words = await it.browser.words(place)
    assert "the receiver answered 400" in words
    assert "lading.group.create" in words
    assert words.count("✗ refused, answered 400") == 6
    assert "2 dead letters" in await it.browser.words("/ui/webhooks")
    first, second = re.findall(r'name="letter" value="(\d+)"', await it.browser.text(place))
    answer = await it.browser.post(f"{place}/redeliver", {"letter": first})
    assert "1 dead letter is sent again" in await it.browser.words(answer.headers["location"])
    assert f'value="{first}" disabled' in await it.browser.text(place)
    it.sender.answer = FakeSender().answer
    await pump(it.world, it.worker, after=600)
    found = await it.world.ok("GET", f"webhooks/{uuid}/deliveries")
    assert [str(one["log_id"]) for one in found["dead"]] == [second]
    answer = await it.browser.post(f"{place}/redeliver", {"all": "1"})
    assert answer.headers["location"].endswith("queued=1")
    for form in ({}, {"letter": "x"}):
        assert (await it.browser.post(f"{place}/redeliver", form)).status == 422


async def test_one_is_paused_and_resumed(it: Sending) -> None:
    uuid, _ = await _make(it.browser)
    place = f"/ui/webhooks/{uuid}"
    answer = await it.browser.post(f"{place}/pause", {"reason": "too loud"})
    assert answer.headers["location"] == place
    assert "⊘ Paused reason too loud" in await it.browser.words(place)
    assert "⊘ Paused" in await it.browser.words("/ui/webhooks")
    await it.browser.post(f"{place}/resume", {"skip": "1"})
    assert (await _find(it, uuid))["state"] == "Active"


async def test_a_new_secret_is_shown_once(it: Sending) -> None:
    uuid, secret = await _make(it.browser)
    place = f"/ui/webhooks/{uuid}"
    answer = await it.browser.post(f"{place}/rotate", {"keep": "3600"})
    found = re.search(r'value="(whsec_[^"]+)"', answer.body.decode())
    assert found
    assert found[1] != secret
    text = await it.browser.text(place)
    assert found[1] not in text
    assert "valid until" in text
    assert (await it.browser.post(f"{place}/rotate", {"keep": "9"})).status == 422


async def test_one_is_deleted_after_a_question(it: Sending) -> None:
    uuid, _ = await _make(it.browser)
    place = f"/ui/webhooks/{uuid}/delete"
    assert "its dead letters are lost" in (await it.browser.post(place)).body.decode()
    await _find(it, uuid)
    answer = await it.browser.post(place, {"sure": "yes"})
    assert answer.headers["location"] == "/ui/webhooks"
    assert (await it.browser.get(f"/ui/webhooks/{uuid}")).status == 404


async def test_others_see_none_of_them(it: Sending) -> None:
    uuid, _ = await _make(it.browser)
    jane = await it.here.logged_in(await it.world.user("jane"))
    assert uuid not in await jane.text("/ui/webhooks")
    place = f"/ui/webhooks/{uuid}"
    assert (await jane.get(place)).status == 404
    for action in ("test", "pause", "resume", "delete", "redeliver", "rotate"):
        form = {"all": "1", "keep": "0", "sure": "yes"}
        assert (await jane.post(f"{place}/{action}", form)).status == 404
    assert (await it.browser.get("/ui/webhooks/x")).status == 404


async def test_a_long_list_has_pages(it: Sending) -> None:
    for number in range(3):
        token = await it.world.user(f"u{number}")
        for _ in range(18):
            await it.world.ok("POST", "webhooks", {"url": "https://a.example/"}, token=token)
            it.world.clock.advance(1)
    text = await it.browser.text("/ui/webhooks")
    older = re.search(r'rel="next" href="([^"]+)"', text)
    assert older
    first, second = (
        set(re.findall(r"row-(\w{5}-hk4wb-\w{15})", one))
        for one in (text, await it.browser.text(older[1].replace("&amp;", "&")))
    )
    assert (len(first), len(second), first & second) == (50, 4, set())
