"""`lading up`: the whole system on this machine, by one command.

One parent owns its children, a server (API and blocks) for each address and the dispatcher, and
starts a child again when it dies by itself. Containers belong to their supervisors: when these
processes are killed, containers continue, and the next start adopts them.

The parent also makes the TLS certificate of the data directory at its first start, and keeps disk
space for the database.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from lading.core.containers.disk_space import Amount
from lading.process.concurrency import cancel_all
from lading.supervisor.engines.choice import EngineChoice
from lading.wiring.child_service import ChildService, child_service
from lading.wiring.database_room import keep_room
from lading.wiring.directory import DataDirectory, Secrets, ensure_certificate
from lading.wiring.engine import engine_search
from lading.wiring.listen_address import choose_port, claimed_address
from lading.wiring.process import configure_logs, private_files, say
from lading.wiring.serving_process import (
    ServingProcess,
    remove_record,
    this_process,
    write_record,
)

# Seconds between two searches for an engine, as long as there is none.
_ENGINE_PAUSE = 5.0
# umask for files in the trees of containers: programs in a container that are not root must be able
# to read them.
_OF_CONTAINERS = 0o022
_logger = logging.getLogger("lading.up")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReady:
    """Facts to print once everything serves."""

    address: str
    data: Path
    seconds: float
    engine: EngineChoice | None = None
    """Engine that runs containers here; None if another machine runs them."""


def main(
    data: Path,
    listen: str,
    *,
    also: Sequence[str] = (),
    on_ready: Callable[[ServerReady], None],
    has_log_files: bool = True,
    until_idle: bool = False,
    may_move: bool = False,
) -> int:
    """Serve until TERM or INT; the exit code of the command. `also` are the addresses of further
    servers. Without `has_log_files` the services log to our standard error. `until_idle`: end
    after `Local.IdleShutdown`, too. `may_move`: another port of the same host will do for `listen`
    (`listen_address.claimed_address`).

    Written files are readable by their owner only.

    Raises Invalid for an address or directory that cannot be used, Conflict when the directory is
    served already, Unavailable when a process does not start.
    """
    directory = DataDirectory(data.absolute())
    with ExitStack() as claims:
        if may_move:
            listen = claims.enter_context(claimed_address(listen, last=directory.served_address()))
        listen, *further = [choose_port(address) for address in (listen, *also)]
        with private_files():
            directory.prepare(say=say)
            return _main(
                directory,
                (listen, *further),
                on_ready,
                has_log_files=has_log_files,
                until_idle=until_idle,
            )


def _main(
    directory: DataDirectory,
    addresses: Sequence[str],
    on_ready: Callable[[ServerReady], None],
    *,
    has_log_files: bool,
    until_idle: bool,
) -> int:
    listen, lock = addresses[0], directory.claim()
    try:
        host = listen.rpartition(":")[0].strip("[]")
        secrets = directory.secrets(entropy=os.urandom(400))
        config = directory.config(secrets, address=listen)
        containers = config.Containers
        logs = directory.root / "log" if has_log_files else None
        process = this_process(log=logs)
        write_record(directory, process)
        if not has_log_files:
            # With log files this process is somebody's command, which prints and logs nothing.
            configure_logs(config)
        reserve = Amount(containers.DiskReserve, containers.DiskReserveFiles)
        ensure_certificate(directory.certificate, directory.key, host=host, now=datetime.now(UTC))
        with_dispatcher = containers.Dispatcher != "none"
        is_here = containers.Dispatcher == "local"
        search = engine_search(containers, directory=directory.root)
        return asyncio.run(
            _serve(
                directory,
                addresses,
                secrets,
                on_ready,
                with_dispatcher=with_dispatcher,
                reserve=reserve,
                choose=(lambda: search.choose(containers.RuntimeEngine)) if is_here else None,
                logs=logs,
                process=process,
                until_idle=until_idle,
            )
        )
    finally:
        remove_record(directory)
        # Released last: the children have ended.
        os.close(lock)


async def _serve(
    directory: DataDirectory,
    addresses: Sequence[str],
    secrets: Secrets,
    on_ready: Callable[[ServerReady], None],
    *,
    with_dispatcher: bool,
    reserve: Amount,
    choose: Callable[[], EngineChoice] | None,
    logs: Path | None,
    process: ServingProcess,
    until_idle: bool,
) -> int:
    loop = asyncio.get_running_loop()
    started, stop = loop.time(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    services = [
        make_server(directory, number, address, logs=logs, until_idle=until_idle)
        for number, address in enumerate(addresses, 1)
    ]
    engine = choose() if choose is not None else None
    dispatcher = child_service(
        directory, "dispatcher", "dispatcher", addresses[0], logs=logs, umask=_OF_CONTAINERS
    )
    # Without an engine data is served, and requests stay queued.
    is_waiting = engine is not None and not engine.name
    if with_dispatcher and not is_waiting:
        services.append(dispatcher)
    try:
        if not await start_all(services, stop):
            return 0
        # Clients get the address only when the server answers.
        directory.write_env(secrets, address=addresses[0])
        write_record(directory, msgspec.structs.replace(process, address=addresses[0]))
        on_ready(
            ServerReady(
                address=addresses[0],
                data=directory.root,
                seconds=loop.time() - started,
                engine=engine,
            )
        )
        # From here on a child that ends is started again, until the keepers are cancelled.
        keepers = [asyncio.create_task(service.keep(), name=service.name) for service in services]
        keepers.append(
            asyncio.create_task(keep_room(directory.database, reserve), name="room for records")
        )
        if choose is not None and is_waiting:
            late = _keep_later(dispatcher, choose)
            keepers.append(asyncio.create_task(late, name="engine"))
            services.append(dispatcher)
        await stop.wait()
        # From here on nothing is served: a command that starts the site waits for the end of this
        # process, and does not call its server.
        with suppress(OSError):
            write_record(directory, process)
        # Keepers end by cancellation; their results mean nothing.
        await cancel_all(*keepers)
    except BaseExceptionGroup as failures:
        # The first failure is the cause: the task group has cancelled the other starts.
        raise failures.exceptions[0] from None
    finally:
        # The dispatcher, last in the list, stops before the servers that it calls.
        for service in reversed(services):
            await service.stop()
    return 0


async def _keep_later(dispatcher: ChildService, choose: Callable[[], EngineChoice]) -> None:
    """Start the dispatcher once there is an engine, and keep it."""
    while True:
        choice = await asyncio.to_thread(choose)
        if choice.name:
            break
        await asyncio.sleep(_ENGINE_PAUSE)
    say(f"engine: {choice}; containers run from now on")
    if choice.warning:
        say(choice.warning)
    await dispatcher.keep()


async def start_all(services: Sequence[ChildService], stop: asyncio.Event) -> bool:
    """Start all; return False when stopped before they served. Raises Unavailable for a failed
    start.
    """

    async def start() -> None:
        async with asyncio.TaskGroup() as starting:
            for service in services:
                starting.create_task(service.start_though_killed())

    # Until all children are ready, or the user stops the program.
    starting, stopping = asyncio.create_task(start()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            return False
        await starting
        return True
    finally:
        await cancel_all(starting, stopping)


def make_server(
    directory: DataDirectory,
    number: int,
    address: str,
    *,
    logs: Path | None,
    until_idle: bool = False,
) -> ChildService:
    """Make the service of server `number`: the first has the local socket of the directory, each
    further one its own.
    """
    if number == 1:
        more = ("--until-idle",) if until_idle else ()
        return child_service(directory, "server", "server", address, *more, logs=logs)
    return child_service(
        directory,
        f"server-{number}",
        "server",
        address,
        "--socket",
        str(directory.root / f"api-{number}.sock"),
        logs=logs,
    )
