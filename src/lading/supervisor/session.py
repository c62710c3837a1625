"""What a supervisor says to the API: the few calls between Locked and the end (api-contract 2.5).

Two tokens: the supervisor's, which can touch this one container, and the container's own, with which its data is read
and written on behalf of the user who wants it. Calls are repeated for as long as `unreachable_timeout` allows, and the
run directory is there: who removes the whole data directory wants nothing of it to go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.retry import NO_RETRY, RetryPolicy
from lading.client.transport import HttpTransport, Transport
from lading.core.container import Container, State
from lading.core.errors import Forbidden, Invalid, LadingError, NotFound, Unauthenticated
from lading.supervisor.assignment import Assignment

_NO_SECRETS = "99914b932bd37a50b983c5e7c90ae93b"
"""md5 of `{}` (api-contract 1.6)."""
_MANY = 1_000_000
_PAUSE = 5.0
Record = dict[str, Any]


class Lost(LadingError):
    """The container is not this supervisor's (any more); it must neither run nor be written to."""


def open_transport(assignment: Assignment) -> Transport:
    """The way to the server that the assignment names."""
    if assignment.api_socket:
        return HttpTransport(unix_socket=assignment.api_socket)
    verify = Path(assignment.api_ca_file) if assignment.api_ca_file else not assignment.api_insecure
    return HttpTransport(assignment.api_url, verify=verify)


class Session:
    """The API as one supervisor uses it."""

    def __init__(self, assignment: Assignment, transport: Transport) -> None:
        self._uuid = assignment.container_uuid
        self._transport = transport
        self._retry = RetryPolicy(attempts=_MANY, cap=_PAUSE, give_up_after=assignment.unreachable_timeout)
        self._run_directory = Path(assignment.run_directory)
        self._api = ApiClient(transport, assignment.supervisor_token, retry=self._retry, sleep=self._pause)
        self._log_uuid = ""
        self.once = ApiClient(transport, assignment.supervisor_token, retry=NO_RETRY)
        """The supervisor's token, nothing repeated."""
        self.record: Record = {}
        self.container = Container(uuid=self._uuid)
        self.token = ""
        """The container's token."""
        self.data = self.once
        """The API with the container's token."""
        self.blocks = BlockClient(transport, "")

    async def open(self) -> None:
        """Read the container and its token. Raises Lost unless it is Locked for us."""
        try:
            self.record, auth = await asyncio.gather(
                self._api.get("containers", self._uuid),
                self._api.action("containers", self._uuid, "auth", method="GET"),
            )
        except (Unauthenticated, Forbidden, NotFound, Invalid) as error:
            raise Lost(f"{self._uuid}: {error.message}") from error
        self.container = Container.from_record(self.record)
        if self.container.state is not State.LOCKED:
            raise Lost(f"{self._uuid}: is {self.container.state}, not Locked")
        self.token = f"v2/{auth['uuid']}/{auth['api_token']}/{self._uuid}"
        self.data = ApiClient(self._transport, self.token, retry=self._retry, sleep=self._pause)
        self.blocks = BlockClient(self._transport, self.token, retry=self._retry, sleep=self._pause)

    async def secrets(self) -> Mapping[str, Any]:
        """The secret mounts; asked for unless the record says that there are none."""
        if self.record.get("secret_mounts_md5") == _NO_SECRETS:
            return {}
        try:
            answer = await self.data.action("containers", self._uuid, "secret_mounts", method="GET")
        except NotFound:
            return {}
        return dict(answer.get("secret_mounts") or {})

    async def report_running(self) -> None:
        """The container is Running from now on. Raises Lost when that is refused: then nothing may run."""
        try:
            await self._api.update("containers", self._uuid, {"state": State.RUNNING})
        except (Unauthenticated, Forbidden, NotFound, Invalid) as error:
            raise Lost(f"{self._uuid}: {error.message}") from error

    async def give_back(self) -> None:
        """Back to Queued: nothing was run."""
        await self._api.update("containers", self._uuid, {"state": State.QUEUED})

    async def report_end(self, changes: Mapping[str, Any]) -> None:
        """The final state and what belongs to it."""
        await self._api.update("containers", self._uuid, changes)

    async def read(self, name: str) -> Any:
        """One attribute of the container as it is now."""
        return (await self._api.get("containers", self._uuid, select=("uuid", name))).get(name)

    async def save_output(self, manifest: str) -> str:
        """Store the output as a collection; its portable data hash."""
        return await self._create("output", manifest)

    async def save_log(self, manifest: str) -> str:
        """Store the log as a collection, in place of an earlier state of it; its portable data hash."""
        if self._log_uuid:
            record = await self.data.update("collections", self._log_uuid, {"manifest_text": manifest})
            return str(record["portable_data_hash"])
        return await self._create("logs", manifest)

    async def save_interim_log(self, manifest: str) -> None:
        """Store the log as it is and show it in the record."""
        pdh = await self.save_log(manifest)
        await self._api.update("containers", self._uuid, {"log": pdh})

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if not await asyncio.to_thread(self._run_directory.exists):
            raise Lost(f"{self._uuid}: the run directory {self._run_directory} is gone")

    async def _create(self, kind: str, manifest: str) -> str:
        attributes = {"name": f"{kind} for {self._uuid}", "manifest_text": manifest, "is_trashed": True}
        record = await self.data.create("collections", attributes, ensure_unique_name=True)
        if kind == "logs":
            self._log_uuid = str(record["uuid"])
        return str(record["portable_data_hash"])
