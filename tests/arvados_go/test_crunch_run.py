"""A container whose supervisor is crunch-run of Arvados 3.2.1, with the token of a dispatcher: its
log while it runs.

crunch-run works with the token of its dispatcher, which Arvados' configuration takes without its
uuid. It brings a tunnel, stores its log as a collection, and answers the server at its gateway.
Here all this is said as it says it; where crunch-run, a Docker and `arv-mount` are installed, it
runs a container itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from lading.core.containers import sessions
from lading.net.http_upgrade import LIMIT, switch
from lading.net.pipes import Pipe
from lading.net.tunnel import Tunnel
from tests.api.listening import crunch_run, listening
from tests.arvados_go.test_requests import FORM, GET, Running, document, wait_for_log
from tests.reality import need_root
from tests.system.arvados_client.environment import client_environment
from tests.system.cluster import Cluster, running_cluster

pytestmark = pytest.mark.system
PATIENCE = 120.0
API = "1.48"
"""Of Docker, as crunch-run speaks it."""


@dataclass(frozen=True)
class Dispatched(Running):
    """Calls are the dispatcher's, in forms as Go sends them."""

    secret: str = ""

    def fill(self, template: str, *, form: str = "", **more: str) -> bytes:
        return super().fill(template, form=form, **{"token": self.secret, **more})

    def write(self, method: str, path: str, changes: dict[str, Any], **more: str) -> Any:
        """Make or change a record."""
        singular = path.partition("/")[0].removesuffix("s")
        form = urlencode({singular: json.dumps(changes), **more})
        return document(self.ask(FORM, method=method, path=f"/arvados/v1/{path}", form=form))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server without a dispatcher of its own, with an image."""
    need_root()
    config = "Containers:\n  Dispatcher: none\n"
    with running_cluster(tmp_path_factory.mktemp("go") / "data", config) as running:
        running.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "cat", "sleep")
        yield running


@pytest.fixture
def it(cluster: Cluster, tmp_path: Path) -> Dispatched:
    """A request whose container a dispatcher of Arvados has locked; the token is that
    dispatcher's.
    """
    cluster.lading(
        "admin",
        "dispatcher-token",
        "--for-arvados",
        str(tmp_path / "join"),
        "--data",
        str(cluster.data),
    )
    secret = json.loads((tmp_path / "join").read_text())["token"].rpartition("/")[2]
    command = "echo hello; echo careful >&2; sleep 600"
    said = cluster.lading("run", "--detach", "--no-reuse", "--", "sh", "-c", command)
    uuid = said.stdout.strip()
    found = document(
        Running(cluster, uuid, "").ask(GET, path=f"/arvados/v1/container_requests/{uuid}")
    )
    made = Dispatched(cluster, uuid, found["container_uuid"], secret)
    made.write("POST", f"containers/{made.container}/lock", {})
    return made


@asynccontextmanager
async def tunnelled(it: Running, port: int, key: str, token: str) -> AsyncIterator[None]:
    """A tunnel to the gateway at a port of this machine, as crunch-run opens it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, number = it.cluster.address.rpartition(":")
    pipe = Pipe(*await asyncio.open_connection(host, int(number), ssl=context, limit=LIMIT))
    path = f"https://{it.cluster.address}/arvados/v1/connect/{it.container}/gateway_tunnel"
    headers, form = {"Authorization": f"Bearer {token}"}, {"auth_secret": key}
    await switch(pipe, path, "tunnel", host=it.cluster.address, headers=headers, form=form)

    async def accept() -> Pipe:
        return Pipe(*await asyncio.open_connection("127.0.0.1", port, limit=LIMIT))

    tunnel = Tunnel(pipe, connected=True, accept=accept)
    running = asyncio.create_task(tunnel.run())
    try:
        yield
    finally:
        await tunnel.close()
        await running


def is_docker_there() -> bool:
    """Whether a Docker that is new enough for crunch-run listens where it looks for one."""
    ask = ["curl", "-sf", "--unix-socket", "/var/run/docker.sock", f"http://docker/v{API}/_ping"]
    return subprocess.run(ask, capture_output=True, check=False).returncode == 0


def logs(cluster: Cluster, request: str) -> str:
    """What `lading request logs` shows, of both streams."""
    done = cluster.lading("request", "logs", request, check=False)
    return done.stdout + done.stderr


async def test_the_log_of_a_running_container_comes_from_its_gateway(
    it: Dispatched, tmp_path: Path
) -> None:
    log = {"name": f"logs for {it.container}", "manifest_text": ""}
    saved = await asyncio.to_thread(it.write, "POST", "collections", log, ensure_unique_name="true")
    stamp = "2026-01-02T03:04:05.000000000Z"
    files = {
        "stdout.txt": f"{stamp} hello\n",
        "stderr.txt": f"{stamp} careful\n",
        "crunch-run.txt": f"{stamp} x\n",
    }
    key = sessions.container_key(it.secret, it.container)
    async with listening(tmp_path, crunch_run(key, files)) as gateway:
        # Before its tunnel is there, crunch-run says where its gateway is on its own machine.
        changes = {
            "state": "Running",
            "gateway_address": "127.0.0.1:1025",
            "log": saved["portable_data_hash"],
        }
        await asyncio.to_thread(it.write, "PUT", f"containers/{it.container}", changes)
        async with tunnelled(it, gateway.port, key, it.secret):
            told = await asyncio.to_thread(logs, it.cluster, it.request)
            assert ("hello" in told, "careful" in told) == (True, True)
            asked = Running(it.cluster, it.request, it.container)
            status, fields, _ = await asyncio.to_thread(
                asked.ask,
                GET.replace("Accept-Encoding: gzip\r\n", "Range: bytes=-0\r\n"),
                path=it.log("stdout.txt"),
            )
            assert (status, fields["content-range"]) == (206, "bytes 37-36/37")
            files["stdout.txt"] += f"{stamp} more\n"
            assert "more" in await asyncio.to_thread(logs, it.cluster, it.request)
    end = {"state": "Cancelled"}
    await asyncio.to_thread(it.write, "PUT", f"containers/{it.container}", end)


def test_the_program_itself(it: Dispatched, tmp_path: Path) -> None:
    program = shutil.which("crunch-run")
    if program is None or not is_docker_there():
        pytest.skip(
            f"crunch-run, or Docker with API {API} for it, is missing; "
            "what crunch-run says is above"
        )
    environment = {
        "PATH": f"{client_environment()}:{os.environ['PATH']}", "HOME": str(tmp_path),
        "ARVADOS_API_HOST": it.cluster.address, "ARVADOS_API_HOST_INSECURE": "1",
        "ARVADOS_API_TOKEN": it.secret,
        "GatewayAuthSecret": sessions.container_key(it.secret, it.container),
    }  # fmt: skip
    command = [program, "--runtime-engine=docker", it.container]
    with (tmp_path / "said").open("w") as said:
        running = subprocess.Popen(command, env=environment, stdout=said, stderr=subprocess.STDOUT)
    try:
        wait_for_log(it.cluster, it.request, "hello", "careful")
    finally:
        running.terminate()
        running.wait(PATIENCE)
    found = document(it.ask(GET, path=f"/arvados/v1/containers/{it.container}"))
    assert (found["state"], found["log"] is not None) == ("Cancelled", True)
