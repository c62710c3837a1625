"""The dispatcher process of `lading up`.

python -m lading.wiring.dispatcher --data DIR --listen HOST:PORT --parent PID --ready-fd N
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import structs

from lading.client.api import ApiClient
from lading.client.record_events import events
from lading.client.servers.own_site import boot_id
from lading.client.transport import HttpTransport
from lading.config.site import Config
from lading.core.capabilities import read_offered
from lading.core.containers.container_network import read_networks
from lading.core.errors import LadingError
from lading.core.tes.file_roots import make_roots
from lading.dispatch.fleet import Fleet, FleetSite, find_fleet, plans_disk
from lading.dispatch.lease import DispatcherLease, holding
from lading.dispatch.metrics import DispatchMetrics
from lading.dispatch.queue_sync import KIND
from lading.dispatch.run import Once, run
from lading.dispatch.settings import API_TIMEOUT, DispatchSettings
from lading.process.telemetry import configure, event, read_format, read_level
from lading.process.tracing import SpanTracer, open_tracer
from lading.wiring.directory import DataDirectory
from lading.wiring.engine import engine_search, internet_fault, with_engine
from lading.wiring.process import (
    ChildOptions,
    StartReport,
    configure_logs,
    end_with_parent,
    parse_options,
    tracing_settings,
)

_logger = logging.getLogger("lading.dispatch")
# Seconds to wait for the server's socket; afterwards the client reports the failure itself.
_PATIENCE = 30.0
# Seconds between two attempts to connect to the socket of a starting server.
_PAUSE = 0.02


async def dispatch(
    client: ApiClient,
    name: str,
    site: FleetSite,
    directory: DataDirectory,
    *,
    on_ready: Callable[[], None],
    listening: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Dispatch to a fleet until cancelled, once the lease of the token is held. One that waits for
    the lease is ready. `listening` waits until the server listens.
    """
    config, chosen = site.config, settings(site.config, name)
    lease = DispatcherLease(client, holder_of(directory), settings=chosen)
    opening = find_fleet(name)(replace(site, check=lease.check))
    async with AsyncExitStack() as stack:
        fleet: Fleet | None = None
        # While the server starts. Other fleets act by themselves, and need the lease first.
        if name == "local":
            fleet = await stack.enter_async_context(opening)
        if listening is not None:
            await listening()
        await stack.enter_async_context(holding(lease, on_wait=on_ready))
        if fleet is None:
            fleet = await stack.enter_async_context(opening)
        await run(
            client,
            fleet,
            chosen,
            events=events(client, kinds=(KIND,)),
            on_ready=on_ready,
            lease=lease,
            metrics=await stack.enter_async_context(_monitored(config)),
            tracer=await stack.enter_async_context(_traced(config)),
        )


def template(config: Config, *, address: str, insecure: bool) -> dict[str, object]:
    """The configured fields of every assignment; `address` is the address of the server for
    containers.

    Raises Invalid.
    """
    containers = config.Containers
    elsewhere = urlsplit(config.ExternalURL).netloc
    return {
        "api_host": address,
        "api_host_insecure": insecure,
        "api_addresses": [elsewhere] if elsewhere else [],
        "internet_with_api": containers.InternetWithAPI,
        "refused_networks": read_networks(
            containers.RefusedNetworks, key="Containers.RefusedNetworks"
        ),
        "live_roots": {
            root.prefix: {"directory": root.directory, "is_writable": root.is_writable}
            for root in make_roots(config.TES.FileRoots)
            if root.is_live
        },
        "engine": containers.RuntimeEngine,
        "gateway": containers.GatewayAddress,
        "docker_socket": containers.DockerSocket,
        "device_root": containers.DeviceRoot,
        "podman_socket": containers.PodmanSocket,
        "cache_size": config.Local.CacheSize,
        "large_input": config.Local.LargeInput,
        "log_update_period": containers.LogUpdatePeriod,
        "log_update_size": containers.LogUpdateSize,
        "log_limit": containers.LogLimit,
        "user_namespaces": containers.UserNamespaces,
        "max_processes": containers.MaxProcesses,
        "tmp_capacity": containers.DefaultTmpCapacity,
        "scratch_beside": containers.ScratchBesideMounts,
        "scratch_files": containers.ScratchFiles,
        "disk_reserve": containers.DiskReserve,
        "disk_reserve_files": containers.DiskReserveFiles,
        "output_limit": containers.MaxOutputSize,
        "broken_node_hook": containers.BrokenNodeHook,
        "stop_grace_period": containers.StopGracePeriod,
        "log_level": read_level(config.SystemLogs.LogLevel),
        "log_format": read_format(config.SystemLogs.Format).value,
        "tracing": structs.asdict(tracing_settings(config)),
    }


