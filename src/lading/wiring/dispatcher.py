"""The dispatcher process of this machine.

python -m lading.wiring.dispatcher --data DIR --listen HOST:PORT --parent PID --ready-fd N
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable

from lading.client.api import ApiClient
from lading.client.events import events
from lading.client.transport import HttpTransport
from lading.config import Config
from lading.core.errors import LadingError
from lading.dispatch.capacity import measure
from lading.dispatch.local import LocalFleet, LocalSettings
from lading.dispatch.run import run
from lading.dispatch.settings import Settings
from lading.telemetry import configure
from lading.wiring.directory import DataDirectory
from lading.wiring.options import Options, parse_options
from lading.wiring.process import end_with_parent, report_ready


def local_settings(directory: DataDirectory, config: Config, *, address: str) -> LocalSettings:
    """How this machine runs supervisors, from the configuration."""
    return LocalSettings(
        command=(sys.executable, "-m", "lading.supervisor.zygote"),
        run_directory=directory.run,
        capacity=measure(vcpus=config.Local.VCPUs, ram=config.Local.RAM),
        template={
            "cache_directory": str(directory.cache),
            "api_socket": str(directory.socket),
            "api_host": address,
            "api_host_insecure": True,
            "engine": config.Containers.RuntimeEngine,
            "docker_socket": config.Containers.DockerSocket,
            "cache_size": config.Local.CacheSize,
            "log_update_period": config.Containers.LogUpdatePeriod,
            "log_update_size": config.Containers.LogUpdateSize,
            "usage_interval": config.Containers.UsageInterval,
            "stop_grace_period": config.Containers.StopGracePeriod,
            "unreachable_timeout": config.Containers.UnreachableTimeout,
        },
    )


async def serve(directory: DataDirectory, listen: str, *, on_ready: Callable[[], None]) -> None:
    """Dispatch to this machine until cancelled; containers go on."""
    secrets = directory.secrets()
    config = directory.config(secrets, address=listen)
    settings = Settings(poll_interval=config.Local.PollInterval)
    async with (
        HttpTransport(unix_socket=directory.socket) as transport,
        LocalFleet(local_settings(directory, config, address=listen)) as fleet,
    ):
        client = ApiClient(transport, secrets.dispatch_token)
        await run(client, fleet, settings, events=events(client), on_ready=on_ready)


async def _run(options: Options) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    await serve(options.directory, options.listen, on_ready=lambda: report_ready(options.ready))


def main(options: Options) -> int:
    """Run the dispatcher process; its exit code. A failure is one line on standard error."""
    end_with_parent(options.parent)
    configure()
    try:
        asyncio.run(_run(options))
    except asyncio.CancelledError:
        return 0
    except LadingError as error:
        print(error.message, file=sys.stderr)  # noqa: T201 - the parent repeats the last line of this log
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(parse_options("lading.wiring.dispatcher")))
