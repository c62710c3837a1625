"""Twenty users with weights, PostgreSQL, two dispatchers: each user gets its share."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest

from lading.client.api import ApiClient
from lading.client.transport import HttpTransport
from lading.core import ids
from lading.core.quantities import parse_time
from tests.postgres import PostgresServer
from tests.reality import need_program, need_root
from tests.system.chaos.sites import Guest
from tests.system.cluster import Cluster, running_cluster

pytestmark = pytest.mark.system
USERS: Final = 20
WEIGHTS: Final = (1, 2, 3, 4)
ENOUGH: Final = 30
"""Containers that each user has had at least."""
WARM_UP: Final = 6.0
LONGEST: Final = 42.0
TOLERANCE: Final = 0.05


@dataclass
class User:
    """A user with a project; its containers take `vcpus` for `seconds`."""

    name: str
    token: str
    project: str
    weight: int
    vcpus: int
    seconds: float
    containers: set[str] = field(default_factory=set)


async def test_measured_shares_are_the_weights(tmp_path: Path, postgres: PostgresServer) -> None:
    need_root()
    need_program("crun")
    where = await postgres.fresh()
    settings = {
        "PostgreSQL": {"Connection": dict(where)},
        "Containers": {"Dispatcher": "none", "FairShare": {"Enabled": True}},
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
    async with HttpTransport(unix_socket=cluster.data / "api.sock") as transport:
        admin = ApiClient(transport, token)
        users = [await _user(admin, number) for number in range(USERS)]
        await admin.create(
            "links",
            {
                "link_class": "permission",
                "name": "can_read",
                "tail_uuid": ids.all_users(image["collection_uuid"][:5]),
                "head_uuid": image["collection_uuid"],
            },
        )
        for guest in guests:
            guest.start()
        await _unpack(admin, image["pdh"])
        for guest in guests:
            guest.stop()
        for user in users:
            await _submit(ApiClient(transport, user.token), user, image["pdh"])
        for guest in guests:
            guest.start()
        # Both have begun, and every user's first containers have ended.
        await asyncio.sleep(WARM_UP)
        began, rows = time.time(), dict[str, float]()
        while time.time() < began + LONGEST:
            await asyncio.sleep(2)
            rows = await _runs(where, began)
            if min(len(user.containers & rows.keys()) for user in users) >= ENOUGH:
                break
        lockers = {one["locked_by_uuid"] for one in await _held(admin)}
        for user in users:
            await admin.action("groups", user.project, "trash")
    assert len(lockers) == 2
    runs = {user.name: [rows[uuid] for uuid in user.containers & rows.keys()] for user in users}
    used = {user.name: user.vcpus * sum(runs[user.name]) / user.weight for user in users}
    mean = sum(used[user.name] * user.weight for user in users) / sum(one.weight for one in users)
    for user in users:
        # VCPU seconds for each unit of weight. A container more or less at either end is no fault.
        one = user.vcpus * max(runs[user.name]) / user.weight
        most = max(TOLERANCE * mean, 2 * one)
        assert abs(used[user.name] - mean) <= most, (user.name, used)
    for weight in WEIGHTS:
        alike = [used[user.name] for user in users if user.weight == weight]
        assert abs(sum(alike) / len(alike) - mean) <= TOLERANCE * mean, (weight, used)


async def _user(admin: ApiClient, number: int) -> User:
    name = f"user{number}"
    made = await admin.create("users", {"username": name, "email": f"{name}@example.org"})
    token = await admin.create("api_client_authorizations", {"owner_uuid": made["uuid"]})
    weight = WEIGHTS[number % len(WEIGHTS)]
    project = await admin.create(
        "groups",
        {
            "group_class": "project",
            "name": name,
            "owner_uuid": made["uuid"],
            "container_policy": {"share": weight},
        },
    )
    vcpus = 2 if weight > 2 else 1
    return User(
        name,
        f"v2/{token['uuid']}/{token['api_token']}",
        project["uuid"],
        weight,
        vcpus,
        0.4,
    )


def _spec(image: str, seconds: float, vcpus: int) -> dict[str, Any]:
    return {
        "state": "Committed",
        "priority": 500,
        "use_existing": False,
        "container_image": image,
        "command": ["sleep", str(seconds)],
        "output_path": "/out",
        "mounts": {"/out": {"kind": "tmp", "capacity": 1 << 20}},
        "runtime_constraints": {"vcpus": vcpus, "ram": 32 << 20, "keep_cache_ram": 0},
    }


async def _unpack(admin: ApiClient, image: str) -> None:
    """Have both dispatchers unpack the image, so that no user's first containers do so."""
    # At a level of its own, which says nothing about the others.
    spec = {**_spec(image, 3.0, 8), "priority": 600}
    answer = await admin.request(
        "POST", "container_requests/batch", body={"container_requests": [spec] * 2}
    )
    wanted = [["uuid", "in", [one["uuid"] for one in answer["items"]]], ["state", "=", "Final"]]
    async with asyncio.timeout(30):
        while len(await admin.list("container_requests", filters=wanted)) < 2:
            await asyncio.sleep(0.2)


async def _submit(client: ApiClient, user: User, image: str) -> None:
    """Queue enough for the whole time."""
    spec = {**_spec(image, user.seconds, user.vcpus), "owner_uuid": user.project}
    count = 3 * ENOUGH * user.weight // user.vcpus
    answer = await client.request(
        "POST", "container_requests/batch", body={"container_requests": [spec] * count}
    )
    user.containers = {one["container_uuid"] for one in answer["items"]}


async def _held(admin: ApiClient) -> list[Any]:
    filters = [["state", "in", ["Locked", "Running"]]]
    return await admin.list("containers", filters=filters, select=["locked_by_uuid"])


async def _runs(where: Mapping[str, str | int], began: float) -> dict[str, float]:
    """Seconds since `began` for which each container was held (Locked or Running), by uuid."""
    connection = await asyncpg.connect(
        host=where["host"], port=where["port"], user=where["user"], database=where["dbname"]
    )
    try:
        rows = await connection.fetch(
            "SELECT container_uuid, started_at, ended_at FROM allocations"
        )
    finally:
        await connection.close()
    now, found = time.time(), dict[str, float]()
    for uuid, begin, end in rows:
        until = parse_time(end).timestamp() if end else now
        seconds = until - max(began, parse_time(begin).timestamp())
        if seconds > 0:
            found[uuid] = found.get(uuid, 0.0) + seconds
    return found
