"""The calls of a supervisor to the API, from the lock of its container to the end.

Two tokens are used: the supervisor's, which can change this one container, and the container's own,
which reads and writes its data on behalf of its user. Calls are repeated for `unreachable_timeout`,
as long as the run directory exists: its removal means that nothing is to continue.

`Activity` reports steps that take long before the command starts: `runtime_status.activity` of the
Locked container. Short steps are not reported, so that an ordinary container costs no further call.

Source: docs/spec/containers, section Run.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient, Keeping
from lading.client.retry import NO_RETRY, RetryPolicy
from lading.client.transport import HttpTransport, Transport
from lading.core.containers.container import TUNNEL, Container, ContainerState
from lading.core.containers.mounting.mount_steps import GitTree
from lading.core.errors import Forbidden, Invalid, LadingError, NotFound, Unauthenticated
from lading.core.quantities import format_time
from lading.process.concurrency import together
from lading.supervisor.container_trace import ContainerTrace, tracer_of
from lading.supervisor.supervisor_config import SupervisorConfig

# md5 of `{}`.
_NO_SECRETS = "99914b932bd37a50b983c5e7c90ae93b"
# Attempts of a call; its time is limited instead.
_MANY = 1_000_000
# The beginnings of the names of the collections, as crunch-run has them.
_NAMES = {"output": "output", "log": "logs"}
# Seconds, the longest pause between two attempts.
_PAUSE = 5.0
Record = dict[str, Any]
ACTIVITY_PATIENCE = 2.0
"""Seconds before the first report, and between two reports."""
# Seconds for one report; the server may be away, and the container need not wait for it.
_LONGEST = 10.0


class Lost(LadingError):
    """The container does not belong to this supervisor (any more); it must be neither run nor
    changed.
    """


class GivenBack(LadingError):
    """This machine cannot run the container now: it goes back to the queue, and no attempt of its
    requests is spent.
    """


def open_transport(assignment: SupervisorConfig) -> Transport:
    """Transport to the server that the assignment names."""
    if assignment.api_socket:
        return HttpTransport(unix_socket=assignment.api_socket)
    verify = Path(assignment.api_ca_file) if assignment.api_ca_file else not assignment.api_insecure
    return HttpTransport(assignment.api_url, verify=verify)


class SupervisorSession:
    """The API for one supervisor."""

    def __init__(
        self,
        assignment: SupervisorConfig,
        transport: Transport,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._clock = clock
        self._started = ""
        self._uuid = assignment.container_uuid
        self._dispatcher_classifies = assignment.dispatcher_classifies
        self._is_started = assignment.is_started
        self._beside_store = bool(assignment.api_socket)
        self._transport = transport
        self._retry = RetryPolicy(
            attempts=_MANY, cap=_PAUSE, give_up_after=assignment.unreachable_timeout
        )
        self._run_directory = Path(assignment.run_directory)
        self._api = ApiClient(
            transport, assignment.supervisor_token, retry=self._retry, sleep=self._pause
        )
        self.once = ApiClient(transport, assignment.supervisor_token, retry=NO_RETRY)
        """The API with the supervisor's token, without retries."""
        tracing = assignment.tracing
        self.trace = ContainerTrace(tracer_of(tracing)) if tracing.endpoint else None
        """The spans of this container; None on a site that traces nothing."""
        self._has_records = bool(assignment.records)
        self.record: Record = dict(assignment.records.get("container") or {})
        self.container = Container(uuid=self._uuid)
        self._own_token = (
            _token(assignment.records["auth"], self._uuid) if self._has_records else ""
        )
        self.token = ""
        """The container's token."""
        self.data = self.once
        """The API with the container's token."""
        self.blocks = BlockClient(transport, "")
        self.reconnected = asyncio.Event()
        """Set when the gateway has connected again, maybe to another server; the live view clears
        it.
        """

    @property
    def gateway_key(self) -> str:
        """Secret shared by the server and this container's gateway; "" when the server uses no
        gateway.
        """
        return str(self.record.get("gateway_auth_secret") or "")

    async def open(self) -> None:
        """Read the container and its token, unless the assignment has them. Raises Lost when it is
        not Locked, nor Running since its lock.
        """
        await self._open(ContainerState.RUNNING if self._is_started else ContainerState.LOCKED)

    async def join(self) -> None:
        """Like `open`, for a remote rank: the container may be Running already. Raises Lost."""
        await self._open(ContainerState.LOCKED, ContainerState.RUNNING)

    async def _open(self, *states: ContainerState) -> None:
        try:
            if not self._has_records:
                await together(self._read_record(), self._read_token())
        except (Unauthenticated, Forbidden, NotFound, Invalid) as error:
            raise Lost(f"{self._uuid}: {error.message}") from error
        self.container = Container.from_record(self.record)
        if self.container.state not in states:
            raise Lost(f"{self._uuid}: is {self.container.state}, not {' or '.join(states)}")
        self.token = self._own_token
        self.data = ApiClient(self._transport, self.token, retry=self._retry, sleep=self._pause)
        if self.trace is not None:
            traceparent = self.trace.join(self.record.get("traceparent"), self._uuid)
            for client in (self._api, self.once, self.data):
                client.traceparent = traceparent
        # A server on a local socket hashes the blocks on this machine; hashing here as well would
        # take as long as all the rest.
        self.blocks = BlockClient(
            self._transport,
            self.token,
            trusting=self._beside_store,
            # The server tells about a class that it does not have, or that has no room: a result
            # is not lost for it.
            keeping=Keeping(classes=tuple(self.container.output_storage_classes), best_effort=True),
            retry=self._retry,
            sleep=self._pause,
        )

    async def _read_record(self) -> None:
        self.record = await self._api.get("containers", self._uuid)

    async def _read_token(self) -> None:
        auth = await self._api.action("containers", self._uuid, "auth", method="GET")
        self._own_token = _token(auth, self._uuid)

    async def secrets(self) -> Mapping[str, Any]:
        """The secret mounts; requested unless the record shows that there are none."""
        if self.record.get("secret_mounts_md5") == _NO_SECRETS:
            return {}
        # The answer when a container has no secret mounts.
        try:
            answer = await self.data.action("containers", self._uuid, "secret_mounts", method="GET")
        except NotFound:
            # The container has no secrets.
            return {}
        return dict(answer.get("secret_mounts") or {})

    async def report_activity(self, activity: str) -> None:
        """Report the current step before the container is Running. Raises the errors of the
        client.
        """
        await self.once.update("containers", self._uuid, {"runtime_status": {"activity": activity}})

    async def fetch_git_tree(self, tree: GitTree, directory: Path) -> None:
        """Store a git tree or blob of the container's mounts in `directory`. Raises as
        `git_archives.fetch`.
        """
        # Few containers mount git trees.
        from lading.supervisor.inputs import git_archives

        await git_archives.fetch(self._api, self._uuid, tree, directory)

    async def report_running(self, *, clear_status: bool = False, gateway: str = "") -> str:
        """Report that the container is Running; return the reason for which the server refuses the
        gateway address, or "".

        Raises Lost when the report is refused: then nothing may run.

        A batch system that restarts a job may start a second supervisor with the same token. The
        time that each reports, to the microsecond, distinguishes them: the API accepts one, and the
        same again after a lost answer.
        """
        self._started = self._started or format_time(self._clock())
        changes: dict[str, Any] = {"state": ContainerState.RUNNING, "started_at": self._started}
        if clear_status:
            changes["runtime_status"] = {}
        if gateway:
            changes["gateway_address"] = gateway
        return await self._report(changes)

    async def report_gateway(self, gateway: str) -> str:
        """Report the address of the gateway of a container that is Running; return the reason for
        which the server refuses it, or "". Raises Lost.
        """
        return await self._report({"gateway_address": gateway})

    async def clear_status(self) -> None:
        """Take back the step that was shown. Raises Lost."""
        await self._report({"runtime_status": {}})

    async def _report(self, changes: dict[str, Any]) -> str:
        gateway = changes.get("gateway_address", "")
        try:
            try:
                answer = await self._api.update(
                    "containers", self._uuid, changes, select=("uuid", "state", "gateway_address")
                )
            except Invalid as error:
                # The server may refuse to connect to this address: the container runs without a
                # gateway.
                if not changes.pop("gateway_address", ""):
                    raise
                if changes:
                    select = ("uuid", "state")
                    await self._api.update("containers", self._uuid, changes, select=select)
                return error.message
        except (Unauthenticated, Forbidden, NotFound, Invalid) as error:
            raise Lost(f"{self._uuid}: {error.message}") from error
        # The server did not reach the address that was offered.
        is_tunnel = gateway not in ("", TUNNEL) and answer.get("gateway_address") == TUNNEL
        return "the server does not reach its address" if is_tunnel else ""

    async def give_back(self) -> None:
        """Return the container to Queued: nothing was run."""
        await self._api.update("containers", self._uuid, {"state": ContainerState.QUEUED})

    async def report_cost(self, amount: float) -> None:
        """Report the cost until now, in dollars."""
        await self._api.update("containers", self._uuid, {"cost": amount})

    async def add_status(self, entries: Mapping[str, Any]) -> None:
        """Merge `entries` into `runtime_status`, beside the entries of the container itself."""
        before = await self.read("runtime_status") or {}
        await self._api.update("containers", self._uuid, {"runtime_status": {**before, **entries}})

    async def report_end(self, changes: Mapping[str, Any]) -> None:
        """Report the final state and its attributes."""
        await self._api.update("containers", self._uuid, changes)

    async def finish(
        self, changes: Mapping[str, Any], manifests: Mapping[str, str], blocks: Iterable[bytes]
    ) -> None:
        """Report the end with small results, all of it or nothing; `manifests` of output and log
        name `blocks` unsigned.

        Not retried: on any failure the caller makes the single steps.
        """
        sent = [base64.b64encode(block).decode() for block in blocks]
        body = {"container": dict(changes), "collections": dict(manifests), "blocks": sent}
        await self.once.action("containers", self._uuid, "finish", body=body)

    async def is_wanted(self) -> bool:
        """Whether a request needs the container. When the server does not answer at once, whether
        the dispatcher learns the reason of the stop.
        """
        try:
            record = await self.once.get("containers", self._uuid, select=("uuid", "priority"))
        except LadingError:
            return self._dispatcher_classifies
        return int(record.get("priority") or 0) > 0

    async def read(self, name: str) -> Any:
        """The current value of one attribute of the container."""
        return (await self._api.get("containers", self._uuid, select=("uuid", name))).get(name)

    async def save_output(self, manifest: str) -> str:
        """Store the output as a collection; return its portable data hash."""
        return await self._create("output", manifest)

    async def save_log(self, manifest: str) -> str:
        """Store the log as a new collection, since the token may change none; return its portable
        data hash.
        """
        return await self._create("log", manifest)

    async def save_interim_log(self, manifest: str) -> None:
        """Store the present log and name it in the record."""
        pdh = await self.save_log(manifest)
        await self._api.update("containers", self._uuid, {"log": pdh})

    async def _pause(self, seconds: float) -> None:
        # Between two attempts of a call.
        await asyncio.sleep(seconds)
        if not await asyncio.to_thread(self._run_directory.exists):
            raise Lost(f"{self._uuid}: the run directory {self._run_directory} is gone")

    async def _create(self, kind: str, manifest: str) -> str:
        # Trashed from the start: the API keeps the content for the request, in collections of its
        # own.
        attributes: Record = {
            "name": f"{_NAMES[kind]} for {self._uuid}",
            "manifest_text": manifest,
            # As the collections of the request have it: lists of the user's data leave them out.
            "properties": {"type": kind, "container_uuid": self._uuid},
            "is_trashed": True,
        }
        if classes := self.container.output_storage_classes:
            attributes["storage_classes_desired"] = classes
        record = await self.data.create(
            "collections",
            attributes,
            ensure_unique_name=True,
            select=("uuid", "portable_data_hash"),
        )
        return str(record["portable_data_hash"])


