"""Notices of preemption, against small fakes of the metadata services of EC2, Azure and Google."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lading.core.errors import Unavailable
from lading.supervisor.preemption import PREEMPTION_SOURCES as SOURCES
from lading.supervisor.preemption import (
    AzurePreemption,
    Ec2Preemption,
    GooglePreemption,
    Notice,
    PreemptionSource,
)
from lading.supervisor.preemption import open_preemption_source as open_source
from lading.supervisor.preemption import watch_preemption as watch
from lading.testing.asgi import AsgiTransport
from tests.cloud_services import FakeMetadata

ACTION = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
EVENTS = "/metadata/scheduledevents"
PREEMPTED = "/computeMetadata/v1/instance/preempted"
NAME = "/metadata/instance/compute/name"
PREEMPT = {
    "EventId": "1",
    "EventType": "Preempt",
    "Resources": ["me"],
    "NotBefore": "Mon, 19 Sep 2026 18:29:47 GMT",
}


def ec2(**documents: Any) -> tuple[Ec2Preemption, FakeMetadata]:
    server = FakeMetadata(dict(documents))
    return Ec2Preemption(AsgiTransport(server)), server


def azure(events: list[Any]) -> tuple[AzurePreemption, FakeMetadata]:
    server = FakeMetadata({EVENTS: {"DocumentIncarnation": 1, "Events": events}, NAME: "me\n"})
    return AzurePreemption(AsgiTransport(server)), server


async def test_ec2_says_nothing_most_of_the_time() -> None:
    source, server = ec2()
    assert await source.look(0) is None
    assert await source.look(5) is None
    assert server.calls == ["PUT /latest/api/token", *[f"GET {ACTION}", f"GET {REBALANCE}"] * 2]


async def test_ec2_schedules_an_action() -> None:
    source, server = ec2()
    server.documents[ACTION] = {"action": "terminate", "time": "2026-09-18T08:22:00Z"}
    notice = await source.look(0)
    assert notice == Notice(
        "EC2 will terminate this instance at 2026-09-18T08:22:00Z",
        '{"action":"terminate","time":"2026-09-18T08:22:00Z"}',
        certain=True,
    )


async def test_ec2_recommends_to_move() -> None:
    source, server = ec2()
    server.documents[REBALANCE] = {"noticeTime": "2026-09-18T08:20:00Z"}
    notice = await source.look(0)
    assert notice is not None
    assert ("since 2026-09-18T08:20:00Z" in notice.message, notice.certain) == (True, False)


async def test_ec2_tokens_are_renewed_before_they_end_and_when_they_are_refused() -> None:
    source, server = ec2()
    await source.look(0)
    await source.look(21_541)
    assert len(server.tokens) == 2
    server.tokens.append("another")
    assert await source.look(21_546) is None
    assert len(server.tokens) == 4


@pytest.mark.parametrize("faults", [[500], [401, 200, 401, 200], [200, 500], [200, 200]])
async def test_what_ec2_cannot_answer(faults: list[int]) -> None:
    source, server = ec2()
    server.faults = faults
    with pytest.raises(Unavailable, match="metadata"):
        await source.look(0)


async def test_azure_preempts_this_machine() -> None:
    source, _ = azure([{"EventType": "Reboot"}, {**PREEMPT, "Resources": ["other"]}, PREEMPT])
    notice = await source.look(0)
    assert notice is not None
    assert (
        notice.message
        == "Azure will take this machine away, not before Mon, 19 Sep 2026 18:29:47 GMT"
    )
    assert notice.certain


@pytest.mark.parametrize(
    "events", [[], [{**PREEMPT, "Resources": ["other"]}], [{**PREEMPT, "EventType": "Freeze"}]]
)
async def test_azure_means_others(events: list[Any]) -> None:
    assert await azure(events)[0].look(0) is None


async def test_azure_without_names_means_everybody() -> None:
    source, server = azure([{**PREEMPT, "Resources": [], "NotBefore": ""}])
    notice = await source.look(0)
    assert notice is not None
    assert notice.message.endswith("not before now")
    assert f"GET {NAME}" not in server.calls


async def test_what_azure_cannot_answer() -> None:
    source, server = azure([])
    server.faults = [410]
    with pytest.raises(Unavailable, match="scheduledevents: answered 410"):
        await source.look(0)


@pytest.mark.parametrize(("word", "taken"), [("FALSE", False), ("TRUE\n", True)])
async def test_google_says_one_word(word: str, taken: bool) -> None:
    notice = await GooglePreemption(AsgiTransport(FakeMetadata({PREEMPTED: word}))).look(0)
    assert (notice is not None and notice.certain) is taken


async def test_what_google_cannot_answer() -> None:
    with pytest.raises(Unavailable, match="instance/preempted: answered 404"):
        await GooglePreemption(AsgiTransport(FakeMetadata())).look(0)


class Scripted:
    """A source that says one thing after the other; None is a failure, and the end is waited
    for.
    """

    def __init__(self, *said: Notice | str | None) -> None:
        self.said, self.done = list(said), asyncio.Event()

    async def look(self, now: float) -> Notice | None:
        if not self.said:
            self.done.set()
            await asyncio.Event().wait()
        found = self.said.pop(0)
        if found is None:
            raise Unavailable("no answer")
        return found if isinstance(found, Notice) else None


async def follow(source: PreemptionSource) -> tuple[list[Notice], list[str]]:
    told: list[Notice] = []
    said: list[str] = []

    async def tell(notice: Notice) -> None:
        told.append(notice)

    task = asyncio.create_task(
        watch(source, tell, say=said.append, clock=lambda: 0.0, interval=0.0)
    )
    assert isinstance(source, Scripted)
    done = asyncio.create_task(source.done.wait())
    await asyncio.wait((task, done), return_when=asyncio.FIRST_COMPLETED)
    for one in (task, done):
        one.cancel()
    await asyncio.gather(task, done, return_exceptions=True)
    return told, said


async def test_each_notice_is_told_once() -> None:
    one, two = Notice("1", "", certain=False), Notice("2", "", certain=True)
    assert await follow(Scripted("", one, one, None, one, two, two)) == ([one, two], [])


async def test_more_than_five_failures_in_a_row_end_it() -> None:
    one = Notice("1", "", certain=True)
    assert await follow(Scripted(*[None] * 5, one, *[None] * 6, one)) == (
        [one],
        ["notices of preemption are no longer looked for: no answer"],
    )


@pytest.mark.parametrize("kind", sorted(SOURCES))
async def test_nobody_at_the_address(kind: str) -> None:
    async with open_source(kind, "http://127.0.0.1:9") as source:
        with pytest.raises(Unavailable):
            await source.look(0)
