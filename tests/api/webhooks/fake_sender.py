"""A sender that answers as it is told, and notes what was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from lading.api.webhooks.worker import WebhookWorker
from lading.core.records.schema import JSON, Record
from lading.core.webhooks.schedule import Answer, Outcome, RetryRules
from lading.testing.world import World

GOOD = Answer(outcome=Outcome.DELIVERED, status=200)
DOWN = Answer(outcome=Outcome.FAILED, fault="no answer")
WRONG = Answer(outcome=Outcome.REFUSED, status=400, fault="the receiver answered 400")
GONE = Answer(outcome=Outcome.GONE, status=410, fault="the receiver answered 410")


@dataclass(slots=True)
class FakeSender:
    """`answer` gives the end of an attempt; `hanging` URLs answer once
    they are `released`."""

    answer: Callable[[Record, Record], Answer] = lambda webhook, event: GOOD
    sent: list[tuple[str, Record]] = field(default_factory=list)
    hanging: set[str] = field(default_factory=set)
    arrivals: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, webhook: Record, event: Record) -> Answer:
        self.sent.append((webhook["url"], event))
        self.arrivals.put_nowait(webhook["url"])
        if webhook["url"] in self.hanging:
            await self.released.wait()
        return self.answer(webhook, event)

    def subjects(self, url: str = "") -> list[str]:
        """The names of records of the events that were sent, in order."""
        return [
            str(event["data"]["properties"]["new_attributes"]["name"])
            for to, event in self.sent
            if not url or to == url
        ]


def worker_of(it: World, sender: FakeSender, *, most: int = 32) -> WebhookWorker:
    """A worker of a server of its own on the database of a world."""
    return WebhookWorker(
        it.app.services, sender, rules=RetryRules(), most=most, timeout=15, chance=lambda: 0.0
    )


async def pump(it: World, worker: WebhookWorker, *, looks: int = 4, after: float = 0.0) -> None:
    """Let a worker look for events several times, `after` seconds apart."""
    for _ in range(looks):
        await worker.look()
        await worker.settle()
        it.clock.advance(after)


async def hook(it: World, *, token: str = "", **more: JSON) -> Record:
    """A webhook for changes of projects."""
    body = {"url": "https://a.example/", "event_types": ["lading.group.*"], **more}
    made: Record = await it.ok("POST", "webhooks", body, token=token or it.admin)
    return made


async def project(it: World, name: str, *, token: str = "", **more: JSON) -> Record:
    body = {"name": name, "group_class": "project", **more}
    made: Record = await it.ok("POST", "groups", body, token=token or it.admin)
    return made
