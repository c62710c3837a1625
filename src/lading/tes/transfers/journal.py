"""The seam to stored transfers: work that outlives the server, and what it delivered."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from lading.core.tes.transfers import (
    DeliveredFile,
    EndedTask,
    TaskTransfer,
    TransferPhase,
    WaitingTransfer,
)


class IdempotencyKeys(Protocol):
    """Keys with which tasks were created, shared by all servers."""

    async def claim_key(self, digest: str, *, now: str, since: str, stale: str) -> str | None:
        """Claim a key: None if the caller is to create the task; else the uuid of the task, ""
        while another server creates it.
        """

    async def settle_key(self, digest: str, uuid: str) -> None:
        """Store the task of a key; "" frees the key."""


class TransferReader(IdempotencyKeys, Protocol):
    """Calls on the journal that the operations on tasks need."""

    async def add(self, transfer: TaskTransfer) -> None:
        """Store a new transfer; nothing changes if there is one of the request."""

    async def read(self, uuids: Collection[str]) -> dict[str, TaskTransfer]:
        """The transfers of requests, without their documents."""

    async def in_phase(self, phase: TransferPhase, *, most: int) -> list[TaskTransfer]:
        """The first transfers in a phase."""

    async def ended(self, *, most: int) -> list[EndedTask]:
        """The first tasks in the phase RUNNING whose requests are Final or were deleted."""

    async def move(
        self,
        uuid: str,
        old: Sequence[TransferPhase],
        new: TransferPhase,
        *,
        note: str = "",
        failures: int = 0,
        held_until: str = "",
    ) -> bool:
        """Bring a transfer to another phase; False if it is in none of the phases `old`."""

    async def deliveries(self, uuid: str) -> list[DeliveredFile]:
        """The files of a request that were delivered."""


class TransferJournal(TransferReader, Protocol):
    """Further calls on the journal, for the worker."""

    async def waiting(self, *, now: str, most: int) -> list[WaitingTransfer]:
        """Transfers that nobody holds, the longest waiting first, of each user at most `most`."""

    async def take(
        self, uuids: Sequence[str], *, holder: str, now: str, until: str
    ) -> list[TaskTransfer]:
        """Take those of the transfers that nobody holds, which the holder has until a time."""

    async def renew(self, uuid: str, *, holder: str, until: str, note: str) -> bool:
        """Hold a transfer until a later time; False if it was ended or taken by another."""

    async def sweep(self) -> int:
        """Delete what is stored of requests that were deleted; the number of transfers."""

    async def note_delivery(self, uuid: str, file: DeliveredFile) -> None:
        """Store that a file was delivered."""
