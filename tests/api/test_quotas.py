"""Requests that wait for room in quotas."""

from __future__ import annotations

from lading.core.records.schema import JSON, Record
from lading.core.records.service_records import QUOTAS
from lading.store import records
from lading.testing.world import World
from tests.api.sharing_world import group, share


async def uuid_of(it: World, token: str) -> str:
    return str((await it.ok("GET", "users/current", token=token))["uuid"])


async def quota(it: World, subject: str, **limits: JSON) -> Record:
    found: Record = await it.ok("POST", "quotas", {"quota": {"subject_uuid": subject, **limits}})
    return found


async def runnable(it: World, *requests: Record) -> list[int]:
    """The numbers of the requests whose containers have a priority and have not ended."""
    found = []
    for number, one in enumerate(requests):
        container = await it.ok("GET", f"containers/{one['container_uuid']}")
        if container["priority"] > 0 and container["state"] in ("Queued", "Locked", "Running"):
            found.append(number)
    return found


async def submit(it: World, token: str, count: int, **more: JSON) -> list[Record]:
    """Requests that share no work."""
    made = []
    for _ in range(count):
        it.clock.advance(1)
        made.append(await it.submit(str(it.clock.moment), token=token, **more))
    return made


async def wait_of(it: World, request: Record) -> Record:
    why = await it.ok("GET", f"container_requests/{request['uuid']}/why")
    found: Record = why["waits"][0]
    return found


async def test_so_many_run_and_each_end_makes_room_for_the_next(it: World) -> None:
    ada = await it.user("ada")
    await quota(it, await uuid_of(it, ada), containers=2)
    made = await submit(it, ada, 5)
    assert await runnable(it, *made) == [0, 1]
    wait = await wait_of(it, made[2])
    assert wait["reason"] == "usage quota"
    assert wait["sentence"] == (
        "It waits for the quota of the user ada: 2 of 2 containers are in use, and it needs 1; "
        "it runs when others end, or ask an administrator for more."
    )
    await it.run(made[1]["container_uuid"])
    assert await runnable(it, *made) == [0, 2]
    await it.run(made[0]["container_uuid"], exit_code=1)
    assert await runnable(it, *made) == [2, 3]
    await it.ok("POST", f"container_requests/{made[2]['uuid']}/cancel")
    assert await runnable(it, *made) == [3, 4]


async def test_many_reasons_are_told_at_once(it: World) -> None:
    ada, ben = await it.user("ada"), await it.user("ben")
    await quota(it, await uuid_of(it, ada), containers=1)
    made = await submit(it, ada, 3)
    grouped = [
        await it.submit(str(n), token=ada, parallel_group="g", max_parallel=1, priority=0)
        for n in range(2)
    ]
    params: dict[str, JSON] = {"uuids": [one["uuid"] for one in (*made, *grouped)]}
    found = (await it.ok("GET", "container_requests/waits", params=params, token=ada))["items"]
    by_uuid = {one["uuid"]: one["reason"] for one in found}
    assert [by_uuid.get(one["uuid"]) for one in made] == [None, "usage quota", "usage quota"]
    answer = await it.ok("GET", "container_requests/waits", params=params, token=ben)
    assert answer["items"] == []
    refused = await it.request("GET", "container_requests/waits", params={"uuids": "x"})
    assert refused.status == 422


async def test_a_large_one_is_not_overtaken_but_for_priority(it: World) -> None:
    ada = await it.user("ada")
    await quota(it, await uuid_of(it, ada), vcpus=4)
    small = await submit(it, ada, 2, runtime_constraints={"vcpus": 2, "ram": 1 << 28})
    large = await submit(it, ada, 1, runtime_constraints={"vcpus": 4, "ram": 1 << 28})
    later = await submit(it, ada, 1, runtime_constraints={"vcpus": 1, "ram": 1 << 28})
    made = [*small, *large, *later]
    await it.run(made[0]["container_uuid"])
    assert await runnable(it, *made) == [1]
    await it.run(made[1]["container_uuid"])
    assert await runnable(it, *made) == [2]
    # One that waits gives its room to a higher priority, and has it again afterwards.
    await it.ok("PUT", f"container_requests/{made[3]['uuid']}", {"priority": 9})
    assert await runnable(it, *made) == [3]
    await it.run(made[3]["container_uuid"])
    assert await runnable(it, *made) == [2]
    # One that is locked keeps it.
    await it.lock(made[2]["container_uuid"])
    made += await submit(it, ada, 1, priority=10)
    assert await runnable(it, *made) == [2]