def settings(config: Config, fleet: str) -> DispatchSettings:
    """Settings of the dispatch loop from the configuration."""
    cloud = config.Containers.CloudVMs
    if fleet == "cloud":
        return DispatchSettings(
            poll_interval=cloud.PollInterval,
            kill_interval=cloud.TimeoutSignal,
            kill_patience=cloud.TimeoutTERM,
            min_retry=config.Containers.MinRetryPeriod,
            only=config.Containers.OnlyDispatcher,
            plans_disk=True,
            capabilities=read_offered(config.Containers.Capabilities),
        )
    return DispatchSettings(
        poll_interval=config.Local.PollInterval,
        quota=config.Local.MaxContainers,
        passing=config.Local.BackfillLimit,
        min_retry=config.Containers.MinRetryPeriod,
        only=config.Containers.OnlyDispatcher,
        plans_disk=plans_disk(fleet, config),
        capabilities=read_offered(config.Containers.Capabilities),
        # One machine is preemptible as a whole, or not.
        preemptible_partitions=()
        if fleet == "local"
        else tuple(config.Containers.PreemptiblePartitions),
    )


def holder_of(directory: DataDirectory) -> str:
    """Holder name of the dispatcher's lease: one process at a time can lock the directory.

    Two machines may have the same name, and two mounts the same path: the digits at its end differ
    for them, so that neither replaces the other while it lives.
    """
    place = directory.root.stat()
    parts = f"{boot_id()} {place.st_dev} {place.st_ino}"
    mark = hashlib.sha256(parts.encode()).hexdigest()[:8]
    return f"{socket.gethostname()}:{directory.root.absolute()} [{mark}]"


async def serve(directory: DataDirectory, listen: str, *, on_ready: Callable[[], None]) -> None:
    """Dispatch to the configured fleet until cancelled; containers go on."""
    secrets = directory.secrets()
    config = directory.config(secrets, address=listen)
    name = config.Containers.Dispatcher
    config = with_engine(config, name, engine_search(config.Containers))
    site = FleetSite(
        config=config,
        token=secrets.dispatch_token_uuid,
        run_directory=directory.run,
        cache_directory=directory.cache,
        template=template(config, address=listen, insecure=True),
        api_url=f"https://{listen}",
        api_socket=str(directory.socket),
        certificate=directory.certificate.read_text(),
        internet_fault=internet_fault(config.Containers.RuntimeEngine, directory.root),
    )
    async with HttpTransport(unix_socket=directory.socket) as transport:
        client = ApiClient(transport, secrets.dispatch_token, timeout=API_TIMEOUT)
        await dispatch(
            client, name, site, directory, on_ready=Once(on_ready),
            listening=partial(until_listening, directory.socket),
        )  # fmt: skip


@asynccontextmanager
async def _traced(config: Config) -> AsyncGenerator[SpanTracer]:
    """The tracer of this dispatcher; what it has not sent is sent at the end."""
    tracer = open_tracer(tracing_settings(config), "dispatcher")
    try:
        yield tracer
    finally:
        await asyncio.to_thread(tracer.close)


@asynccontextmanager
async def _monitored(config: Config) -> AsyncGenerator[DispatchMetrics]:
    """The metrics of this dispatcher, served where the configuration says so."""
    metrics, address = DispatchMetrics(), config.Containers.MetricsAddress
    if not address:
        yield metrics
        return
    # Imported here: its HTTP server takes a tenth of a second, and few dispatchers need it.
    from lading.dispatch.monitoring import monitored

    async with monitored(metrics, address, config.ManagementToken) as url:
        event(_logger, "metrics", url=url)
        yield metrics


async def until_listening(
    path: Path, *, patience: float = _PATIENCE, pause: float = _PAUSE
) -> None:
    """Wait until a process listens on a Unix socket, at most `patience` seconds.

    The server starts at the same time as the dispatcher. A client that tries again with growing
    pauses would miss the moment by up to a second.
    """
    # The caller finds out by its first request.
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            while not await _listens(path):  # noqa: ASYNC110 - there is no event for a bound socket
                await asyncio.sleep(pause)


async def _listens(path: Path) -> bool:
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return False
    # The connection was a test; the server closes its end when it finds no request.
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


async def _run(options: ChildOptions, start: StartReport) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    directory = options.directory
    configure_logs(directory.config(directory.secrets(), address=options.listen))
    await serve(directory, options.listen, on_ready=start.succeeded)


def main(options: ChildOptions) -> int:
    """Run the dispatcher process; its exit code. A failure is one line on standard error."""
    end_with_parent(options.parent)
    configure()
    start = StartReport(options.ready)
    try:
        asyncio.run(_run(options, start))
    except asyncio.CancelledError:
        # TERM is the ordinary end of this process, so it is no failure.
        return 0
    except LadingError as error:
        start.failed(error.message)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(parse_options("lading.wiring.dispatcher")))
