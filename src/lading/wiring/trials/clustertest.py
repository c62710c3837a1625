"""`lading kubernetes test`: the test's temporary server and dispatcher, and its command.

The server and its records live in a directory of the test. The dispatcher is the real one with the
Kubernetes fleet and one kind of node; its Pods have the label of the test.
`dispatch.fleets.kubernetes.kubernetes_selftest` has the steps.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import os
import secrets
import socket
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from lading.client.api import ApiClient
from lading.client.checks import CheckStep
from lading.client.record_events import events
from lading.client.transport import HttpTransport
from lading.config.site import Config, load
from lading.core import ids
from lading.core.errors import Invalid, Unavailable
from lading.core.kubernetes.pod_manifest import NodeKind
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleet import FleetSite
from lading.dispatch.fleets.kubernetes.api_client import KubernetesApi
from lading.dispatch.fleets.kubernetes.cluster_access import ClusterAccess
from lading.dispatch.fleets.kubernetes.kubernetes_fleet import KubernetesFleet, find_access
from lading.dispatch.fleets.kubernetes.kubernetes_selftest import (
    CheckMeans,
    ClusterTest,
    with_label,
)
from lading.dispatch.fleets.kubernetes.settings import KubernetesSettings, read_settings
from lading.dispatch.queue_sync import KIND
from lading.dispatch.run import run as dispatch
from lading.dispatch.settings import API_TIMEOUT
from lading.process.concurrency import cancel_all
from lading.wiring.directory import DataDirectory, Secrets
from lading.wiring.dispatcher import settings, template
from lading.wiring.listen_address import choose_port
from lading.wiring.trials.cloudtest import end_once
from lading.wiring.trials.trial_server import RunningServer, facing, trial_server

# The server starts no dispatcher of its own: the test runs one in this process.
_CLUSTER = "zzzzz"
ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTestOptions:
    """Options of the test. Without `kinds` the first kind of node is tested.

    `listen` is the address of the test server, "" for the address of this machine on the route to
    the API server. With `with_server` false no server is started.
    """

    config: Path
    kinds: Sequence[str] = ()
    listen: str = ""
    with_server: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inputs:
    """Inputs of the server of a test."""

    config: Config
    settings: KubernetesSettings
    api: KubernetesApi
    folder: Path
    listen: str


def main(
    options: ClusterTestOptions,
    *,
    tell: Callable[[CheckStep], None],
    doing: Callable[[str], None],
) -> bool:
    """Run the test; return whether it succeeded. INT or TERM removes the Pods, then raises
    CancelledError.

    Raises Invalid for an invalid configuration.
    """
    config = load(options.config)
    with tempfile.TemporaryDirectory(prefix="lading-kubernetes-test-") as folder:
        site = _site(config, Path(folder))
        chosen = with_label(read_settings(site), site.token)
        kinds, access = choose_kinds(chosen, options.kinds), find_access(site)
        return asyncio.run(_test(config, chosen, access, kinds, Path(folder), options, tell, doing))


def choose_kinds(chosen: KubernetesSettings, names: Sequence[str]) -> list[NodeKind]:
    """The kinds of nodes with these names; without names the first one. Raises Invalid that lists
    the kinds.
    """
    if ALL in names:
        return list(chosen.kinds.values())
    for name in names:
        if name not in chosen.kinds:
            raise Invalid(
                f"--node {name}: there is no such kind of node; there are {', '.join(chosen.kinds)}"
            )
    return [chosen.kinds[name] for name in names] or list(chosen.kinds.values())[:1]


def _site(config: Config, folder: Path) -> FleetSite:
    return FleetSite(
        config=config,
        token=_label("check Pods"),
        run_directory=folder,
        cache_directory=folder,
        template={},
        api_url="",
    )


def _label(use: str) -> str:
    """The uuid of a made-up token: the same on this machine each time, so that a test finds the
    Pods of a killed one.
    """
    digest = hashlib.sha256(f"{use} of a test on {socket.gethostname()}".encode()).digest()
    return ids.make_uuid(_CLUSTER, ids.Infix.TOKEN, digest)


async def _test(
    config: Config,
    chosen: KubernetesSettings,
    access: ClusterAccess,
    kinds: Sequence[NodeKind],
    folder: Path,
    options: ClusterTestOptions,
    tell: Callable[[CheckStep], None],
    doing: Callable[[str], None],
) -> bool:
    end_once(doing, resources="Pods")
    async with HttpTransport(access.url, verify=access.tls) as transport:
        # A person waits: a cluster that does not answer is told about soon.
        api = KubernetesApi(
            transport, namespace=access.namespace, token=access.token, timeout=15.0, patience=15.0
        )
        inputs = _Inputs(
            config=config,
            settings=chosen,
            api=api,
            folder=folder,
            listen=options.listen or (_this_side(access.url) if options.with_server else ""),
        )
        means = CheckMeans(
            settings=chosen,
            api=api,
            uuid=ids.make_uuid(_CLUSTER, ids.Infix.CONTAINER, os.urandom(16)),
            token=lambda: secrets.token_hex(20),
            clock=asyncio.get_running_loop().time,
            server=functools.partial(_serving, inputs) if options.with_server else None,
            fleet=_label("fleet"),
        )
        return await ClusterTest(means, tell=tell, doing=doing).run(kinds)


def _this_side(url: str) -> str:
    """A free port at the address of this machine on the route to the API server. Raises
    Unavailable.
    """
    host = urlsplit(url).hostname or ""
    try:
        found = socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unavailable(f"{host}: this name of the API server is not known: {error}") from error
    return f"{facing(str(found[0][4][0]))}:0"


@asynccontextmanager
async def _serving(inputs: _Inputs, kind: NodeKind) -> AsyncGenerator[RunningServer]:
    """A server and its dispatcher for one kind of node. Raises LadingError when one of them does
    not start.
    """
    address = choose_port(inputs.listen)
    async with trial_server(
        inputs.folder / f"server-{kind.name}",
        address,
        lambda directory, secrets: _dispatching(inputs, kind, directory, secrets, address),
        kind=InstanceType(name=kind.name, provider_type=kind.name, resources=kind.capacity),
        patience=inputs.settings.patience.begin,
        location="in a Pod",
    ) as running:
        yield running


@asynccontextmanager
async def _dispatching(
    inputs: _Inputs, kind: NodeKind, directory: DataDirectory, secrets: Secrets, address: str
) -> AsyncGenerator[asyncio.Task[None]]:
    """Run a dispatcher for this kind of node inside the context; yields its task."""
    fields = template(inputs.config, address=address, insecure=True)
    one_kind = replace(
        with_label(inputs.settings, _label("fleet")),
        # The request of the test names no partition.
        kinds={kind.name: replace(kind, closed=False)},
        template={**fields, **inputs.settings.template, "api_url": f"https://{address}"},
        certificate=directory.certificate.read_text(),
    )
    async with (
        HttpTransport(unix_socket=directory.socket) as transport,
        KubernetesFleet(one_kind, inputs.api) as fleet,
    ):
        client = ApiClient(transport, secrets.dispatch_token, timeout=API_TIMEOUT)
        work = dispatch(
            client,
            fleet,
            settings(inputs.config, "kubernetes"),
            events=events(client, kinds=(KIND,)),
        )
        task = asyncio.create_task(work, name="dispatcher of the test")
        try:
            yield task
        finally:
            await cancel_all(task)
