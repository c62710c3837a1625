"""A dispatcher whose containers run nothing: it makes the calls of a real one, and its supervisors
those of real ones, so that the server is the limit and not the machine.

    python -m bench.machines.made_up MEMBERSHIP SLOTS      says `ready`, dispatches until TERM

The dispatch loop is the real one, with the events that it listens to. A supervisor is a task that
uses the session of the real one: the record and the token come with the lock, it reports Running
and sends the end with output and log, whose files and sizes are those of a container that wrote a
number. All share one connection pool, as real supervisors keep their connection from one container
to the next.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import md5
from pathlib import Path
from typing import Final

from lading.client.api import ApiClient
from lading.client.record_events import events
from lading.client.transport import HttpTransport, Transport
from lading.config.site import Config
from lading.core.quantities import format_time
from lading.core.resources import Resources
from lading.core.scheduling.planning import FleetWorker
from lading.dispatch.fleet import StartRequest
from lading.dispatch.queue import FIELDS
from lading.dispatch.queue_sync import KIND
from lading.dispatch.run import run
from lading.dispatch.settings import API_TIMEOUT
from lading.supervisor.session import SupervisorSession
from lading.supervisor.supervisor_config import SupervisorConfig
from lading.testing.fleet import FakeFleet
from lading.wiring.dispatcher import settings
from lading.wiring.further_dispatcher import Membership, read_membership

LOG_FILES: Final = {
    "container.json": 2213,
    "crunch-run.txt": 961,
    "crunchstat.txt": 226,
    "node-info.txt": 4774,
    "stderr.txt": 0,
    "stdout.txt": 0,
}
"""The files of the log of a container that wrote a number, with their sizes in bytes."""
_RAM: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class MadeUpSupervisor:
    """Ends containers without running them, over one transport."""

    api: str
    transport: Transport
    directory: Path

    async def supervise(self, request: StartRequest) -> None:
        """The calls of a supervisor for one container, whose command ends at once."""
        config = SupervisorConfig(
            container_uuid=request.uuid,
            supervisor_token=request.token,
            run_directory=str(self.directory),
            cache_directory=str(self.directory),
            api_url=self.api,
            records=dict(request.records),
        )
        session = SupervisorSession(config, self.transport)
        await session.open()
        await session.secrets()
        await session.report_running()
        output = f"{session.container.command[-1]}\n".encode()
        log = log_of(request.uuid)
        changes = {
            "state": "Complete",
            "exit_code": 0,
            "finished_at": format_time(datetime.now(UTC)),
            "usage": {"memory": 1589248.0, "cpu": 0.01},
        }
        manifests = {
            "output": manifest_of(output, {"number": len(output)}),
            "log": manifest_of(log, LOG_FILES),
        }
        await session.finish(changes, manifests, [output, log])


def log_of(uuid: str) -> bytes:
    """A block with a log's files, which no other container has."""
    return (uuid.encode() * (sum(LOG_FILES.values()) // len(uuid) + 1))[: sum(LOG_FILES.values())]


def manifest_of(block: bytes, files: dict[str, int]) -> str:
    """The manifest of files that lie one after another in one block, without its signature."""
    words, start = [], 0
    for name, size in files.items():
        words.append(f"{start if size else 0}:{size}:{name}")
        start += size
    digest = md5(block, usedforsecurity=False).hexdigest()
    return f". {digest}+{len(block)} {' '.join(words)}\n"


async def _dispatch(membership: Membership, slots: int, directory: Path) -> None:
    certificate = directory / "server.crt"
    # Before anything else runs here.
    certificate.write_text(membership.certificate)
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with HttpTransport(membership.api, verify=certificate) as transport:
        client = ApiClient(transport, membership.token, timeout=API_TIMEOUT)
        supervisor = MadeUpSupervisor(membership.api, transport, directory)
        machine = FleetWorker("made up", Resources(vcpus=slots, ram=_RAM))
        fleet = FakeFleet((machine,), work=supervisor.supervise)
        try:
            await run(
                client,
                fleet,
                settings(Config(), "local"),
                events=events(client, kinds=(KIND,), offers=FIELDS),
                on_ready=lambda: print("ready", flush=True),
            )
        finally:
            await fleet.close()


def main(file: Path, slots: int) -> None:
    """Dispatch until TERM."""
    with (
        tempfile.TemporaryDirectory(prefix="lading-bench-") as folder,
        suppress(asyncio.CancelledError),
    ):
        asyncio.run(_dispatch(read_membership(file), slots, Path(folder)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