async def test_a_request_on_hold_lets_the_next_one_run(it: World) -> None:
    ada = await it.user("ada")
    await quota(it, await uuid_of(it, ada), vcpus=4)
    small = await submit(it, ada, 1, runtime_constraints={"vcpus": 2, "ram": 1 << 28})
    large = await submit(it, ada, 1, runtime_constraints={"vcpus": 4, "ram": 1 << 28})
    later = await submit(it, ada, 1, runtime_constraints={"vcpus": 1, "ram": 1 << 28})
    requests = [*small, *large, *later]
    assert await runnable(it, *requests) == [0]
    await it.ok("PUT", f"container_requests/{large[0]['uuid']}", {"priority": 0})
    assert await runnable(it, *requests) == [0, 2]


async def test_workflows_leave_room_for_their_steps(it: World) -> None:
    ada = await it.user("ada")
    await quota(it, await uuid_of(it, ada), containers=4)
    workflow: dict[str, JSON] = {"scheduling_parameters": {"supervisor": True}}
    runners = await submit(it, ada, 3, **workflow)
    steps = await submit(it, ada, 3)
    made = [*runners, *steps]
    assert await runnable(it, *made) == [0, 1, 3, 4]
    assert (
        "containers that run workflows have at most half"
        in (await wait_of(it, made[2]))["sentence"]
    )
    await it.run(made[3]["container_uuid"])
    assert await runnable(it, *made) == [0, 1, 4, 5]
    await it.run(made[0]["container_uuid"])
    # Room in the half, and none in the whole that two steps have: it waits no more apart.
    assert await runnable(it, *made) == [1, 2, 4, 5]


async def test_what_can_never_run_is_refused_and_keeps_nobody_waiting(it: World) -> None:
    ada = await it.user("ada")
    found = await quota(it, await uuid_of(it, ada), vcpus=4, contact="it@example.org")
    spec = await it.spec("big", token=ada, runtime_constraints={"vcpus": 5, "ram": 1 << 28})
    refused = await it.request("POST", "container_requests", spec, token=ada)
    assert refused.status == 422
    assert (
        "need 5 VCPUs, and the quota of the user ada is 4 VCPUs in all; ask for less, or "
        "ask it@example.org for more" in refused.error
    )
    made = await submit(it, ada, 2, runtime_constraints={"vcpus": 4, "ram": 1 << 28})
    made += await submit(it, ada, 1)
    await it.ok("PUT", f"quotas/{found['uuid']}", {"vcpus": 2})
    assert await runnable(it, *made) == [2]
    assert "It can never run: it needs 4 VCPUs" in (await wait_of(it, made[0]))["sentence"]
    await it.ok("PUT", f"quotas/{found['uuid']}", {"vcpus": 8})
    assert await runnable(it, *made) == [0, 1]
    await it.ok("DELETE", f"quotas/{found['uuid']}")
    assert await runnable(it, *made) == [0, 1, 2]


async def test_a_lowered_quota_takes_nothing_from_what_runs(it: World) -> None:
    ada = await it.user("ada")
    made = await submit(it, ada, 4)
    await it.lock(made[0]["container_uuid"])
    await it.lock(made[1]["container_uuid"])
    found = await quota(it, await uuid_of(it, ada), containers=1)
    assert await runnable(it, *made) == [0, 1]
    uses = await it.ok("GET", "quotas/uses", params={"uuids": [found["uuid"]]}, token=ada)
    assert uses["items"][0]["use"]["containers"] == 2
    await it.ok("PUT", f"quotas/{found['uuid']}", {"containers": None})
    assert await runnable(it, *made) == [0, 1, 2, 3]


