"""A temporary server, with a dispatcher, for a test of VMs or of a cluster.

The server and its records live in a directory of the test. The dispatcher is the real one with the
cloud fleet; its driver lists this VM only, so the request of the test is handled like every
request.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import asyncssh

from lading.client.api import ApiClient, Record
from lading.client.record_events import events
from lading.client.transport import HttpTransport
from lading.config.site import Config
from lading.core.errors import LadingError, Unavailable
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.cloud_fleet import CloudFleet
from lading.dispatch.fleets.cloud.drivers.driver import (
    Driver,
)
from lading.dispatch.fleets.cloud.machine import CloudMachine
from lading.dispatch.fleets.cloud.runner import RunnerBuilder
from lading.dispatch.fleets.cloud.settings import CloudSettings
from lading.dispatch.fleets.cloud.single_instance import OneInstance
from lading.dispatch.fleets.cloud.ssh_connection import public_text
from lading.dispatch.fleets.cloud.vm_bootstrap import SshBootstrap
from lading.dispatch.queue_sync import KIND
from lading.dispatch.run import run as dispatch
from lading.dispatch.settings import API_TIMEOUT
from lading.process.concurrency import cancel_all
from lading.wiring.directory import DataDirectory, Secrets, ensure_certificate
from lading.wiring.dispatcher import settings, template
from lading.wiring.listen_address import choose_port
from lading.wiring.process import private_files
from lading.wiring.up import make_server

# Port inside the container of the trial; nothing else runs there.
PORT: Final = 8000
PAGE: Final = "the page of the trial"
_IMAGE: Final = "lading-cloud-test:1"
# The server starts no dispatcher of its own: the test runs one in this process.
_CONFIG: Final = "Containers: {Dispatcher: none}\n"
_SCRIPT: Final = (
    f"echo {PAGE} >/out/page; exec python3 -m http.server {PORT} --bind 127.0.0.1 --directory /out"
)
# Reason in a wait report: no instance type can hold the container, so that waiting is useless.
_TOO_LARGE: Final = "too large"
# Seconds between two looks at records.
_PAUSE: Final = 0.2
# Seconds for one `lading` command; adding the image is the longest.
_COMMAND_TIMEOUT: Final = 120.0
# Seconds until the program in the container must answer; it starts after the container runs.
_PORT_TIMEOUT: Final = 30.0
# Seconds to wait for the end of the cancelled container; afterwards the VM is removed anyway.
_PARTING: Final = 10.0
_Dispatching = AbstractAsyncContextManager[asyncio.Task[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trialled:
    """Inputs of the server of a trial. `listen` "" is the address of this machine on the route to
    the VM.
    """

    config: Config
    settings: CloudSettings
    driver: Driver
    key: asyncssh.SSHKey
    workshop: RunnerBuilder
    folder: Path
    listen: str = ""


class RunningServer:
    """Implements `TrialServer`."""

    def __init__(
        self,
        client: ApiClient,
        directory: DataDirectory,
        dispatcher: asyncio.Task[None],
        *,
        address: str,
        kind: InstanceType,
        patience: float,
        location: str = "on the VM",
    ) -> None:
        """`location`: of its container, for the finding."""
        self._location = location
        self._client = client
        self._dispatcher = dispatcher
        self._directory = directory
        self._address = address
        self._kind = kind
        self._patience = patience
        self._uuid = ""

    @property
    def url(self) -> str:
        """See `TrialServer`."""
        return f"https://{self._address}"

    @property
    def certificate(self) -> str:
        """See `TrialServer`."""
        return self._directory.certificate.read_text()

    async def run(self) -> str:
        """Add an image of this machine's programs, run a service from it."""
        await self._lading("image", "add", "--name", _IMAGE, "--from-host", "sh", "cat", "python3")
        made = await self._client.create("container_requests", _request(self._kind))
        self._uuid = made["uuid"]
        try:
            async with asyncio.timeout(self._patience):
                return f"{await self._until_running()} runs {self._location}"
        except TimeoutError as error:
            # The container's wait report has the cause of the time-out.
            words = (await self._why()).get("scheduling_status") or "no reason is known"
            raise Unavailable(f"it does not run after {self._patience:g} s: {words}") from error

    async def shell(self) -> str:
        """Enter the container as a user does."""
        said = await self._lading("shell", self._uuid, "--", "cat", "/out/page")
        if said != PAGE:
            raise Unavailable(f"a command in the container wrote {said!r}, not {PAGE!r}")
        return "a session was opened through the server, and a command ran in the container"

    async def port(self) -> str:
        """Fetch the page through the server, repeatedly until the program in the container
        listens.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + _PORT_TIMEOUT
        while True:
            try:
                answer = await self._client.raw(
                    "GET", f"/services/{self._uuid}-{PORT}/page", timeout=_PORT_TIMEOUT
                )
                break
            except LadingError:
                if loop.time() >= until:
                    raise
                await asyncio.sleep(_PAUSE)
        said = answer.body.decode(errors="replace").strip()
        if said != PAGE:
            raise Unavailable(f"port {PORT} answered {said[:100]!r}, not {PAGE!r}")
        return f"port {PORT} of the container answered through the server"

    async def end(self) -> None:
        """Cancel the request and wait a short time for the end of its container."""
        if not self._uuid:
            # Failures are ignored: the VM and the server of the test are removed next.
            return
        # The server ends in any case.
        with contextlib.suppress(LadingError, TimeoutError):
            async with asyncio.timeout(_PARTING):
                await self._client.action("container_requests", self._uuid, "cancel")
                request = await self._client.get("container_requests", self._uuid)
                while request["state"] != "Final" and not self._dispatcher.done():
                    await asyncio.sleep(_PAUSE)
                    request = await self._client.get("container_requests", self._uuid)

    async def _until_running(self) -> str:
        while True:
            if self._dispatcher.done():
                raise Unavailable(
                    f"the dispatcher of the test ended: {self._dispatcher.exception()!r}"
                )
            request = await self._client.get("container_requests", self._uuid)
            uuid = request["container_uuid"]
            container: Record = {"state": "Queued"}
            if uuid:
                container = await self._client.get("containers", uuid)
            if container["state"] == "Running":
                return str(uuid)
            if request["state"] == "Final" or container["state"] in ("Complete", "Cancelled"):
                said = (container.get("runtime_status") or {}).get("error") or "no reason is known"
                raise Unavailable(f"its container ended as {container['state']}: {said}")
            if container["state"] == "Queued":
                await self._check_size()
            await asyncio.sleep(_PAUSE)

    async def _why(self) -> Record:
        found: Record = await self._client.action(
            "container_requests", self._uuid, "why", method="GET"
        )
        return found

    async def _check_size(self) -> None:
        """Raise Unavailable if no instance type is large enough."""
        for wait in (await self._why()).get("waits", ()):
            # No other instance type will appear: fail now rather than after the time limit.
            if wait["reason"] == _TOO_LARGE:
                raise Unavailable(wait["sentence"])

    async def _lading(self, *arguments: str) -> str:
        """Run a `lading` command as a user of the server; return its output. Raises Unavailable."""
        variables = {
            "ARVADOS_API_HOST": self._address,
            "ARVADOS_API_TOKEN": self._client.token,
            "ARVADOS_API_HOST_INSECURE": "1",
        }
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "lading",
            *arguments,
            env={**os.environ, **variables},
            stdin=null,
            stdout=pipe,
            stderr=pipe,
        )
        try:
            async with asyncio.timeout(_COMMAND_TIMEOUT):
                out, err = await process.communicate()
        except TimeoutError as error:
            raise Unavailable(
                f"lading {arguments[0]}: no end after {_COMMAND_TIMEOUT:g} s"
            ) from error
        finally:
            # The time limit or a cancellation ended the wait; the child must not stay behind.
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            lines = err.decode(errors="replace").strip().splitlines() or [
                f"exit code {process.returncode}"
            ]
            raise Unavailable(lines[-1].removeprefix("lading: "))
        return out.decode(errors="replace").strip()


@asynccontextmanager
async def serving(inputs: Trialled, machine: CloudMachine) -> AsyncGenerator[RunningServer]:
    """A server for one VM, and its dispatcher. Raises LadingError when one of them does not
    start.
    """
    assert machine.instance is not None
    assert machine.kind is not None
    address = choose_port(inputs.listen or f"{facing(machine.instance.address)}:0")

    def dispatching(directory: DataDirectory, secrets: Secrets) -> _Dispatching:
        return _dispatching(inputs, machine, directory, secrets, address)

    async with trial_server(
        inputs.folder / f"server-{machine.key}",
        address,
        dispatching,
        kind=machine.kind,
        patience=inputs.settings.times.booting,
    ) as running:
        yield running


@asynccontextmanager
async def trial_server(
    folder: Path,
    address: str,
    dispatching: Callable[[DataDirectory, Secrets], _Dispatching],
    *,
    kind: InstanceType,
    patience: float,
    location: str = "on the VM",
) -> AsyncGenerator[RunningServer]:
    """A server at `address` on a data directory made in `folder`, and the dispatcher that
    `dispatching` runs, which has instances of one kind. `patience`: seconds for one to begin work.
    `location`: as of `RunningServer`. Raises LadingError when one of them does not start.
    """
    directory = DataDirectory(folder)
    with private_files():
        directory.prepare()
        (directory.root / "config.yml").write_text(_CONFIG)
        secrets = directory.secrets(entropy=os.urandom(400))
        host = address.rpartition(":")[0].strip("[]")
        ensure_certificate(directory.certificate, directory.key, host=host, now=datetime.now(UTC))
        server = make_server(directory, 1, address, logs=directory.root / "log")
        try:
            await server.start()
            async with (
                HttpTransport(unix_socket=directory.socket) as transport,
                dispatching(directory, secrets) as dispatcher,
            ):
                running = RunningServer(
                    ApiClient(transport, secrets.admin_token, timeout=API_TIMEOUT),
                    directory,
                    dispatcher,
                    address=address,
                    kind=kind,
                    patience=patience,
                    location=location,
                )
                try:
                    yield running
                finally:
                    await running.end()
        finally:
            await server.stop()


def facing(address: str) -> str:
    """The address of this machine on the route to another one, in brackets for IPv6. Raises
    Unavailable.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            # Connecting a UDP socket sends nothing; the kernel only chooses the route (connect(2),
            # udp(7)). Port 9 is discard.
            probe.connect((address, 9))
            host: str = probe.getsockname()[0]
    except OSError as error:
        raise Unavailable(f"this machine has no way to {address}: {error.strerror}") from error
    return f"[{host}]" if family == socket.AF_INET6 else host


