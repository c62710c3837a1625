"""Who has cancelled a request, from its trail.

Source: docs/spec/api, section Cancelling many requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lading.api import authorization
from lading.api.http import ApiCall
from lading.core.containers.request import ContainerRequest
from lading.core.containers.request_phases import RequestState
from lading.core.quantities import told_time
from lading.core.records.expressions import Query, SortKey
from lading.core.records.log_rows import LogRowType
from lading.core.records.record_types import LOGS, USERS
from lading.core.records.schema import Record
from lading.store import records
from lading.store.cancellations import Cancellation
from lading.store.database import Transaction

# The latest changes of a request among which its cancellation is sought.
_MOST_CHANGES: Final = 20


@dataclass(frozen=True, slots=True)
class Canceller:
    """The user who cancelled a request, with the name that the reader may see, and the time."""

    user_uuid: str
    name: str
    at: str

    @property
    def sentence(self) -> str:
        """The outcome of the request, in one sentence."""
        return f"{self.name} cancelled it at {told_time(self.at)}."

    def shown(self) -> Record:
        """As an answer shows it."""
        return {"user_uuid": self.user_uuid, "name": self.name, "at": self.at}


async def canceller_of(
    tx: Transaction, call: ApiCall, subject: ContainerRequest, pending: Cancellation | None
) -> Canceller | None:
    """The user whose call set the priority of a request to 0, or who asked for the cancellation
    `pending` that has yet to reach it; None if there is none, as for a container's children.
    """
    if pending is not None:
        return await _named(tx, call, pending.user_uuid, pending.created_at)
    if subject.priority or subject.state is RequestState.UNCOMMITTED:
        return None
    query = Query(
        where=(
            records.equals(LOGS, "object_uuid", subject.uuid),
            records.equals(LOGS, "event_type", LogRowType.UPDATE),
        ),
        order=(SortKey("id", descending=True),),
        select=("id", "event_at", "modified_by_user_uuid", "properties"),
        limit=_MOST_CHANGES,
    )
    for row in await records.search(tx, tx.dialect, LOGS, query):
        before = row["properties"].get("old_attributes") or {}
        after = row["properties"].get("new_attributes") or {}
        if after.get("priority") == 0 and before.get("priority"):
            return await _named(tx, call, row["modified_by_user_uuid"], row["event_at"])
    return None


async def _named(tx: Transaction, call: ApiCall, user_uuid: str, at: str) -> Canceller | None:
    """A user who cancelled at a time, by name where the caller may read the user; None for the
    system.
    """
    services, caller = call.services, call.caller
    if user_uuid == services.ids.system_user:
        return None
    user = await records.get(tx, USERS, user_uuid)
    is_seen = user is not None and await authorization.can_read(
        tx, services.clock, services.config, USERS, user, caller
    )
    name = str(user["username"] or user_uuid) if user is not None and is_seen else user_uuid
    return Canceller(user_uuid, name, at)