async def _with_late_quota(it: World) -> list[Record]:
    """Three requests of a user, to whom a quota of one container is given as between two
    transactions of another server: nothing that waits was looked at.
    """
    ada = await it.user("ada")
    made = await submit(it, ada, 3)
    subject = await uuid_of(it, ada)
    record = {
        **QUOTAS.defaults, "uuid": f"{it.cluster}-qu0ta-000000000000000", "owner_uuid": subject,
        "subject_uuid": subject, "name": "ada", "containers": 1,
        "created_at": made[0]["created_at"], "modified_at": made[0]["created_at"],
    }  # fmt: skip
    async with it.app.services.database.writing() as tx:
        await records.insert(tx, QUOTAS, record)
    return made


async def test_an_alternative_that_has_room_is_locked(it: World) -> None:
    made = await _with_late_quota(it)
    first, second, third = (one["container_uuid"] for one in made)
    other = (await it.submit("other"))["container_uuid"]
    await it.lock(first)
    path, body = f"containers/{second}/lock", {"alternatives": [third, other]}
    locked = await it.ok("POST", path, body, token=it.dispatcher)
    assert (locked["uuid"], locked["passed"]) == (other, [])
    assert await runnable(it, *made) == [0]


async def test_a_lock_without_room_is_refused(it: World) -> None:
    made = await _with_late_quota(it)
    first, second = (one["container_uuid"] for one in made[:2])
    await it.lock(first)
    refused = await it.request("POST", f"containers/{second}/lock", token=it.dispatcher)
    assert refused.status == 409
    assert "cannot lock: no room in the quota of the user ada" in refused.error
    assert await runnable(it, *made[:2]) == [0]
    assert (await wait_of(it, made[1]))["reason"] == "usage quota"
    # Given back it has room still; a larger request would not have it.
    await it.ok("POST", f"containers/{first}/unlock", token=it.dispatcher)
    assert await runnable(it, *made[:2]) == [0]


async def test_projects_and_roles_limit_all_of_theirs_together(it: World) -> None:
    ada, ben = await it.user("ada"), await it.user("ben")
    project = await it.ok("POST", "groups", {"group_class": "project", "name": "thesis"}, token=ada)
    below = await it.ok(
        "POST", "groups",
        {"group_class": "project", "name": "part", "owner_uuid": project["uuid"]}, token=ada,
    )  # fmt: skip
    role = await it.ok("POST", "groups", {"group_class": "role", "name": "lab"})
    for token in (ada, ben):
        link = {
            "link_class": "permission", "name": "can_read",
            "tail_uuid": await uuid_of(it, token), "head_uuid": role["uuid"],
        }  # fmt: skip
        await it.ok("POST", "links", link)
    of_role = await quota(it, role["uuid"], containers=3)
    await quota(it, project["uuid"], containers=1)
    inside = await submit(it, ada, 2, owner_uuid=below["uuid"])
    outside = await submit(it, ada, 1)
    others = await submit(it, ben, 2)
    made = [*inside, *outside, *others]
    # The second one waits for the project, and keeps nobody waiting for the role.
    assert await runnable(it, *made) == [0, 2, 3]
    assert "the quota of the group thesis" in (await wait_of(it, made[1]))["sentence"]
    assert "the quota of the group lab" in (await wait_of(it, made[4]))["sentence"]
    await it.run(made[0]["container_uuid"])
    # It was made before, but the one that waits for the role was there first.
    assert len(await runnable(it, *made)) == 3
    seen = await it.ok("GET", "quotas", token=ben)
    assert [one["uuid"] for one in seen["items"]] == [of_role["uuid"]]
    refused = await it.request("PUT", f"quotas/{of_role['uuid']}", {"containers": 9}, token=ben)
    assert refused.status == 403