@asynccontextmanager
async def _dispatching(
    inputs: Trialled,
    machine: CloudMachine,
    directory: DataDirectory,
    secrets: Secrets,
    address: str,
) -> AsyncGenerator[asyncio.Task[None]]:
    """Run a dispatcher for this VM inside the context; yields its task."""
    assert machine.kind is not None
    fields = template(inputs.config, address=address, insecure=True)
    # One instance type: the planner can choose no other VM.
    one_type = replace(
        inputs.settings, types=(machine.kind,), template={**fields, "api_url": f"https://{address}"}
    )
    reach = SshBootstrap(
        key=inputs.key,
        directory=one_type.directory,
        probe_command=one_type.probe_command,
        engine=inputs.config.Containers.RuntimeEngine,
        runner=inputs.workshop.get,
        certificate=directory.certificate,
        port=one_type.ssh_port,
    )
    fleet = CloudFleet(
        one_type,
        OneInstance(inputs.driver, machine.key),
        reach,
        public_key=public_text(inputs.key),
        certificate_path=reach.certificate_path,
        clock=asyncio.get_running_loop().time,
    )
    async with HttpTransport(unix_socket=directory.socket) as transport:
        client = ApiClient(transport, secrets.dispatch_token, timeout=API_TIMEOUT)
        work = dispatch(
            client,
            fleet,
            settings(inputs.config, "cloud"),
            events=events(client, kinds=(KIND,)),
        )
        task = asyncio.create_task(_together(fleet.serve(), work), name="dispatcher of the trial")
        try:
            yield task
        finally:
            # return_exceptions: the failure was reported by RunningServer, and must not hide
            # another.
            await cancel_all(task)


async def _together(*work: Coroutine[Any, Any, None]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for coroutine in work:
            tasks.create_task(coroutine)


def _request(kind: InstanceType) -> dict[str, object]:
    return {
        "name": "lading cloud test",
        "state": "Committed",
        "priority": 500,
        "container_image": _IMAGE,
        "command": ["sh", "-ec", _SCRIPT],
        "cwd": "/out",
        "output_path": "/out",
        "mounts": {"/out": {"kind": "tmp", "capacity": 1 << 20}},
        "runtime_constraints": {"vcpus": 1, "ram": 128 << 20, "keep_cache_disk": 64 << 20},
        "scheduling_parameters": {"preemptible": kind.preemptible},
        # One attempt: the test reports the first failure.
        "container_count_max": 1,
        "use_existing": False,
        "service": True,
        "published_ports": {
            str(PORT): {"access": "private", "label": "page", "initial_path": "page"}
        },
    }
