"""Fair share between projects, on the API: the order in which dispatchers are told to start."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lading.api.events import timers
from lading.core.containers import priority
from lading.core.errors import Invalid
from lading.core.policy.fair_share import DEFAULT_EXPECTED, WINDOW, level_of
from lading.core.records.schema import JSON
from lading.testing.world import WITH_API, World, world
from tests.api.shared_queue import ON, project, queue, rows, start, waiting


async def test_projects_get_their_weights(fair: World) -> None:
    one, three = await project(fair, "one"), await project(fair, "three", 3)
    of = {one["container_uuid"]: "one" for one in await queue(fair, one, 12)}
    of |= {one["container_uuid"]: "three" for one in await queue(fair, three, 12)}
    started = await start(fair, 12)
    assert Counter(of[uuid] for uuid in started) == {"one": 3, "three": 9}
    # Within a project the older goes first.
    assert [uuid for uuid in started if of[uuid] == "one"] == list(of)[:3]


async def test_a_higher_priority_goes_first_whatever_was_used(fair: World) -> None:
    project_uuid = await project(fair, "p")
    await queue(fair, project_uuid, 4)
    urgent = (await queue(fair, project_uuid, 1, priority=2))[0]["container_uuid"]
    assert (await waiting(fair))[0] == urgent


async def test_long_queues_come_forward_one_for_each_that_starts(fair: World) -> None:
    owner = await project(fair, "long")
    long = [one["container_uuid"] for one in await queue(fair, owner, WINDOW + 4)]
    short = await queue(fair, await project(fair, "short"), 2)
    places = "SELECT place, count(*) FROM fair_tickets GROUP BY place"
    assert dict(await rows(fair, places)) == {"exact": WINDOW + 2, "parked": 4}
    order = await waiting(fair)
    assert order.index(short[1]["container_uuid"]) < 4
    assert [uuid for uuid in order if uuid in long] == long
    # A dispatcher that had room took the last one: it is charged, and the others keep their order.
    await fair.run(long[-1])
    assert dict(await rows(fair, places)) == {"exact": WINDOW + 2, "parked": 3}
    await start(fair, 4)
    assert dict(await rows(fair, places))["parked"] < 3
    assert [uuid for uuid in await waiting(fair) if uuid in long] == [
        uuid for uuid in long[:-1] if uuid in await waiting(fair)
    ]


async def test_one_that_is_given_back_keeps_its_place(fair: World) -> None:
    made = await queue(fair, await project(fair, "p"), 3)
    before = await waiting(fair)
    await fair.lock(made[0]["container_uuid"])
    path = f"containers/{made[0]['container_uuid']}/unlock"
    await fair.ok("POST", path, token=fair.dispatcher)
    assert await waiting(fair) == before
    assert await rows(fair, "SELECT count(*) FROM fair_tickets WHERE held_at > 0") == [(0,)]


async def test_what_is_cancelled_or_on_hold_is_not_charged(fair: World) -> None:
    owner = await project(fair, "p")
    made = await queue(fair, owner, WINDOW + 3)
    finish = "SELECT finish FROM fair_accounts"
    ((before,),) = await rows(fair, finish)
    await fair.ok("POST", f"container_requests/{made[0]['uuid']}/cancel")
    await fair.ok("PUT", f"container_requests/{made[1]['uuid']}", {"priority": 0})
    # Two others came forward, and were charged instead; a little has decayed.
    ((after,),) = await rows(fair, finish)
    assert 0 <= before - after < DEFAULT_EXPECTED / 100
    assert await rows(fair, "SELECT count(*) FROM fair_tickets") == [(WINDOW + 1,)]
    await fair.ok("PUT", f"container_requests/{made[1]['uuid']}", {"priority": 1})
    assert made[1]["container_uuid"] in await waiting(fair)
    # Trashing the project takes all away at once.
    await fair.ok("POST", f"groups/{owner}/trash")
    assert await waiting(fair) == []
    assert await rows(fair, "SELECT count(*) FROM fair_tickets") == [(0,)]


async def test_a_changed_priority_moves_to_another_level(fair: World) -> None:
    made = await queue(fair, await project(fair, "p"), 2)
    await fair.ok("PUT", f"container_requests/{made[1]['uuid']}", {"priority": 7})
    assert (await waiting(fair))[0] == made[1]["container_uuid"]
    assert await rows(fair, "SELECT level, place FROM fair_tickets ORDER BY level") == [
        (1, "exact"),
        (7, "exact"),
    ]


async def test_children_keep_the_level_of_their_parent(fair: World) -> None:
    parent = await fair.submit("workflow", priority=9, runtime_constraints=WITH_API)
    supervisor = await fair.lock(parent["container_uuid"])
    path = f"containers/{parent['container_uuid']}"
    await fair.ok("PUT", path, {"state": "Running"}, token=supervisor)
    own = await fair.container_token(parent["container_uuid"])
    child = await fair.submit("step", priority=3, token=own)

    async def level() -> int:
        found = await fair.ok("GET", f"containers/{child['container_uuid']}")
        return level_of(found["priority"])

    assert await level() == 9
    await fair.ok("PUT", f"container_requests/{parent['uuid']}", {"priority": 4})
    assert await level() == 4


async def test_the_end_corrects_the_charge_and_the_next_gets_the_time_of_the_tool(
    fair: World,
) -> None:
    await queue(fair, await project(fair, "p"), 2)
    await start(fair, 1, seconds=10)
    ((used, expected),) = await rows(fair, "SELECT used, expected FROM fair_accounts")
    assert 10_000 <= used < 11_000
    assert 10_000 <= expected < 11_000
    await fair.submit("step", "next", use_existing=False)
    found = await rows(fair, "SELECT expected FROM fair_tickets ORDER BY created")
    assert found[0] == (DEFAULT_EXPECTED,)
    assert 10_000 <= found[1][0] < 11_000


async def test_one_that_is_held_for_longer_is_charged_meanwhile(fair: World) -> None:
    made = await queue(fair, await project(fair, "p"), 1)
    await fair.lock(made[0]["container_uuid"])
    ((before,),) = await rows(fair, "SELECT finish FROM fair_accounts")
    await timers.act(fair.app.services)
    assert await rows(fair, "SELECT finish FROM fair_accounts") == [(before,)]
    fair.clock.advance(300)
    await timers.act(fair.app.services)
    ((finish,),) = await rows(fair, "SELECT charge FROM fair_tickets")
    assert 600_000 <= finish < 602_000


async def test_the_share_is_that_of_the_nearest_project_with_a_weight(fair: World) -> None:
    top = await project(fair, "top")
    inner = await project(fair, "inner", 4, owner_uuid=top)
    below = await project(fair, "below", owner_uuid=inner)
    for owner in (top, inner, below):
        await queue(fair, owner, 1)
    await fair.submit("at home", use_existing=False)
    user = (await fair.ok("GET", "users/current"))["uuid"]
    found = dict(await rows(fair, "SELECT share, weight FROM fair_accounts"))
    assert found == {top: 1.0, inner: 4.0, user: 1.0}


async def test_only_admins_set_shares(fair: World) -> None:
    ada = await fair.user("ada")
    given: JSON = {"group_class": "project", "name": "mine"}
    mine = await fair.ok("POST", "groups", {"group": given}, token=ada)
    policy: JSON = {"group": {"container_policy": {"share": 9}}}
    path = f"groups/{mine['uuid']}"
    assert (await fair.request("PUT", path, policy, token=ada)).status == 403
    wrong: JSON = {"group": {"container_policy": {"share": "much"}}}
    reply = await fair.request("PUT", path, wrong)
    assert (reply.status, "must be a number from 0.1 to 1000" in reply.error) == (422, True)
    await fair.ok("PUT", path, policy)
    # What an admin set stays, also when the user changes the rest.
    more: JSON = {"group": {"container_policy": {"share": 9, "retry": {"oom": {"limit": 1}}}}}
    await fair.ok("PUT", path, more, token=ada)


async def test_shares_of_users(tmp_path: Path) -> None:
    settings: JSON = {"FairShare": {**ON, "By": "user"}}
    async with world(tmp_path, Containers=settings) as it:
        ada = await it.user("ada")
        await it.submit("date", token=ada)
        user = (await it.ok("GET", "users/current", token=ada))["uuid"]
        assert await rows(it, "SELECT share FROM fair_accounts") == [(user,)]


@pytest.mark.parametrize(
    "wrong", [{"By": "group"}, {"HalfLife": 0.0}, {"Weights": {"zzzzz-tpzed-a": 0.0}}]
)
async def test_a_wrong_configuration_is_refused(tmp_path: Path, wrong: dict[str, JSON]) -> None:
    with pytest.raises(Invalid, match=r"configuration: Containers\.FairShare\."):
        async with world(tmp_path, Containers={"FairShare": {**ON, **wrong}}):
            pass


async def test_a_quota_holds_as_well(fair: World) -> None:
    one, other = await project(fair, "one"), await project(fair, "other", 2)
    quota: JSON = {"subject_uuid": one, "containers": 1}
    await fair.ok("POST", "quotas", {"quota": quota})
    made = await queue(fair, one, WINDOW + 8)
    # Requests of the same few milliseconds have one rank: they wait in the order of their uuids.
    mine = [request["container_uuid"] for request in sorted(made, key=lambda row: row["uuid"])]
    await queue(fair, other, WINDOW + 8)
    held: dict[str, str] = {}
    for _ in range(12):
        for uuid in (await waiting(fair))[: 3 - len(held)]:
            held[uuid] = await fair.lock(uuid)
        assert sum(uuid in mine for uuid in held) <= 1
        first = next(iter(held))
        fair.clock.advance(10)
        await fair.finish(first, held.pop(first))
    # The ones that ended are the oldest.
    ended = [uuid for (uuid,) in await rows(fair, "SELECT uuid FROM containers WHERE output <> ''")]
    own = [uuid for uuid in mine if uuid in ended]
    assert own == mine[: len(own)]
    assert len(own) >= 3


async def test_two_servers_keep_one_account(fair: World) -> None:
    database = fair.app.services.database
    made = await queue(fair, await project(fair, "p"), 3)
    async with world(fair.root, database=database, seed=8, Containers={"FairShare": ON}) as second:
        second.blocks, second.images = fair.blocks, fair.images
        await second.lock(made[0]["container_uuid"])
        second.clock.advance(10)
    path = f"containers/{made[0]['container_uuid']}"
    await fair.ok("POST", f"{path}/unlock", token=fair.dispatcher)
    assert (await waiting(fair))[0] == made[0]["container_uuid"]
    await start(fair, 3)
    assert await rows(fair, "SELECT count(*) FROM fair_tickets") == [(0,)]


async def test_nothing_is_stored_without_it_and_it_can_be_turned_off(tmp_path: Path) -> None:
    async with world(tmp_path, Containers={"FairShare": ON}) as it:
        made = await queue(it, await project(it, "p"), WINDOW + 2)
        database = it.app.services.database
        async with world(tmp_path, database=database, seed=8) as off:
            await timers.act(off.app.services)
            assert await rows(off, "SELECT count(*) FROM fair_tickets") == [(0,)]
            found = await off.ok("GET", f"containers/{made[0]['container_uuid']}")
            assert found["priority"] == priority.own_priority(1, made[0]["created_at"])
            await off.submit("date")
            assert await rows(off, "SELECT count(*) FROM fair_tickets") == [(0,)]


async def test_a_run_has_the_share_of_its_owner(fair: World) -> None:
    user = (await fair.ok("GET", "users/current"))["uuid"]
    lab = await project(fair, "lab")
    for owner in (user, lab):
        for name in ("a", "b"):
            body = {"name": name, "project": owner}
            run = await fair.ok("POST", "groups/begin_run", body)
            await queue(fair, run["uuid"], 1)
    shares = [share for (share,) in await rows(fair, "SELECT DISTINCT share FROM fair_accounts")]
    assert sorted(shares) == sorted((user, lab))
