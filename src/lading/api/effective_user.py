"""For whom a request acts: the holder of its runtime token, or else whoever commits it.

Source: docs/spec/api, section Resolving and reuse.
"""

from __future__ import annotations

from lading.api.authentication import authenticate
from lading.api.services import Services
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Invalid, Unauthenticated
from lading.core.records.access import Principal
from lading.core.records.record_types import USERS
from lading.core.records.schema import Record
from lading.store import records
from lading.store.database import Transaction


async def acting_for(
    services: Services, subject: ContainerRequest, principal: Principal
) -> Principal:
    """The principal whose rights count for inputs and image. Raises Invalid when the runtime token
    is not valid.
    """
    if subject.runtime_token is None:
        return principal
    try:
        found = await authenticate(services, subject.runtime_token)
    except Unauthenticated:
        found = None
    if found is None:
        raise Invalid("Runtime token failed validation")
    return found


async def committer(tx: Transaction, services: Services, row: Record) -> Principal:
    """Whoever committed a stored request, as far as there is such a user still; nobody active
    else.
    """
    user = await records.get(tx, USERS, row["committed_by_uuid"] or row["owner_uuid"])
    return Principal(
        user_uuid=user["uuid"] if user else services.system_user,
        token_uuid="",
        token="",
        is_admin=bool(user and user["is_admin"]),
        is_active=bool(user and user["is_active"]),
    )
