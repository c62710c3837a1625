"""Writers of a container: which token may write which attribute of its record."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lading.core.containers.container import FIELDS, HIDDEN, ContainerState
from lading.core.containers.writers import RIGHTS, Role
from lading.core.records.schema import JSON, Record
from lading.testing.world import World

FORGED = f"{'f' * 32}+5"
VALUES: dict[str, JSON] = {
    "priority": 1,
    "progress": 0.5,
    "runtime_status": {"activity": "reads"},
    "cost": 0.5,
    "subrequests_cost": 0.5,
    "output_properties": {"a": "b"},
    "exit_code": 0,
    "usage": {"memory": 1},
    "started_at": "2020-01-01T00:00:00Z",
    "finished_at": "2020-01-01T00:00:00Z",
    "gateway_address": "tunnel",
    "interactive_session_started": True,
    "lock_count": 7,
    "published_ports": {"80": {}},
    "runtime_constraints": {"ram": 1},
    "scheduling_parameters": {"preemptible": True},
}


@dataclass(frozen=True)
class Running:
    """A container of the user `ann` that runs, with the tokens of its supervisor and its own."""

    it: World
    request: Record
    supervisor: str
    own: str

    @property
    def path(self) -> str:
        """Its path."""
        return f"containers/{self.request['container_uuid']}"

    async def write(self, body: JSON, *, token: str | None = None) -> int:
        """The status of a write with its own token."""
        return (await self.it.request("PUT", self.path, body, token=token or self.own)).status

    async def record(self) -> Record:
        """Its record."""
        found: Record = await self.it.ok("GET", self.path)
        return found


async def started(it: World, *, api: bool = True) -> Running:
    """A container that runs."""
    token = await it.user("ann")
    request = await it.submit(
        token=token, runtime_constraints={"vcpus": 1, "ram": 1 << 28, "API": api}
    )
    uuid = request["container_uuid"]
    supervisor = await it.lock(uuid)
    own = f"{await it.container_token(uuid)}/{uuid}"
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    return Running(it, request, supervisor, own)


async def test_a_container_writes_its_results_and_nothing_else_of_its_record(it: World) -> None:
    one = await started(it)
    output = (await it.collection({"a": b"x"}, token=await it.user("ann")))["portable_data_hash"]
    log = (await it.collection({"b": b"x"}, token=await it.user("ann")))["portable_data_hash"]
    given = {**VALUES, "output": output, "log": log}
    allowed = RIGHTS[Role.OWN].attributes
    before = await one.record()
    for name in FIELDS:
        if name not in HIDDEN | allowed | {"state", "created_at"}:
            assert await one.write({name: given.get(name, "forged")}) == 422, name
    for state in ContainerState:
        if state is not ContainerState.RUNNING:
            body = {"state": state, "exit_code": 0, "output": output, "cost": 0}
            assert await one.write(body) in (409, 422), state
    assert await one.record() == before
    for name in sorted(allowed):
        assert await one.write({name: given[name]}) == 200, name
    assert {name: (await one.record())[name] for name in allowed} == {
        name: given[name] for name in allowed
    }


@pytest.mark.parametrize(
    ("method", "action"),
    [
        ("POST", "lock"),
        ("POST", "unlock"),
        ("POST", "finish"),
        ("POST", "live/stdout.txt"),
        ("POST", "update_priority"),
        ("GET", "auth"),
        ("DELETE", ""),
    ],
)
async def test_a_container_takes_no_part_of_its_supervisor(
    it: World, method: str, action: str
) -> None:
    one = await started(it)
    end: Record = {
        "container": {"state": "Complete", "exit_code": 0},
        "collections": {},
    }
    before = await one.record()
    reply = await it.request(method, f"{one.path}/{action}".rstrip("/"), end, token=one.own)
    assert reply.status in (403, 422), reply.error
    assert await one.record() == before


async def test_a_container_does_not_classify_its_own_failure(it: World) -> None:
    one = await started(it)
    assert await one.write({"runtime_status": {"failure": "node", "error": "x"}}) == 422
    said = {"failure": "preempted", "activity": "saves"}
    assert await one.write({"runtime_status": said}, token=one.supervisor) == 200
    for status in ({"error": "x"}, {"failure": "preempted", "error": "x"}):
        assert await one.write({"runtime_status": status}) == 200
        assert (await one.record())["runtime_status"] == {"failure": "preempted", "error": "x"}
    assert await one.write({"runtime_status": {"failure": "user"}}) == 422


async def test_an_announced_output_counts_when_the_supervisor_reports_the_end(it: World) -> None:
    one = await started(it)
    mine = await it.collection({"a": b"x"}, token=await it.user("ann"))
    assert await one.write({"output": mine["portable_data_hash"]}) == 200
    path = f"container_requests/{one.request['uuid']}"
    assert (await it.ok("GET", path))["output_uuid"] is None
    assert await one.write({"state": "Complete", "exit_code": 0}, token=one.supervisor) == 200
    ended = await it.ok("GET", path)
    output = await it.ok("GET", f"collections/{ended['output_uuid']}")
    assert output["portable_data_hash"] == mine["portable_data_hash"]


async def test_a_cancelled_container_keeps_no_announced_output(it: World) -> None:
    one = await started(it)
    mine = await it.collection({"a": b"x"}, token=await it.user("ann"))
    assert await one.write({"output": mine["portable_data_hash"]}) == 200
    assert await one.write({"state": "Cancelled"}, token=it.dispatcher) == 200
    assert (await one.record())["output"] is None


@pytest.mark.parametrize("is_at_once", [False, True])
async def test_an_announced_output_must_be_readable_at_the_end(it: World, is_at_once: bool) -> None:
    """Its user lost the permission after the container announced it."""
    one = await started(it)
    ann = (await it.ok("GET", "users/current", token=await it.user("ann")))["uuid"]
    shared = await it.collection({"a": b"x"})
    body = {"tail_uuid": ann, "head_uuid": shared["uuid"]}
    link = await it.ok("POST", "links", {"link_class": "permission", "name": "can_read", **body})
    assert await one.write({"output": shared["portable_data_hash"]}) == 200
    await it.ok("DELETE", f"links/{link['uuid']}")
    end = {"state": "Complete", "exit_code": 0}
    if is_at_once:
        log = {"collections": {"log": ""}, "container": end}
        reply = await it.request("POST", f"{one.path}/finish", log, token=one.supervisor)
        assert reply.status == 422
    else:
        assert await one.write(end, token=one.supervisor) == 422
    assert (await one.record())["state"] == "Running"
    assert await one.write({**end, "output": None}, token=one.supervisor) == 200


async def test_a_container_of_an_admin_announces_what_its_user_can_read(it: World) -> None:
    request = await it.submit(runtime_constraints={"vcpus": 1, "ram": 1 << 28, "API": True})
    uuid = request["container_uuid"]
    supervisor = await it.lock(uuid)
    own = f"{await it.container_token(uuid)}/{uuid}"
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    one = Running(it, request, supervisor, own)
    assert await one.write({"output": FORGED}) == 422
    assert await one.write({"state": "Complete", "exit_code": 0}) == 422
