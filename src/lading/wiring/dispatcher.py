"""Dispatcher processes: the one of `lading up`, and a further one by `lading dispatch`.

    python -m lading.wiring.dispatcher --data DIR --listen HOST:PORT --parent PID --ready-fd N

A further dispatcher runs on any machine, for a server anywhere. It has its own token
(docs/spec/dispatch, section Tokens). `lading admin dispatcher-token` writes the token, the address
and the certificate of the server to one file, which the operator copies to the other machine. The
data directory of the dispatcher has no records: only the state of running containers and a cache.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import structs

from lading.client.api import ApiClient
from lading.client.record_events import events
from lading.client.servers.own_site import boot_id
from lading.client.transport import HttpTransport
from lading.config.site import Config, load
from lading.core.capabilities import read_offered
from lading.core.containers.container_network import read_networks
from lading.core.errors import Invalid, LadingError
from lading.core.records import access
from lading.core.tes.file_roots import make_roots
from lading.dispatch.fleet import Fleet, FleetSite, find_fleet, plans_disk
from lading.dispatch.lease import DispatcherLease, holding
from lading.dispatch.metrics import DispatchMetrics
from lading.dispatch.queue_sync import KIND
from lading.dispatch.run import Once, run
from lading.dispatch.settings import API_TIMEOUT, DispatchSettings
from lading.process.telemetry import configure, event, read_format, read_level
from lading.process.tracing import SpanTracer, open_tracer
from lading.wiring.directory import DataDirectory, write_private
from lading.wiring.engine import engine_search, internet_fault, with_engine
from lading.wiring.process import (
    ChildOptions,
    StartReport,
    configure_logs,
    end_with_parent,
    parse_options,
    say,
    tracing_settings,
)

# Name below the data directory; supervisors are given the path of this file.
_CERTIFICATE = "server.crt"
_logger = logging.getLogger("lading.dispatch")
# Seconds to wait for the server's socket; afterwards the client reports the failure itself.
_PATIENCE = 30.0
# Seconds between two attempts to connect to the socket of a starting server.
_PAUSE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Membership of a dispatcher: URL of the server, token, and certificate of the server (PEM)."""

    api: str
    token: str
    certificate: str = ""


MakeMembership = Callable[[DataDirectory, str, tuple[str, ...]], Awaitable[Membership]]
"""Makes a membership from a data directory, the URL of its server, and scopes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherReady:
    """Facts to print once the dispatcher works."""

    api: str
    fleet: str
    data: Path


def invite(
    directory: DataDirectory,
    file: Path,
    *,
    for_arvados: bool = False,
    make: MakeMembership | None = None,
) -> Membership:
    """Make a token for a further dispatcher of the server of this data directory; write a
    membership to `file`.

    `for_arvados`: a token for Arvados' own dispatchers and their crunch-run. `make` asks the server
    for a token with scopes.

    Raises Invalid without a server or when the file cannot be written, and the errors of the
    client.
    """
    if file.exists():
        raise Invalid(f"{file}: is there already; choose another name")
    scopes = access.ARVADOS_DISPATCHER_SCOPES if for_arvados else access.DISPATCHER_SCOPES
    membership = asyncio.run(_made(make or _make, directory, scopes))
    try:
        write_private(file, msgspec.json.format(msgspec.json.encode(membership)) + b"\n")
    except OSError as error:
        raise Invalid(f"{file}: cannot be written: {error.strerror}") from error
    return membership


async def _made(
    make: MakeMembership, directory: DataDirectory, scopes: tuple[str, ...]
) -> Membership:
    return await make(directory, _address(directory), scopes)


async def _make(directory: DataDirectory, api: str, scopes: tuple[str, ...]) -> Membership:
    async with HttpTransport(api, verify=directory.certificate) as transport:
        # The admin's token makes the new one, which has the narrow scopes of a dispatcher only.
        client = ApiClient(transport, directory.secrets().admin_token)
        made = await client.create("api_client_authorizations", {"scopes": list(scopes)})
    token = f"v2/{made['uuid']}/{made['api_token']}"
    return Membership(api=api, token=token, certificate=directory.certificate.read_text())


def _address(directory: DataDirectory) -> str:
    try:
        found = re.search(
            r"^export ARVADOS_API_HOST=(\S+)$", directory.env.read_text(), re.MULTILINE
        )
    except OSError:
        found = None
    if found is None:
        raise Invalid(
            f"{directory.root}: no server keeps its data here; "
            "start one with 'lading up', or name --data"
        )
    return f"https://{found[1]}"


def read_membership(file: Path) -> Membership:
    """Read the file written by `invite`. Raises Invalid."""
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Membership)
    except (OSError, msgspec.DecodeError) as error:
        raise Invalid(f"{file}: not a file of 'lading admin dispatcher-token' ({error})") from error
    return check(found)


def check(membership: Membership) -> Membership:
    """Check a membership and return it. Raises Invalid."""
    if not membership.api.startswith("https://"):
        raise Invalid(f"{membership.api}: not the address of a server; write https://HOST:PORT")
    if membership.token.count("/") != 2 or not membership.token.startswith("v2/"):
        raise Invalid(
            "the token is not a v2/UUID/SECRET one; make one with 'lading admin dispatcher-token'"
        )
    return membership


def run_further(
    membership: Membership,
    *,
    fleet: str,
    data: Path,
    config: Path | None,
    on_ready: Callable[[DispatcherReady], None],
) -> int:
    """Dispatch until TERM or INT; the exit code of the command.

    Raises Invalid for a configuration or fleet that cannot be used, Conflict when the data
    directory is in use.
    """
    directory = DataDirectory(data.absolute())
    directory.prepare(say=say)
    lock = directory.claim()
    try:
        known = load(config)
        configure_logs(known)
        asyncio.run(_serve(check(membership), fleet, directory, known, on_ready))
    except asyncio.CancelledError:
        # SIGTERM: the orderly end. Containers continue.
        return 0
    finally:
        os.close(lock)
    return 0


async def _serve(
    membership: Membership,
    name: str,
    directory: DataDirectory,
    config: Config,
    on_ready: Callable[[DispatcherReady], None],
) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    authority = directory.root / _CERTIFICATE
    if membership.certificate:
        write_private(authority, membership.certificate.encode())
    verify = authority if membership.certificate else True
    config = with_engine(config, name, engine_search(config.Containers))
    site = FleetSite(
        config=config,
        token=membership.token.split("/")[1],
        run_directory=directory.run,
        cache_directory=directory.cache,
        template=template(
            config,
            address=membership.api.removeprefix("https://"),
            insecure=bool(membership.certificate),
        ),
        api_url=membership.api,
        certificate=membership.certificate,
        certificate_path=str(authority) if membership.certificate else "",
        internet_fault=internet_fault(config.Containers.RuntimeEngine, directory.root),
    )
    ready = DispatcherReady(api=membership.api, fleet=name, data=directory.root)
    async with HttpTransport(membership.api, verify=verify) as transport:
        client = ApiClient(transport, membership.token, timeout=API_TIMEOUT)
        await _dispatch(client, name, site, directory, on_ready=Once(lambda: on_ready(ready)))


async def _dispatch(
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
        await _dispatch(
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
