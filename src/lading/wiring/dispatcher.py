"""The dispatcher process of `lading up`.

python -m lading.wiring.dispatcher --data DIR --listen HOST:PORT --parent PID --ready-fd N
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from lading.client.api import ApiClient
from lading.client.events import events
from lading.client.transport import HttpTransport
from lading.config import Config
from lading.core.containers.container_network import read_networks
from lading.core.errors import LadingError
from lading.dispatch.fleet_plugins import FleetSite, find_fleet, plans_disk
from lading.dispatch.queue_sync import KIND
from lading.dispatch.run import run
from lading.dispatch.settings import API_TIMEOUT, DispatchSettings
from lading.telemetry import configure
from lading.wiring.directory import DataDirectory
from lading.wiring.process import ChildOptions, StartReport, end_with_parent, parse_options

# Seconds to wait for the server's socket; afterwards the client reports the failure itself.
_PATIENCE = 30.0
# Seconds between two attempts to connect to the socket of a starting server.
_PAUSE = 0.02


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
        "usage_interval": containers.UsageInterval,
        "stop_grace_period": containers.StopGracePeriod,
        "unreachable_timeout": containers.UnreachableTimeout,
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
        )
    return DispatchSettings(
        poll_interval=config.Local.PollInterval,
        quota=config.Local.MaxContainers,
        min_retry=config.Containers.MinRetryPeriod,
        only=config.Containers.OnlyDispatcher,
        plans_disk=plans_disk(fleet, config),
    )


def holder_of(directory: DataDirectory) -> str:
    """Holder name of the dispatcher's lease: one process at a time can lock the directory."""
    return f"{socket.gethostname()}:{directory.root.absolute()}"


async def serve(directory: DataDirectory, listen: str, *, on_ready: Callable[[], None]) -> None:
    """Dispatch to the configured fleet until cancelled; containers go on."""
    secrets = directory.secrets()
    config = directory.config(secrets, address=listen)
    name = config.Containers.Dispatcher
    site = FleetSite(
        config=config,
        token=secrets.dispatch_token_uuid,
        run_directory=directory.run,
        cache_directory=directory.cache,
        template=template(config, address=listen, insecure=True),
        api_url=f"https://{listen}",
        api_socket=str(directory.socket),
        certificate=directory.certificate.read_text(),
    )
    async with (
        HttpTransport(unix_socket=directory.socket) as transport,
        find_fleet(name)(site) as fleet,
    ):
        await until_listening(directory.socket)
        client = ApiClient(transport, secrets.dispatch_token, timeout=API_TIMEOUT)
        await run(
            client,
            fleet,
            settings(config, name),
            events=events(client, kinds=(KIND,)),
            on_ready=on_ready,
            holder=holder_of(directory),
        )


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
    await serve(options.directory, options.listen, on_ready=start.succeeded)


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