def _token(auth: Record, container_uuid: str) -> str:
    return f"v2/{auth['uuid']}/{auth['api_token']}/{container_uuid}"


class Activity:
    """Reports the current steps by calling `tell` with a phrase. Errors of `tell` are ignored,
    since the report is only informative. `trace` is entered around each step; `note` gets a
    sentence with the time of each step that took longer than `patience` seconds.
    """

    def __init__(
        self,
        tell: Callable[[str], Awaitable[None]],
        trace: Callable[[str], contextlib.AbstractContextManager[object]] = contextlib.nullcontext,
        *,
        note: Callable[[str], None] | None = None,
        patience: float = ACTIVITY_PATIENCE,
    ) -> None:
        self._trace = trace
        self._note = note
        self._tell = tell
        self._patience = patience
        self._doing: dict[str, None] = {}
        self._over = asyncio.Event()
        self.reported = ""

    async def doing(self, step: str, work: Coroutine[Any, Any, None]) -> None:
        """Await `work`; meanwhile `step` is reported as the current step."""
        clock = asyncio.get_running_loop().time
        began = clock()
        self._doing[step] = None
        try:
            with self._trace(step):
                await work
        finally:
            del self._doing[step]
        if self._note is not None and (seconds := clock() - began) > self._patience:
            self._note(f"{step} took {seconds:.1f} s")

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncGenerator[None]:
        """Report the current steps inside the context. At its end a report in progress is completed
        first, so that none follows.
        """
        task = asyncio.create_task(self._run(), name="activity")
        try:
            yield
        finally:
            self._over.set()
            await task

    async def _run(self) -> None:
        while not self._over.is_set():
            # Not over within the usual time: the activity is reported.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await self._over.wait()
            # Inputs and image are prepared at the same time.
            activity = " and ".join(self._doing)
            if activity and activity != self.reported and not self._over.is_set():
                # A status is only information; the next one may succeed.
                with contextlib.suppress(LadingError, TimeoutError):
                    async with asyncio.timeout(_LONGEST):
                        self.reported = activity
                        await self._tell(activity)
