"""Quotas of users and a project on PostgreSQL with two dispatchers: none is exceeded, and each is
used up.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest

from lading.client.api import ApiClient
from lading.client.transport import HttpTransport
from lading.core import ids
from lading.core.errors import Conflict, Invalid
from lading.core.quantities import parse_time
from tests.postgres import PostgresServer
from tests.reality import need_program, need_root
from tests.system.chaos.sites import Guest
from tests.system.cluster import Cluster, running_cluster
from tests.system.test_servers import queue, two_servers

pytestmark = pytest.mark.system
USERS: Final = 4
EACH: Final = 12
CONTAINERS: Final = 2
VCPUS: Final = 3
IN_PROJECT: Final = 5
LONGEST: Final = 120.0


async def test_no_quota_is_exceeded(tmp_path: Path, postgres: PostgresServer) -> None:
    need_root()
    need_program("crun")
    where = await postgres.fresh()
    settings = {
        "PostgreSQL": {"Connection": dict(where)},
        "Containers": {"Dispatcher": "none"},
    }
    # JSON is YAML.
    with running_cluster(tmp_path / "data", json.dumps(settings)) as cluster:
        added = cluster.lading("image", "add", "--from-host", "sh", "sleep", "--json")
        guests = [_guest(tmp_path, cluster, number) for number in range(2)]
        try:
            await _measure(cluster, guests, json.loads(added.stdout), where)
        finally:
            for guest in guests:
                guest.stop()


async def test_two_servers_keep_a_quota_together(tmp_path: Path, postgres: PostgresServer) -> None:
    """Lockers of both servers race for containers, while the quota is changed and requests come."""
    async with two_servers(tmp_path, postgres) as servers:
        clients = [await servers.client(number) for number in (0, 1)]
        user = (await clients[0].get("users", "current"))["uuid"]
        made = await clients[0].create("quotas", {"subject_uuid": user, "containers": CONTAINERS})
        held: set[str] = set()
        most: list[int] = []
        async with asyncio.TaskGroup() as tasks:
            lockers = [
                tasks.create_task(_lock_all(clients[number % 2], held, most)) for number in range(6)
            ]
            for number in range(2):
                await queue(clients[number], 15)
                # The same limit: what waits is looked at anew, and may be locked meanwhile.
                for vcpus in (50, 60):
                    await clients[number].update("quotas", made["uuid"], {"vcpus": vcpus})
            await asyncio.gather(*lockers)
        answer = await clients[1].action("quotas", None, "uses", method="GET", uuids=[made["uuid"]])
    assert max(most) <= CONTAINERS
    assert len(most) >= 30
    assert answer["items"][0]["use"]["containers"] == 0


async def _lock_all(client: ApiClient, held: set[str], most: list[int]) -> None:
    """Lock containers with room until all have ended; `most` gets the number that was held with
    each, `held` those that are.
    """
    waiting: list[Any] = [["state", "=", "Queued"]]
    until = time.time() + LONGEST
    while len(most) < 30:
        assert time.time() < until, (held, most)
        found = await client.list(
            "containers", filters=[*waiting, ["priority", ">", 0]], select=["uuid"], limit=5
        )
        for one in found:
            uuid = str(one["uuid"])
            try:
                await client.action("containers", uuid, "lock", repeat=False)
            except (Conflict, Invalid):
                continue
            held.add(uuid)
            most.append(len(held))
            await asyncio.sleep(0.01)
            # Removed first: the room of a container that has ended is given away at once.
            held.remove(uuid)
            await client.update("containers", uuid, {"state": "Cancelled"})
        await asyncio.sleep(0.01)


def _guest(root: Path, cluster: Cluster, number: int) -> Guest:
    """A dispatcher of its own process that joins the server, not started yet."""
    config = {"Local": {"VCPUs": 8, "RAM": "2GiB"}}
    join, path = root / f"join{number}", root / f"guest{number}.yml"
    path.write_text(json.dumps(config))
    cluster.lading("admin", "dispatcher-token", str(join), "--data", str(cluster.data))
    return Guest(join, root / f"guest{number}", path)


async def _measure(
    cluster: Cluster,
    guests: Sequence[Guest],
    image: dict[str, Any],
    where: Mapping[str, str | int],
) -> None:
    token = cluster.environment["ARVADOS_API_TOKEN"]
    everybody = ids.all_users(image["collection_uuid"][:5])
    async with HttpTransport(unix_socket=cluster.data / "api.sock") as transport:
        admin = ApiClient(transport, token)
        for head, level in ((image["collection_uuid"], "can_read"), (None, "can_write")):
            if head is None:
                group = {"group_class": "project", "name": "shared"}
                head = project = (await admin.create("groups", group))["uuid"]
            link = {"link_class": "permission", "tail_uuid": everybody}
            await admin.create("links", {**link, "name": level, "head_uuid": head})
        await admin.create("quotas", {"subject_uuid": project, "containers": IN_PROJECT})
        users = [await _user(admin, number) for number in range(USERS)]
        for uuid, secret in users:
            await admin.create(
                "quotas", {"subject_uuid": uuid, "containers": CONTAINERS, "vcpus": VCPUS}
            )
            await _submit(ApiClient(transport, secret), project, image["pdh"])
        for guest in guests:
            guest.start()
        until = time.time() + LONGEST
        while await admin.list(
            "container_requests", filters=[["state", "=", "Committed"]], limit=1
        ):
            assert time.time() < until
            await asyncio.sleep(0.5)
        ended = await admin.list("containers", filters=[["state", "=", "Complete"]], limit=1000)
        rows = await _intervals(where)
        uses = await admin.action(
            "quotas", None, "uses", method="GET",
            uuids=[one["uuid"] for one in await admin.list("quotas")],
        )  # fmt: skip
    assert len(ended) == USERS * EACH
    assert all(one["use"]["containers"] == 0 for one in uses["items"])
    sizes = {one["uuid"]: one["runtime_constraints"]["vcpus"] for one in ended}
    for uuid, _ in users:
        mine = [
            (begin, end, sizes[container]) for container, user, begin, end in rows if user == uuid
        ]
        assert _most(mine) <= VCPUS
        most = _most((begin, end, 1) for begin, end, _ in mine)
        assert most <= CONTAINERS
    # All of them together keep the quota of the project, and use it up.
    assert _most((begin, end, 1) for _, _, begin, end in rows) == IN_PROJECT


def _most(intervals: Iterable[tuple[float, float, int]]) -> int:
    """The largest sum of intervals at a time; one that ends lets another begin."""
    changes = sorted(
        change for begin, end, size in intervals for change in ((end, -size), (begin, size))
    )
    most = used = 0
    for _, size in changes:
        used += size
        most = max(most, used)
    return most


async def _user(admin: ApiClient, number: int) -> tuple[str, str]:
    """The uuid and the token of a new user."""
    name = f"user{number}"
    made = await admin.create("users", {"username": name, "email": f"{name}@example.org"})
    token = await admin.create("api_client_authorizations", {"owner_uuid": made["uuid"]})
    return made["uuid"], f"v2/{token['uuid']}/{token['api_token']}"


async def _submit(client: ApiClient, project: str, image: str) -> None:
    """Queue small and large containers."""
    specs: list[dict[str, Any]] = [
        {
            "state": "Committed",
            "priority": 500,
            "owner_uuid": project,
            "use_existing": False,
            "container_image": image,
            "command": ["sleep", "0.3"],
            "output_path": "/out",
            "mounts": {"/out": {"kind": "tmp", "capacity": 1 << 20}},
            "runtime_constraints": {
                "vcpus": 1 + number % 3,
                "ram": 32 << 20,
                "keep_cache_ram": 0,
            },
        }
        for number in range(EACH)
    ]
    await client.request("POST", "container_requests/batch", body={"container_requests": specs})


async def _intervals(where: Mapping[str, str | int]) -> list[tuple[str, str, float, float]]:
    """Container, user, begin and end of each time in which a container was Locked or Running."""
    connection = await asyncpg.connect(
        host=where["host"], port=where["port"], user=where["user"], database=where["dbname"]
    )
    try:
        rows = await connection.fetch(
            "SELECT container_uuid, user_uuid, started_at, ended_at FROM allocations"
        )
    finally:
        await connection.close()
    found = []
    for container, user, begin, end in rows:
        began, ended = (parse_time(one).timestamp() for one in (begin, end))
        found.append((str(container), str(user), began, ended))
    return found
