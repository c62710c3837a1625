"""Carries out the transfers of tasks in the server process: takes stored work, fetches, delivers.

Work is stored with the task (`journal`), taken for some seconds at a time, and renewed while it
goes on, so that it survives a restart and several servers share it. The server works in the name of
the user who created the task, with a token that it makes for this user and deletes afterwards. A
cancel ends the work at the next renewal at the latest.

Source: docs/spec/transfers.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.retry import RetryPolicy
from lading.client.transport import Transport
from lading.core.containers.request_phases import RequestState
from lading.core.data import filetree
from lading.core.errors import LadingError, NotFound, RequestError
from lading.core.quantities import format_time, later
from lading.core.tes.file_roots import FileRoot
from lading.core.tes.mapping import RECIPE
from lading.core.tes.transfers import (
    ENDED,
    TaskTransfer,
    TransferPhase,
    next_transfers,
    phase_of_committed,
    phase_of_ended,
)
from lading.core.values import JsonObject
from lading.net.outside_way import OutsideNetwork
from lading.process.concurrency import cancel_all, wait_at_most
from lading.process.telemetry import event
from lading.store.background_work import WorkLoop, WorkTasks
from lading.store.transfers import StoredTransfers
from lading.tes.transfers.credential_book import CredentialBook
from lading.tes.transfers.fetching import TransferRules
from lading.tes.transfers.input_store import InputStore
from lading.tes.transfers.inputs import InputFetcher, TransferFailed
from lading.tes.transfers.outputs import OutputSender
from lading.tes.transfers.outside_http import OutsideHttp
from lading.tes.transfers.servers import Servers

_logger = logging.getLogger("lading.tes.transfers")
# Seconds between two looks for work, for which a transfer is held, and between two renewals.
_INTERVAL: Final = 1.0
_HELD: Final = 30.0
_RENEWAL: Final = 5.0
# Seconds of a token made for the user of a task; it is deleted before.
_TOKEN_LIFE: Final = 600.0
# Attempts that failed by a fault of this server, and seconds between them.
_MOST_FAULTS: Final = 20
_FAULT_PAUSE: Final = 15.0
# Ended tasks that are noted in one look.
_MOST_ENDED: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSite:
    """Settings of the installation.

    `root_token`: the token of the system user. `most`: the transfers at a time. `lifetime`: the
    seconds for which an unused fetched object is kept. `retry`: the policy of calls to the server's
    own API. `endpoint`, `region`: the address of buckets for which a user has no credential.
    """

    root_token: str
    system_user: str
    roots: tuple[FileRoot, ...] = ()
    network: OutsideNetwork = field(default_factory=OutsideNetwork)
    rules: TransferRules = field(default_factory=TransferRules)
    most: int = 6
    lifetime: float = 1209600.0
    retry: RetryPolicy = RetryPolicy()
    endpoint: str = ""
    region: str = "us-east-1"


class TransferWorker:
    """Works on the transfers of all tasks until `run` is cancelled. `transport` leads to the API
    and to the block store. Must be used within one event loop.
    """

    def __init__(
        self,
        transport: Transport,
        journal: StoredTransfers,
        site: TransferSite,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._transport = transport
        self._journal = journal
        self._site = site
        self._clock = clock
        self._root = ApiClient(transport, site.root_token, retry=site.retry)
        self._holder = os.urandom(8).hex()
        self._tasks: WorkTasks[TaskTransfer] = WorkTasks()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Look for work now: a task was created."""
        self._woken.set()

    def stop(self, uuid: str) -> None:
        """Stop the work on a task that was cancelled, if this server does it."""
        self._tasks.stop(uuid)

    async def run(self) -> None:
        """Work until cancelled."""
        loop = WorkLoop(_logger, "looking for transfers failed")
        try:
            await loop.run(self.look, self._rest, sweep=self._journal.sweep)
        finally:
            await self._tasks.close()

    async def _rest(self, pause: float) -> None:
        await wait_at_most(self._woken, max(_INTERVAL, pause))
        self._woken.clear()

    async def look(self) -> None:
        """Note the tasks that ended, and begin the work that is to be done."""
        await self.note_ends()
        users = Counter(transfer.user_uuid for transfer in self._tasks.pieces)
        if users.total() >= self._site.most:
            return
        now = self._now()
        waiting = await self._journal.waiting(now=now, most=self._site.most)
        chosen = next_transfers(waiting, users, self._site.most)
        until = self._later(_HELD)
        taken = await self._journal.take(chosen, holder=self._holder, now=now, until=until)
        for transfer in taken:
            self._tasks.start(transfer.request_uuid, transfer, self._work(transfer))

    async def settle(self) -> None:
        """Wait for the work that is being done."""
        await self._tasks.settle()

    async def note_ends(self) -> None:
        """Begin the delivery of the tasks whose requests are Final."""
        for ended_task in await self._journal.ended(most=_MOST_ENDED):
            await self._journal.move(
                ended_task.request_uuid, [TransferPhase.RUNNING], phase_of_ended(ended_task)
            )

    async def _work(self, transfer: TaskTransfer) -> None:
        """Carry out one transfer, and store how it ended."""
        uuid = transfer.request_uuid
        last_note = [transfer.note]
        try:
            work = self._carry_out(transfer, lambda note: last_note.__setitem__(0, note))
            await self._work_while_held(transfer, work, last_note)
        except TransferFailed as error:
            event(_logger, "transfer failed", request=uuid, error=error.message)
            await self._end(uuid, TransferPhase.FAILED, error.message)
        except LadingError as error:
            await self._postpone(transfer, error)
        except asyncio.CancelledError:
            # The server stops, or the task was cancelled: then it is in no phase of work any more.
            await self._journal.move(uuid, [transfer.phase], transfer.phase, note=last_note[0])
            raise
        except Exception:  # the boundary of a transfer: a fault in it must not end the others
            _logger.exception("transfer failed request=%s", uuid)
            await self._end(uuid, TransferPhase.FAILED, "internal error: see the server's log")

    async def _postpone(self, transfer: TaskTransfer, error: LadingError) -> None:
        """Try again later what failed by a fault of this server; give it up in the end."""
        uuid, failures = transfer.request_uuid, transfer.failures + 1
        event(_logger, "transfer is put off", request=uuid, failures=failures, error=error.message)
        if failures >= _MOST_FAULTS:
            await self._end(uuid, TransferPhase.FAILED, error.message)
            return
        await self._journal.move(
            uuid,
            [transfer.phase],
            transfer.phase,
            note=transfer.note,
            failures=failures,
            held_until=self._later(_FAULT_PAUSE),
        )

    async def _work_while_held(
        self, transfer: TaskTransfer, work: Awaitable[None], last_note: list[str]
    ) -> None:
        """Do the work while the transfer is held and its task wanted."""
        doing = asyncio.ensure_future(work)
        try:
            while not doing.done():
                await asyncio.wait((doing,), timeout=_RENEWAL)
                if not doing.done() and not await self._is_wanted(transfer, last_note[0]):
                    event(_logger, "transfer is stopped", request=transfer.request_uuid)
                    return
            await doing
        finally:
            await cancel_all(doing)

    async def _is_wanted(self, transfer: TaskTransfer, note: str) -> bool:
        """Renew the hold; whether the work is to go on."""
        uuid = transfer.request_uuid
        is_held = await self._journal.renew(
            uuid, holder=self._holder, until=self._later(_HELD), note=note
        )
        if not is_held or transfer.phase is not TransferPhase.FETCHING:
            return is_held
        # It may have been cancelled or deleted as a request.
        try:
            row = await self._root.get("container_requests", uuid, select=["uuid", "priority"])
        except NotFound:
            row = {"priority": 0}
        if row["priority"]:
            return True
        await self._end(uuid, TransferPhase.CANCELLED, "cancelled")
        return False

    async def _carry_out(self, transfer: TaskTransfer, note: Callable[[str], None]) -> None:
        if transfer.phase is TransferPhase.FETCHING:
            await self._fetch(transfer, note)
        else:
            await self._deliver(transfer, note)

    async def _fetch(self, transfer: TaskTransfer, note: Callable[[str], None]) -> None:
        """Fetch the inputs of a task and commit its request."""
        async with self._servers(transfer.user_uuid) as servers:
            fetcher = InputFetcher(
                servers=servers,
                store=InputStore(
                    api=self._root,
                    system_user=self._site.system_user,
                    lifetime=self._site.lifetime,
                    clock=self._clock,
                ),
                blocks=BlockClient(self._transport, self._site.root_token, trusting=True),
                rules=self._site.rules,
                user=transfer.user_uuid,
            )
            mounts = await fetcher.fetch_all(transfer, note)
        note("inputs are there; the task is put in the queue")
        await self._commit(transfer, mounts)
        phase = phase_of_committed(transfer.task) or TransferPhase.DONE
        await self._journal.move(transfer.request_uuid, [TransferPhase.FETCHING], phase)

    async def _deliver(self, transfer: TaskTransfer, note: Callable[[str], None]) -> None:
        """Deliver the outputs of a task that has ended."""
        uuid = transfer.request_uuid
        row = await self._root.get("container_requests", uuid, select=["uuid", "output_uuid"])
        try:
            found = await self._root.get(
                "collections", row["output_uuid"], select=["manifest_text"]
            )
        except NotFound:
            raise TransferFailed("the output collection was deleted before its delivery") from None
        tree = await asyncio.to_thread(filetree.from_manifest, found["manifest_text"])
        async with self._servers(transfer.user_uuid) as servers:
            sender = OutputSender(
                servers=servers,
                blocks=BlockClient(self._transport, self._site.root_token, trusting=True),
                rules=self._site.rules,
                journal=self._journal,
            )
            await sender.deliver_all(transfer, tree, note)
        await self._journal.move(uuid, [TransferPhase.DELIVERING], TransferPhase.DONE)

    async def _commit(self, transfer: TaskTransfer, fetched: JsonObject) -> None:
        """Commit a request as the user who created it, with what was created then."""
        given = transfer.request
        mounts = given["mounts"]
        attributes: JsonObject = {name: given[name] for name in RECIPE if name in given}
        attributes["mounts"] = {**(mounts if isinstance(mounts, dict) else {}), **fetched}
        attributes["state"] = RequestState.COMMITTED
        uuid = transfer.request_uuid
        try:
            row = await self._root.get("container_requests", uuid, select=["uuid", "state"])
        except NotFound:
            raise TransferFailed("the task was deleted") from None
        if row["state"] == RequestState.UNCOMMITTED:
            async with self._acting(transfer.user_uuid) as api:
                try:
                    row = await api.update(
                        "container_requests", uuid, attributes, select=["uuid", "priority"]
                    )
                except RequestError as error:
                    raise TransferFailed(error.message) from error
            if not row["priority"]:
                # It was cancelled in the meantime.
                await self._root.action("container_requests", uuid, "cancel")

    @asynccontextmanager
    async def _servers(self, user: str) -> AsyncGenerator[Servers]:
        """The servers that a user reaches."""
        found = await self._root.get("users", user, select=["uuid", "username", "email"])
        names = {str(found[name]) for name in ("uuid", "username", "email") if found[name]}
        async with OutsideHttp(self._site.network) as http:
            acting = functools.partial(self._acting, user)
            yield Servers(
                http=http,
                roots=self._site.roots,
                names=names,
                credentials=CredentialBook(self._root, acting, user=user, clock=self._clock),
                rules=self._site.rules,
                clock=self._clock,
                endpoint=self._site.endpoint,
                region=self._site.region,
            )

    @asynccontextmanager
    async def _acting(self, user: str) -> AsyncGenerator[ApiClient]:
        """The API in the name of a user, by a token that is deleted at the end."""
        token = await self._root.create(
            "api_client_authorizations",
            {"owner_uuid": user, "expires_at": self._later(_TOKEN_LIFE)},
        )
        try:
            yield ApiClient(self._transport, f"v2/{token['uuid']}/{token['api_token']}")
        finally:
            with contextlib.suppress(LadingError):
                await self._root.delete("api_client_authorizations", token["uuid"])

    async def _end(self, uuid: str, phase: TransferPhase, note: str) -> None:
        await self._journal.move(
            uuid,
            [before for before in TransferPhase if before not in ENDED],
            phase,
            note=note,
        )

    def _now(self) -> str:
        return format_time(self._clock())

    def _later(self, seconds: float) -> str:
        return later(self._now(), seconds)
