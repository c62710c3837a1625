from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lading.client.api import ApiClient
from lading.client.retry import NO_RETRY
from lading.core.errors import Invalid
from lading.dispatch.fleet import FleetView
from lading.dispatch.run import until_known
from lading.testing.containers import FakeContainers
from lading.testing.simulated_loop import pass_time, play


class Slow:
    """A fleet that is known some time later, or never."""

    def __init__(self, *troubles: str, fault: Exception | None = None) -> None:
        self.troubles, self.fault, self.looks = list(troubles), fault, 0

    def view(self) -> FleetView:
        trouble = self.troubles[0] if self.troubles else ""
        return FleetView(is_known=not self.troubles, trouble=trouble)

    async def changed(self) -> None:
        await pass_time(10.0)
        if self.fault is not None:
            raise self.fault
        self.troubles.pop(0)


def wait(server: FakeContainers, fleet: Any, on_trouble: Callable[[], None] = lambda: None) -> None:
    async def scene() -> None:
        client = ApiClient(server, "secret", retry=NO_RETRY)
        await until_known(client, fleet, interval=1.0, on_trouble=on_trouble)

    play(scene())


def test_those_who_wait_are_told_why() -> None:
    server = FakeContainers()
    uuid = server.add()
    wait(server, Slow("", "the cloud is not there", "the cloud is slow"))
    assert server.statuses == {uuid: "The dispatcher cannot decide yet: the cloud is slow."}


def test_nobody_is_told_when_it_is_known_at_once_or_nobody_waits() -> None:
    server = FakeContainers()
    wait(server, Slow("the cloud is not there"))
    server.add()
    wait(server, Slow())
    assert server.statuses == {}


def test_trouble_is_told_to_the_caller() -> None:
    told: list[bool] = []
    wait(FakeContainers(), Slow("", "the cloud is not there"), on_trouble=lambda: told.append(True))
    assert told == [True]


def test_what_ends_the_fleet_ends_the_waiting() -> None:
    with pytest.raises(Invalid, match="EC2: AuthFailure"):
        wait(FakeContainers(), Slow("not yet", fault=Invalid("EC2: AuthFailure")))


def test_an_api_that_is_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = FakeContainers()
    uuid, real, failed = server.add(), server.request, list[int]()

    async def request(*arguments: Any, **more: Any) -> Any:
        if len(failed) < 3:
            failed.append(1)
            raise Invalid("not now")
        return await real(*arguments, **more)

    monkeypatch.setattr(server, "request", request)
    wait(server, Slow("it is not there"))
    assert server.statuses == {uuid: "The dispatcher cannot decide yet: it is not there."}
