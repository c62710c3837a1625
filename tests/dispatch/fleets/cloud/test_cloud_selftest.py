"""The test of a cloud, against the fake one in made-up time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from lading.client.checks import CheckStep
from lading.core.errors import Invalid, Unavailable
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.cloud_selftest import MENDS, Means, Trial
from lading.dispatch.fleets.cloud.drivers.driver import Instance, InstanceSpec
from lading.dispatch.fleets.cloud.machine import CloudMachine
from lading.testing.cloud import FakeCloud
from lading.testing.cloud_troubles import Troubles
from lading.testing.simulated_loop import pass_time, play
from tests.simulation.cloud_scenario import SETTINGS

from .ssh import ssh_server

CHOSEN = replace(SETTINGS, set_id="set", prefix="Arvados")
KINDS = CHOSEN.types[:2]


class Stage:
    """A trial of a fake cloud; `steps` are what it told."""

    def __init__(self, cloud: FakeCloud) -> None:
        self.cloud = cloud
        self.steps: list[CheckStep] = []
        self.doing: list[str] = []

    def trial(self) -> Trial:
        numbers = iter(range(100))
        means = Means(
            settings=CHOSEN, driver=self.cloud, reach=self._reach, public_key="",
            token=lambda: f"s{next(numbers)}", clock=asyncio.get_running_loop().time,
        )  # fmt: skip
        return Trial(means, tell=self.steps.append, doing=self.doing.append)

    def _reach(self, passed: Callable[[str, str], None]) -> Any:
        return self.cloud.reach

    async def run(self) -> bool:
        return await self.trial().run(KINDS)

    @property
    def told(self) -> list[tuple[str, str, bool]]:
        return [(one.subject["type"], one.name, one.ok) for one in self.steps]

    @property
    def failed(self) -> list[CheckStep]:
        return [one for one in self.steps if not one.ok]


def test_all_is_well() -> None:
    stage = Stage(FakeCloud(seed=3))
    assert play(stage.run())
    names = ("create", "listed", "agent", "tags", "destroy")
    of_types = [(kind.name, name, True) for kind in KINDS for name in names]
    assert stage.told == [("", "list", True), *of_types, ("", "nothing left", True)]
    assert stage.cloud.vms == {}
    assert stage.steps[3].seconds >= 20
    assert stage.steps[5].finding.startswith("not listed any more after ")


@pytest.mark.parametrize(
    ("troubles", "name", "said", "mend"),
    [
        (Troubles(quota=1), "create", "gives 1 at most", "quota raised"),
        (
            Troubles(scarce=frozenset({KINDS[0].provider_type})),
            "create",
            "has no",
            "try another type",
        ),
        (
            Troubles(create_pretends=1.0),
            "create",
            "does not say whether it made anything",
            MENDS["create"],
        ),
        (
            Troubles(never_boots=1.0),
            "ssh",
            "did not become ready in .* \\(TimeoutBooting\\)",
            "ssh server",
        ),
        (Troubles(list_fails=1.0), "list", "lists nothing now", "credentials"),
        (Troubles(destroy_fails=1.0), "destroy", "removes nothing now", "by hand"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_left(
    troubles: Troubles, name: str, said: str, mend: str
) -> None:
    cloud = FakeCloud(seed=1, troubles=troubles)
    stage = Stage(cloud)

    async def run() -> bool:
        cloud.foreign("theirs")
        trial = asyncio.create_task(stage.run())
        if troubles.destroy_fails:
            while not stage.failed:
                await pass_time(1)
            troubles.destroy_fails = 0.0
        return await trial

    assert not play(run())
    first = stage.failed[0]
    assert first.name == name
    assert re.search(said, first.finding), first.finding
    assert mend in first.remedy
    assert set(cloud.vms) == {"theirs"}


def test_vms_of_a_test_that_was_killed_are_removed_first_and_those_of_others_never() -> None:
    cloud = FakeCloud(seed=2)
    stage = Stage(cloud)

    async def run() -> bool:
        cloud.foreign("theirs")
        cloud.foreign("old")
        cloud.vms["old"].instance = Instance(id="old", tags={"ArvadosInstanceSetID": "set"})
        return await stage.run()

    assert play(run())
    assert stage.steps[0].finding == "1 instances of an earlier test, removed"
    assert set(cloud.vms) == {"theirs"}


def test_a_vm_that_stays_is_named() -> None:
    cloud = FakeCloud(seed=5)
    stage = Stage(cloud)

    async def run() -> bool:
        trial = asyncio.create_task(stage.run())
        while len(stage.steps) < 2:
            await pass_time(1)
        cloud.troubles.destroy_fails = 1.0
        return await trial

    assert not play(run())
    last = stage.steps[-1]
    assert (last.name, last.ok) == ("nothing left", False)
    assert "i-1, i-2 may be left (the fake cloud removes nothing now)" in last.finding


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_what_is_interrupted_leaves_nothing(steps: int) -> None:
    cloud = FakeCloud(seed=4)
    stage = Stage(cloud)

    async def run() -> None:
        trial = asyncio.create_task(stage.run())
        while len(stage.steps) < steps:
            await pass_time(0.1)
        await pass_time(0.05)
        trial.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trial

    play(run())
    assert cloud.vms == {}


class Odd(FakeCloud):
    """One whose list shows no tags."""

    async def list(self) -> list[Instance]:
        return [replace(one, tags={}) for one in await super().list()]


def test_tags_that_are_not_kept_are_said() -> None:
    stage = Stage(Odd(seed=6))
    assert not play(stage.run())
    assert "its tags are not as they were set: ArvadosIdleBehavior" in stage.failed[0].finding
    assert stage.failed[0].name == "listed"


def test_a_configuration_that_cannot_be_is_said_with_what_to_do() -> None:
    class Refusing(FakeCloud):
        async def create(self, spec: Any) -> Instance:
            raise Invalid("EC2: InvalidAMIID.NotFound: no such image")

    stage = Stage(Refusing())
    assert not play(stage.run())
    assert (stage.failed[0].name, stage.failed[0].remedy) == ("create", MENDS["create"])


class Here:
    """A driver whose one instance is this machine."""

    preemption = ""

    def __init__(self) -> None:
        self.there: dict[str, Instance] = {}

    async def create(self, spec: InstanceSpec) -> Instance:
        self.there["i-1"] = Instance(
            id="i-1", address="127.0.0.1", tags=dict(spec.tags), user="root"
        )
        return self.there["i-1"]

    async def list(self) -> list[Instance]:
        return [*self.there.values()]

    async def tag(self, id: str, tags: Mapping[str, str]) -> None:
        self.there[id] = replace(self.there[id], tags=dict(tags))

    async def destroy(self, id: str) -> None:
        self.there.pop(id, None)

    async def console(self, id: str) -> str:
        return ""

    def group(self, kind: InstanceType) -> str:
        return kind.name


class Agent:
    """A link that answers."""

    async def serve(self) -> None:
        await asyncio.Event().wait()

    async def request(self, _op: str, *, timeout: float) -> None:
        await asyncio.sleep(0)


@dataclass
class Server:
    """A server for a trial; what is in `faults` goes wrong."""

    faults: dict[str, str]
    url: str = "https://10.0.0.1:1"
    certificate: str = "PEM"
    open: bool = False

    async def run(self) -> str:
        return self.act("request")

    async def shell(self) -> str:
        return self.act("shell")

    async def port(self) -> str:
        return self.act("port")

    def act(self, name: str) -> str:
        if name in self.faults:
            raise Unavailable(self.faults[name])
        return f"{name} works"


async def tried(server: Server, told: str) -> list[CheckStep]:
    """The steps of a trial, on whose VM the check of the API prints `told`."""

    @asynccontextmanager
    async def reach(machine: CloudMachine, tell: object) -> AsyncIterator[Any]:
        yield Agent()

    @asynccontextmanager
    async def start(machine: CloudMachine) -> AsyncIterator[Server]:
        if "start" in server.faults:
            raise Unavailable(server.faults["start"])
        server.open = True
        try:
            yield server
        finally:
            server.open = False

    steps: list[CheckStep] = []
    async with ssh_server() as host:
        host.answers |= {server.url: (0, told), "python3": (0, '{"engine": "crun", "said": "ran"}')}
        means = Means(
            settings=replace(CHOSEN, ssh_port=host.target.port),
            driver=Here(), reach=lambda _: reach,
            public_key="", token=lambda: "s", clock=asyncio.get_running_loop().time,
            key=host.target.key, server=start,
        )  # fmt: skip
        await Trial(means, tell=steps.append, doing=lambda _: None).run(KINDS[:1])
    assert not server.open
    return steps


@pytest.mark.parametrize(
    ("faults", "told", "failed", "after"),
    [
        ({}, '{"said": "it serves"}', {}, ["api", "request", "shell", "port"]),
        (
            {},
            '{"error": "timed out"}',
            {"api": "the VM does not reach https://10.0.0.1:1: timed out"},
            ["api"],
        ),
        ({"start": "no room"}, "", {"api": "no room"}, ["api"]),
        ({"request": "no crun"}, '{"said": ""}', {"request": "no crun"}, ["api", "request"]),
        (
            {"shell": "no ssh"},
            '{"said": ""}',
            {"shell": "no ssh"},
            ["api", "request", "shell", "port"],
        ),
        (
            {"port": "no page"},
            '{"said": ""}',
            {"port": "no page"},
            ["api", "request", "shell", "port"],
        ),
    ],
)
async def test_api_request_shell_and_port_are_told_one_by_one(
    faults: dict[str, str], told: str, failed: dict[str, str], after: list[str]
) -> None:
    steps = await tried(Server(faults), told)
    names = [one.name for one in steps]
    first = names.index("container") + 1
    assert names[first:] == [*after, "tags", "destroy", "nothing left"]
    assert {one.name: one.finding for one in steps if not one.ok} == failed
    assert all(one.remedy == MENDS[one.name] for one in steps if not one.ok)
