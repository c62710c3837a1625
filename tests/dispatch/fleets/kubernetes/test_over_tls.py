"""The fleet over TLS to a server on this machine, with the access of a kubeconfig."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from signal import Signals

import yaml
from aiohttp import web

from lading.config import load
from lading.core.errors import Unavailable
from lading.core.resources import MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.dispatch.fleet import FleetSite, StartRequest
from lading.dispatch.fleets.kubernetes.kubernetes_fleet import open_kubernetes
from lading.testing.containers import TOKEN
from lading.testing.kubernetes import NAMESPACE, FakeCluster
from lading.wiring.directory import ensure_certificate

UUID = "zzzzz-dz642-000000000000001"


@asynccontextmanager
async def serving(cluster: FakeCluster, folder: Path) -> AsyncIterator[str]:
    """The address of a server that asks for a client certificate and a token."""
    ensure_certificate(folder / "crt", folder / "key", host="127.0.0.1", now=datetime.now(UTC))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "crt"))
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_cert_chain(folder / "crt", folder / "key")

    async def handle(request: web.Request) -> web.StreamResponse:
        path, headers = request.path_qs, dict(request.headers)
        try:
            if "watch" not in request.query:
                found = await cluster.request(
                    request.method, path, headers=headers, body=await request.read()
                )
                return web.Response(status=found.status, body=found.body, headers=found.headers)
            async with cluster.stream("GET", path, headers=headers) as stream:
                answer = web.StreamResponse(status=stream.status)
                await answer.prepare(request)
                async for chunk in stream.chunks:
                    await answer.write(chunk)
                return answer
        except Unavailable:
            raise web.HTTPServiceUnavailable from None

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def kubeconfig(folder: Path, url: str) -> Path:
    data = {
        name: base64.b64encode((folder / name).read_bytes()).decode() for name in ("crt", "key")
    }
    user = {
        "token": "abc", "client-certificate-data": data["crt"], "client-key-data": data["key"],
    }  # fmt: skip
    cluster = {"server": url, "certificate-authority-data": data["crt"]}
    context = {"cluster": "c", "user": "u", "namespace": NAMESPACE}
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "x",
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "x", "context": context}],
            }
        )
    )
    return path


async def test_a_container_is_started_followed_and_removed(tmp_path: Path) -> None:
    cluster = FakeCluster()
    async with asyncio.timeout(60), serving(cluster, tmp_path) as url:
        section = {
            "Image": "lading:1",
            "Kubeconfig": str(kubeconfig(tmp_path, url)),
            "Nodes": {"plain": {"VCPUs": 4, "RAM": "8GiB", "Scratch": "8GiB"}},
        }
        site = FleetSite(
            config=load(overrides={"Containers": {"Kubernetes": section}}),
            token=TOKEN,
            run_directory=tmp_path,
            cache_directory=tmp_path,
            template={},
            api_url="https://server",
        )
        async with open_kubernetes(site) as fleet:
            while not fleet.view().workers:
                await fleet.changed()
            need = TrackedContainer(uuid=UUID, need=Resources(1, MIB))
            request = StartRequest(uuid=UUID, worker="plain", token="t", container=need)
            await fleet.start(request)
            while "Started by Kubernetes" not in fleet.view().processes[UUID].note:
                await fleet.changed()
            await fleet.signal(UUID, Signals.SIGKILL)
            while fleet.view().processes[UUID].alive:
                await fleet.changed()
            await fleet.clean(UUID)
            assert not fleet.view().processes
        await cluster.close()
    assert not cluster.pods
    assert set(cluster.tokens) == {"Bearer abc"}
