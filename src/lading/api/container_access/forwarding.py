"""Forwarding of calls to the server that has the tunnel of the container
(`core.protocols.forwarding_claims`).

The caller's token stays on this server. The call carries a signed claim that names the caller; the
other server looks the user up, and checks again whether the user may make the call.
"""

from __future__ import annotations

from collections.abc import Mapping

from lading.api.authentication import nobody
from lading.api.services import ApiServices
from lading.core import ids
from lading.core.errors import Unauthenticated
from lading.core.protocols import forwarding_claims
from lading.core.protocols.forwarding_claims import HEADER, LIFE, ForwardingClaim, Purpose
from lading.core.records.access import Principal, check_active
from lading.core.records.record_types import USERS
from lading.store import records


def make_claim(
    services: ApiServices,
    url: str,
    principal: Principal | None,
    container_uuid: str,
    purpose: Purpose,
    *,
    address: str,
) -> dict[str, str]:
    """The header of a call that is forwarded to the server at `url`; `address` is that of the
    caller.
    """
    claim = ForwardingClaim(
        user_uuid=principal.user_uuid if principal else "",
        container_uuid=container_uuid,
        purpose=purpose,
        audience=url,
        expires=int(services.clock().timestamp()) + LIFE,
        address=address,
    )
    return {HEADER: forwarding_claims.sign(services.forward_key, claim)}


def read_claim(
    services: ApiServices, headers: Mapping[str, str], purpose: Purpose
) -> ForwardingClaim | None:
    """The claim of a call, None when the call was not forwarded. Raises Unauthenticated."""
    if HEADER not in headers:
        return None
    return forwarding_claims.verify(
        services.forward_key,
        headers[HEADER],
        purpose=purpose,
        audience=services.config.ExternalURL,
        now=services.clock().timestamp(),
    )


async def claimed(services: ApiServices, claim: ForwardingClaim) -> Principal | None:
    """The present principal of a claim; None for a claim without a caller.

    Raises Unauthenticated when the user was deleted, Forbidden when the user is inactive.
    """
    if not claim.user_uuid:
        return None
    if claim.user_uuid == ids.anonymous_user(services.config.ClusterID):
        return nobody(services)
    async with services.database.reading() as tx:
        user = await records.get(tx, USERS, claim.user_uuid)
    if user is None:
        raise Unauthenticated
    principal = Principal(
        user_uuid=claim.user_uuid,
        token_uuid="",
        token="",
        is_admin=bool(user["is_admin"]),
        is_active=bool(user["is_active"]),
    )
    check_active(principal)
    return principal
