"""Amounts without measure, in requests, collections and quotas, on both databases: nobody is locked
out of a quota or of the fair share by what another one asks for, and no limit is passed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from lading.core.records.schema import JSON
from lading.testing.world import World
from tests.api.conftest import fair, it
from tests.api.shared_queue import project, start
from tests.api.sharing_world import group, share
from tests.api.test_quotas import quota, runnable, uuid_of

__all__ = ["fair", "it"]

ENDLESS = (2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64, 10**40, 1e300, -1, -(2**63), 1.5, "5", True)
NODES = (1, 7, 10_000)
KEYS = ("ram", "vcpus", "keep_cache_ram", "keep_cache_disk")
ANSWERS = {200, 422}


async def _ask(it: World, token: str, **more: JSON) -> int:
    it.clock.advance(1)
    spec = await it.spec(str(it.clock.moment), token=token, **more)
    answer = await it.request(
        "POST", "container_requests", {"container_request": spec}, token=token
    )
    return answer.status


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.attack("asks for amounts whose sum no database holds, so that nobody else is served")
async def test_endless_amounts_lock_nobody_out(it: World, key: str) -> None:
    ada, ben = await it.user("ada"), await it.user("ben")
    role = await group(it, "lab", group_class="role")
    for token in (ada, ben):
        await share(it, await uuid_of(it, token), role["uuid"], "can_read")
    await quota(it, role["uuid"], containers=10_000)
    for amount in ENDLESS:
        for nodes in NODES:
            constraints = {"ram": 1 << 20, "vcpus": 1, key: amount}
            parameters: JSON = {"nodes": nodes} if nodes > 1 else {}
            status = await _ask(
                it, ada, runtime_constraints=constraints, scheduling_parameters=parameters
            )
            assert status in ANSWERS, (amount, nodes, status)
    for token in (ada, ben):
        assert await _ask(it, token) == 200
    found = await it.request("GET", "quotas/uses", params={"uuids": []})
    assert found.status in ANSWERS


@pytest.mark.attack("claims that blocks are larger than all numbers of a database together")
async def test_endless_sizes_lock_nobody_out(it: World) -> None:
    ada = await it.user("ada")
    mine = await it.collection({"a": b"12345"}, token=ada)
    await quota(it, await uuid_of(it, ada), containers=5)
    name, _, *hints = mine["manifest_text"].split()[1].split("+")
    for size in (10**17, 10**18 - 1, 10**18, 2**63, 10**30):
        block = "+".join([name, str(size), *hints])
        for _ in range(12):
            text = f". {block} 0:{size}:file\n"
            answer = await it.request("POST", "collections", {"manifest_text": text}, token=ada)
            assert answer.status in {*ANSWERS, 400}, (size, answer.status)
    assert (await it.request("GET", "quotas", token=ada)).status == 200
    listed = await it.ok("GET", "quotas")
    uuid = listed["items"][0]["uuid"]
    uses = await it.request("GET", "quotas/uses", params={"uuids": [uuid]}, token=ada)
    assert uses.status == 200, uses.status
    await it.ok("PUT", f"quotas/{uuid}", {"bytes_stored": 1000})
    refused = await it.request(
        "POST", "collections", {"manifest_text": it.manifest({"b": b"1"})}, token=it.admin
    )
    assert refused.status == 200
    full = await it.request(
        "POST", "collections", {"manifest_text": mine["manifest_text"]}, token=ada
    )
    assert full.status == 422


@pytest.mark.parametrize("weight", [1e-300, 1e300, 1.0])
@pytest.mark.attack("asks for amounts and times that no account of a fair share holds")
async def test_endless_amounts_leave_the_fair_share_alone(fair: World, weight: float) -> None:
    ada, ben = await fair.user("ada"), await fair.user("ben")
    answer = await fair.request(
        "POST",
        "groups",
        {"group_class": "project", "name": "odd", "container_policy": {"share": weight}},
    )
    assert answer.status in ANSWERS
    for vcpus in (1, 2**31, 2**53 + 1, 2**62, 2**63 - 1):
        for seconds in (0, 1, 2**31, 2**62, 2**63 - 1):
            for nodes in (1, 10_000):
                status = await _ask(
                    fair,
                    ada,
                    runtime_constraints={"ram": 1 << 20, "vcpus": vcpus},
                    scheduling_parameters={"max_run_time": seconds, "nodes": nodes},
                )
                assert status in ANSWERS, (vcpus, seconds, nodes, status)
    other = await project(fair, "plain")
    assert await _ask(fair, ben) == 200
    assert await _ask(fair, fair.admin, owner_uuid=other) == 200
    # Each is started and ends, whatever it asked for.
    assert len(set(await start(fair, 20))) == 20


LIMITS: Sequence[object] = (
    -1, -(2**63), 2**63, 2**64, 10**40, 1.5, "NaN", "Infinity", True, [], {}, "x",
    1e300, -0.1,
)  # fmt: skip


@pytest.mark.parametrize("name", ["containers", "vcpus", "ram", "gpus", "queued", "bytes_stored"])
@pytest.mark.attack("sets a limit that is no number of things, so that it never holds")
async def test_limits_are_whole_numbers(it: World, name: str) -> None:
    subject = await uuid_of(it, await it.user("ada"))
    for limit in LIMITS:
        body = {"quota": {"subject_uuid": subject, name: limit}}
        answer = await it.request("POST", "quotas", body)
        assert answer.status in {400, 422}, (limit, answer.status)
    assert (await it.ok("GET", "quotas"))["items"] == []


@pytest.mark.parametrize("name", ["money", "budget", "warn_share"])
@pytest.mark.attack("sets an amount of money that nothing ever exceeds, or that all do")
async def test_money_is_a_number(it: World, name: str) -> None:
    subject = await uuid_of(it, await it.user("ada"))
    limits: Sequence[JSON] = (-0.01, -(10**300), "NaN", "Infinity", "-Infinity", True, [], {})
    for limit in limits:
        body = {"quota": {"subject_uuid": subject, name: limit}}
        assert (await it.request("POST", "quotas", body)).status in {400, 422}, limit
    for text in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999"):
        raw = f'{{"quota": {{"subject_uuid": "{subject}", "{name}": {text}}}}}'.encode()
        answer = await it.request("POST", "quotas", raw=raw)
        assert answer.status in {400, 422}, text


@pytest.mark.attack("commits many requests at once, to pass limits that each alone keeps")
async def test_races_pass_no_limit(it: World) -> None:
    ada = await it.user("ada")
    await quota(it, await uuid_of(it, ada), containers=3, queued=20)
    specs = [await it.spec(f"racing {number}", token=ada) for number in range(40)]
    answers = await asyncio.gather(
        *(
            it.request("POST", "container_requests", {"container_request": spec}, token=ada)
            for spec in specs
        )
    )
    made = [answer.json for answer in answers if answer.status == 200]
    assert {answer.status for answer in answers} <= ANSWERS
    assert len(made) <= 23
    assert len(await runnable(it, *made)) == 3
