"""Access tokens of the provider of OpenID Connect in place of tokens of this server.

A token that is not known here is shown to the provider. If the provider says whose it is, its hash
becomes a token of that user for ten minutes, so that all servers of an installation know it and
none asks again before it has ended. `Login.OpenIDConnect.AcceptAccessToken` allows it.
"""

from __future__ import annotations

import hashlib
import logging
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from lading.api.http import ApiCall
from lading.api.logins import openid_login
from lading.api.logins.provider_client import PROVIDER
from lading.api.resources import generic
from lading.api.server.identifiers import hash_secret
from lading.api.services import ApiServices
from lading.core import ids
from lading.core.errors import Forbidden, Invalid, Unauthenticated
from lading.core.ids import Infix
from lading.core.protocols import openid_connect as rules
from lading.core.quantities import format_time
from lading.core.records.access import Principal
from lading.core.records.record_types import TOKENS
from lading.core.records.schema import Record
from lading.process.telemetry import event
from lading.store import records

_logger = logging.getLogger("lading.api")
_PURPOSE: Final = b"access token of the provider "


async def accept(services: ApiServices, token: str) -> bool:
    """Whether the provider knows a token, which is one of this server from then on. Raises
    Unauthenticated for a person who may not log in here, Unavailable.
    """
    settings = services.config.Login.OpenIDConnect
    provider = services.features[PROVIDER]
    if provider is None or not rules.may_be_accepted(token, scope=settings.AcceptAccessTokenScope):
        return False
    person = await provider.find_holder(token)
    if person is None:
        return False
    nobody = ApiCall(services=services, method="", path="", headers={}, principal=None)
    try:
        server, user = await openid_login.enter(nobody, person)
    except Forbidden as error:
        raise Unauthenticated(error.message) from error
    ends = rules.accepted_until(token, services.clock.time().timestamp())
    # Another call with this token may store it at the same time.
    with suppress(Invalid):
        await _store(server, user, token, format_time(datetime.fromtimestamp(ends, UTC)))
    return True


async def _store(server: ApiCall, user: Record, token: str, ends: str) -> None:
    services = server.services
    # Of the token, so that two servers cannot store it twice.
    digest = hashlib.sha256(_PURPOSE + token.encode()).digest()
    uuid = ids.make_uuid(services.config.ClusterID, Infix.TOKEN, digest)
    async with services.database.writing() as tx:
        old = await records.get(tx, TOKENS, uuid)
        if old is not None and old["owner_uuid"] == user["uuid"]:
            changes = {"expires_at": ends}
            await generic.apply(
                tx, services, TOKENS, old, changes, user_uuid=server.caller.user_uuid
            )
            return
        if old is not None:
            # The person has another account by now.
            await generic.remove(tx, services, TOKENS, old, user_uuid=server.caller.user_uuid)
        own = Principal(user_uuid=user["uuid"], token_uuid="", token="", is_admin=user["is_admin"])
        made = replace(server, principal=own)
        given = {"uuid": uuid, "expires_at": ends}
        record = generic.new_record(made, TOKENS, given) | {"secret_hash": hash_secret(token)}
        await generic.insert(tx, made, TOKENS, record)
    event(_logger, "access token accepted", user=user["uuid"], token=uuid)
