"""Requests that run as Pods of a control plane: from the queue to user code, through a server, a
dispatcher with the Kubernetes fleet, and a supervisor in each Pod, one at a time.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from bench.latency import COMMAND, user_code
from bench.requests import Watch, inspect, request_body, submit, submit_batch
from bench.service import add_image, connected
from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.process.concurrency import cancel_all

SERVER = "Containers: {Dispatcher: none}\n"
"""Configuration of the server, whose dispatcher is a process of its own."""
_LADING = (sys.executable, "-m", "lading")
_WARM_UP = 2
_END_LIMIT = 60.0


class PodRequests:
    """Requests of one client. `more` are further attributes of each."""

    def __init__(self, client: ApiClient, watch: Watch, image: str, **more: Any) -> None:
        self._client, self._watch, self._image = client, watch, image
        self._more = more

    async def singles(self, count: int) -> list[float]:
        """Seconds from the creation of each container until its command says that it runs."""
        blocks = BlockClient(self._client.transport, self._client.token)
        found = []
        for _ in range(count):
            uuid = await submit(self._client, self._image, COMMAND, **self._more)
            heard = await self._watch.end(uuid)
            outcome = await inspect(self._client, blocks, uuid, heard=heard)
            found.append(user_code(outcome) - outcome.queued)
        return found

    async def burst(self, count: int) -> float:
        """Seconds from the submission of so many until the end of the last one is heard."""
        body, began = request_body(self._image, COMMAND, **self._more), time.time()
        uuids = await submit_batch(self._client, [body] * count)
        return max([await self._watch.end(uuid) for uuid in uuids]) - began


@asynccontextmanager
async def pod_requests(
    folder: Path, environment: dict[str, str], section: dict[str, Any]
) -> AsyncGenerator[PodRequests]:
    """A dispatcher whose section `Containers.Kubernetes` is given, in front of the server that the
    environment names and whose data is in `folder`; some requests have warmed both up.
    """
    image = await asyncio.to_thread(add_image, environment)
    with _dispatching(folder, section):
        async with connected(environment) as client:
            watch = Watch(client)
            following = asyncio.create_task(watch.follow(), name="ends of requests")
            try:
                await watch.listening.wait()
                made = PodRequests(client, watch, image)
                await made.singles(_WARM_UP)
                yield made
            finally:
                await cancel_all(following)


@contextmanager
def _dispatching(folder: Path, section: dict[str, Any]) -> Iterator[None]:
    join, config = folder / "join", folder / "dispatch.yml"
    token = [*_LADING, "admin", "dispatcher-token", str(join), "--data", str(folder / "data")]
    subprocess.run(token, check=True, capture_output=True)
    # JSON is YAML.
    config.write_text(json.dumps({"Containers": {"Kubernetes": section}}))
    command = [
        *_LADING, "dispatch", "--join", str(join), "--fleet", "kubernetes",
        "--data", str(folder / "dispatcher"), "--config", str(config),
    ]  # fmt: skip
    with (folder / "dispatcher.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(_END_LIMIT)
