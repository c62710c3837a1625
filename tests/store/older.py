"""`python -m tests.store.older DIRECTORY`: keeps the schema of this release, with data, for the
tests of later ones.

Writes `sqlite_N.sql` and `postgresql_N.sql`, N being the version of the schema. Run it before each
release that has a new version, into tests/store/schemas; what is there is never made anew.
"""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from lading.core.records.schema import JSON
from lading.store.schema import VERSION
from lading.testing.world import World, world
from tests.postgres import BINARIES, PostgresServer, running_postgres

SECRET = {"/s": {"kind": "text", "content": "secret"}}


async def fill(it: World) -> None:
    """Records of many kinds, in many states."""
    ada = await it.user("ada")
    properties: JSON = {"k": "v", "n": 5, "list": ["a", 1]}
    made = await it.collection({"a.txt": b"hello"}, name="O'Neill", properties=properties)
    await it.ok("POST", "links", {"link_class": "tag", "name": "t", "head_uuid": made["uuid"]})
    await it.ok(
        "POST",
        "logs",
        {"object_uuid": made["uuid"], "event_type": "note", "properties": {"text": "Grüße ✓"}},
    )
    done = await it.submit("echo", "1", token=ada)
    await it.run(done["container_uuid"])
    await it.submit("echo", "2", secret_mounts=SECRET, runtime_token=ada)
    running = await it.submit("echo", "3", priority=1000)
    supervisor = await it.lock(running["container_uuid"])
    await it.ok(
        "PUT", f"containers/{running['container_uuid']}", {"state": "Running"}, token=supervisor
    )
    draft = await it.submit("echo", "4", state="Uncommitted")
    if VERSION > 1:
        project = await it.ok(
            "POST", "groups", {"name": "work", "group_class": "project"}, token=ada
        )
        await it.ok(
            "PUT",
            f"container_requests/{draft['uuid']}",
            {"depends_on": [done["uuid"]], "name": "later"},
        )
        await it.ok("PUT", f"groups/{project['uuid']}", {"is_trashed": True}, token=ada)
        await it.ok("POST", "workflows", {"definition": "name: w\n", "name": "W"}, token=ada)


async def _sqlite(directory: Path, root: Path) -> None:
    async with world(root) as it:
        await fill(it)
    with closing(sqlite3.connect(root / "db.sqlite")) as connection:
        (directory / f"sqlite_{VERSION}.sql").write_text("\n".join(connection.iterdump()) + "\n")


async def _postgresql(directory: Path, root: Path, server: PostgresServer) -> None:
    where = await server.fresh()
    async with world(root, postgresql=where) as it:
        await fill(it)
    place = ("-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres")
    command = [str(BINARIES / "pg_dump"), *place, "--inserts", "-O", "-x", str(where["dbname"])]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    kept = [
        line
        for line in done.stdout.decode().splitlines()
        if line and not line.startswith(("--", "\\"))
    ]
    (directory / f"postgresql_{VERSION}.sql").write_text("\n".join(kept) + "\n")


def main(directory: Path) -> None:
    """Write both files."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        asyncio.run(_sqlite(directory, Path(one)))
        with running_postgres() as server:
            asyncio.run(_postgresql(directory, Path(other), server))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
