from __future__ import annotations

from lading.core.records.schema import JSON
from lading.testing.world import World
from tests.api.shared_queue import project, queue, start


async def test_what_shares_have_used_is_shown(fair: World) -> None:
    ada = await fair.user("ada")
    mine = await project(fair, "mine", 2)
    user = (await fair.ok("GET", "users/current", token=ada))["uuid"]
    link: JSON = {
        "link_class": "permission", "name": "can_read", "tail_uuid": user, "head_uuid": mine
    }  # fmt: skip
    await fair.ok("POST", "links", {"link": link})
    other = await project(fair, "other")
    await queue(fair, mine, 2)
    made = (await queue(fair, other, 4))[-1]
    await start(fair, 3)
    why = await fair.ok("GET", f"container_requests/{made['uuid']}/why")
    (place,) = [one["sentence"] for one in why["waits"] if one["reason"] == "position"]
    assert place.startswith("2 containers wait before it")
    assert "then the project that has used least of its share" in place
    found = await fair.ok("GET", "fair_shares")
    assert found["enabled"]
    by_uuid = {one["uuid"]: one for one in found["items"]}
    assert by_uuid.keys() == {mine, other}
    assert (by_uuid[mine]["weight"], by_uuid[other]["weight"]) == (2.0, 1.0)
    total = sum(one["used_vcpu_hours"] for one in by_uuid.values())
    assert 30 / 3600 <= total < 33 / 3600
    assert by_uuid[other]["times_its_share"] > 0
    assert f"other has used {by_uuid[other]['times_its_share']:.1f} times its share" in place
    assert by_uuid[other]["waiting"] + by_uuid[mine]["waiting"] == 3
    # Others see what they can read.
    answer = await fair.ok("GET", "fair_shares", token=ada)
    assert [one["uuid"] for one in answer["items"]] == [mine]


async def test_what_a_share_has_used_is_told_to_those_who_can_read_it(fair: World) -> None:
    ada = await fair.user("ada")
    user = (await fair.ok("GET", "users/current", token=ada))["uuid"]
    secret = await project(fair, "secret plans", 2)
    inner = await project(fair, "shared", owner_uuid=secret)
    link: JSON = {"link_class": "permission", "name": "can_read", "tail_uuid": user}
    await fair.ok("POST", "links", {"link": {**link, "head_uuid": inner}})
    made = (await queue(fair, inner, 4))[-1]
    await start(fair, 2)

    async def place(token: str | None) -> str:
        why = await fair.ok("GET", f"container_requests/{made['uuid']}/why", token=token)
        (sentence,) = [one["sentence"] for one in why["waits"] if one["reason"] == "position"]
        return str(sentence)

    assert "secret plans has used 1.0 times its share" in await place(None)
    assert "has used least of its share)." in await place(ada)
    assert "secret plans" not in await place(ada)
