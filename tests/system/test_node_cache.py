"""Supervisors in process namespaces of their own that share one cache directory, as the Pods of a
node do (`Containers.Kubernetes.NodeCacheDirectory`).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lading.testing.asgi import serving
from lading.testing.images import PROGRAMS, tiny_image
from lading.testing.supervising import CONTAINER, SUPERVISOR_TOKEN, FakeServer
from tests.reality import need_program, need_root

pytestmark = pytest.mark.system
OTHER = f"{CONTAINER[:-1]}2"
PATIENCE = 60.0
# Pods have process numbers of their own: none tells whether a process of another Pod lives.
IN_A_POD = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
App = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass
class Node:
    """A directory of a node, a server, and the supervisors there."""

    directory: Path
    server: FakeServer = field(default_factory=FakeServer)

    def add(self, uuid: str, *, programs: Sequence[str] = PROGRAMS) -> dict[str, Any]:
        """A container whose image has these programs."""
        name, archive = tiny_image(programs=programs)
        image = self.server.add_collection({f"{name}.tar": archive})
        return self.server.add_container(uuid, container_image=image)

    async def supervise(self, uuid: str) -> None:
        """Run a supervisor, with a directory of its own beside the cache, to its end."""
        own = self.directory / uuid
        assignment = {
            "container_uuid": uuid,
            "supervisor_token": SUPERVISOR_TOKEN,
            "run_directory": str(own / "run" / uuid),
            "cache_directory": str(self.directory / "cache"),
            "api_socket": str(self.directory / "api.sock"),
            "engine": "native",
            "unreachable_timeout": 10.0,
        }
        command = [sys.executable, "-m", "lading.supervisor", "--lock-directory", str(own / "lock")]
        pipe = asyncio.subprocess.PIPE
        started = await asyncio.create_subprocess_exec(
            *IN_A_POD, *command, uuid, stdin=pipe, stdout=pipe, stderr=pipe
        )
        async with asyncio.timeout(PATIENCE):
            _, fault = await started.communicate(msgspec.json.encode(assignment))
        assert (started.returncode, fault) == (0, b"")


@asynccontextmanager
async def a_node(guard: Callable[[FakeServer], App] = lambda server: server) -> AsyncIterator[Node]:
    """A node whose server is called through `guard`."""
    need_root()
    for program in ("crun", "unshare"):
        need_program(program)
    with tempfile.TemporaryDirectory(prefix="ln-") as folder:
        node = Node(Path(folder))
        async with serving(guard(node.server), uds=str(node.directory / "api.sock")):
            yield node


def fetches(server: FakeServer) -> int:
    """How often images were asked for: nothing else here is in a collection or a block."""
    return server.calls.count("GET collections") + server.calls.count("GET block")


async def test_the_second_fetches_nothing() -> None:
    async with a_node() as node:
        first = node.add(CONTAINER)
        await node.supervise(CONTAINER)
        assert first["state"] == "Complete", first["runtime_status"]
        before = fetches(node.server)
        second = node.add(OTHER)
        await node.supervise(OTHER)
    assert second["state"] == "Complete", second["runtime_status"]
    assert second["container_image"] == first["container_image"]
    assert fetches(node.server) == before > 0


async def test_two_with_different_images_do_not_wait_for_each_other() -> None:
    was_asked, has_ended = asyncio.Event(), asyncio.Event()

    def guard(server: FakeServer) -> App:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            # The image of the first comes only when the second has ended.
            if scope["path"].endswith(server.containers[CONTAINER]["container_image"]):
                was_asked.set()
                await has_ended.wait()
            await server(scope, receive, send)

        return app

    async with a_node(guard) as node:
        first, second = node.add(CONTAINER), node.add(OTHER, programs=PROGRAMS[:-1])
        assert first["container_image"] != second["container_image"]
        one = asyncio.create_task(node.supervise(CONTAINER))
        try:
            await was_asked.wait()
            await node.supervise(OTHER)
            assert (first["state"], second["state"]) == ("Locked", "Complete")
        finally:
            has_ended.set()
            await one
    assert first["state"] == "Complete", first["runtime_status"]
