"""Settings and clients of the Kubernetes fleet for tests on a fake cluster."""

from __future__ import annotations

import asyncio
import base64
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from lading.core.errors import Unavailable
from lading.core.kubernetes.pod_manifest import NodeKind, PodSettings
from lading.core.resources import GIB, Resources
from lading.dispatch.fleets.kubernetes.api_client import KubernetesApi
from lading.dispatch.fleets.kubernetes.settings import KubernetesSettings
from lading.testing.containers import TOKEN
from lading.testing.kubernetes import NAMESPACE, FakeCluster, Launch
from lading.testing.kubernetes_objects import Malice
from lading.wiring.directory import ensure_certificate

KIND = NodeKind(name="plain", capacity=Resources(8, 16 * GIB, 100 * GIB))
MEAN = Malice(away=0.05, mute=0.05, late=0.05, busy=0.1, cut=0.05, old=0.1, stale=0.2, slow=5)
"""An API server that is mean in all ways, and loses no Pod."""


def pod_settings(**more: Any) -> PodSettings:
    """Settings of Pods of the first dispatcher."""
    return PodSettings(dispatcher=TOKEN, image="lading:test", command=("supervisor",), **more)


def kubernetes_settings(**more: Any) -> KubernetesSettings:
    """Settings with very short pauses."""
    quick: dict[str, Any] = {
        "pods": pod_settings(),
        "kinds": {KIND.name: KIND},
        "first_pause": 0.001,
        "longest_pause": 0.02,
        "tidy_interval": 0.005,
        "look_patience": 0.05,
        "refusal_pause": 0.05,
    }
    return KubernetesSettings(**{**quick, **more})


def api_of(cluster: FakeCluster, **more: Any) -> KubernetesApi:
    """A client of a fake cluster with very short pauses."""
    quick: dict[str, Any] = {"first_pause": 0.001, "timeout": 1.0, "patience": 1.0}
    return KubernetesApi(cluster, namespace=NAMESPACE, **{**quick, **more})


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
        # Watches end, so that their handlers do.
        cluster.down = True
        cluster.pulse.beat()
        await runner.cleanup()


def kubeconfig(folder: Path, url: str) -> Path:
    """A kubeconfig for such a server, with its certificate for both sides."""
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


@contextmanager
def in_a_thread(folder: Path, launch: Launch | None = None) -> Iterator[FakeCluster]:
    """A fake cluster with its own event loop; `folder` gets a kubeconfig for it."""
    made, ready, loop = list[FakeCluster](), threading.Event(), asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        made.append(FakeCluster(launch=launch))
        async with serving(made[0], folder) as url:
            kubeconfig(folder, url)
            ready.set()
            await over.wait()
        await made[0].close()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(60.0)
        yield made[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()