async def test_a_container_is_charged_once_and_runs_if_one_request_has_room(it: World) -> None:
    ada, ben = await it.user("ada"), await it.user("ben")
    image = await it.ensure_image()
    await quota(it, await uuid_of(it, ada), containers=1)
    first = await submit(it, ada, 1)
    spec = {"container_image": image}
    # The image is shared, so that both want the same container.
    everybody = await it.ok(
        "GET", "collections", params={"filters": [["portable_data_hash", "=", image]]}
    )
    for token in (ada, ben):
        await it.ok("POST", "links", {
            "link_class": "permission", "name": "can_read",
            "tail_uuid": await uuid_of(it, token), "head_uuid": everybody["items"][0]["uuid"],
        })  # fmt: skip
    hers = await it.submit("same", token=ada, **spec)
    assert await runnable(it, *first, hers) == [0]
    his = await it.submit("same", token=ben, **spec)
    if his["container_uuid"] == hers["container_uuid"]:
        assert await runnable(it, *first, his) == [0, 1]
        assert (await wait_of(it, hers))["reason"] == "usage quota"
        await it.lock(his["container_uuid"])
        # It is not charged to her: her room is free for others when her first one ends.
        await it.run(first[0]["container_uuid"])
        more = await submit(it, ada, 1)
        assert await runnable(it, *more) == [0]


async def test_too_many_queued_are_refused(it: World) -> None:
    ada = await it.user("ada")
    await quota(it, await uuid_of(it, ada), queued=2, containers=1)
    made = await submit(it, ada, 2)
    refused = await it.request(
        "POST", "container_requests", await it.spec("third", token=ada), token=ada
    )
    assert refused.status == 422
    assert (
        "The quota of the user ada is used up: 2 of 2 requests wait; commit it when some have "
        "started, or ask an administrator for more" in refused.error
    )
    await it.lock(made[0]["container_uuid"])
    made += await submit(it, ada, 1)
    batch = [await it.spec(name, token=ada) for name in ("x", "y")]
    refused = await it.request(
        "POST", "container_requests/batch", {"container_requests": batch}, token=ada
    )
    assert refused.status == 422


async def test_a_quota_is_named_to_those_who_can_read_it(it: World) -> None:
    ada = await it.user("ada")
    above = await group(it, "secret plans")
    below = await group(it, "shared", owner_uuid=above["uuid"])
    await share(it, await uuid_of(it, ada), below["uuid"], "can_write")
    await quota(it, above["uuid"], containers=1, vcpus=4, queued=4, bytes_stored=10)
    made = await submit(it, ada, 2, owner_uuid=below["uuid"])
    path = f"container_requests/{made[1]['uuid']}"
    for said in (
        (await it.ok("GET", f"{path}/why", token=ada))["waits"][0]["sentence"],
        (await it.ok("GET", f"{path}/container_status", token=ada))["scheduling_status"],
        (await it.ok("GET", "container_requests/waits", token=ada, params={
            "uuids": [made[1]["uuid"]]}))["items"][0]["sentence"],
    ):  # fmt: skip
        assert said == (
            "It waits for a quota that you cannot read: it runs when others end, or ask an "
            "administrator."
        )
    # An administrator can read it.
    assert "secret plans: 1 of 1 container" in (await wait_of(it, made[1]))["sentence"]
    wide = await it.spec(
        "x", token=ada, owner_uuid=below["uuid"], runtime_constraints={"vcpus": 5, "ram": 1 << 28}
    )
    large = {"manifest_text": it.manifest({"a": b"more than ten"}), "owner_uuid": below["uuid"]}
    await submit(it, ada, 2, owner_uuid=below["uuid"])
    many = await it.spec("y", token=ada, owner_uuid=below["uuid"])
    text = " ".join(it.signed(word, ada) if "+" in word else word for word in str(
        large["manifest_text"]).split(" "))  # fmt: skip
    for kind, body in (
        ("container_requests", wide),
        ("container_requests", many),
        ("collections", {**large, "manifest_text": text}),
    ):
        refused = await it.request("POST", kind, body, token=ada)
        assert refused.status == 422
        assert refused.error.startswith("a quota that you cannot read has no room for this")
        assert "secret plans" in (await it.request("POST", kind, body)).error
