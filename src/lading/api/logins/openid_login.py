"""Login at a provider of OpenID Connect: `begin` gives the address of the provider, `finish` makes
a token of the answer.

The caller that begins a login keeps state, nonce and verifier, and compares the state of the answer
with its own: the page binds them to a browser. A person is known by issuer and subject. The first
login makes a user, who gets the e-mail address only if the provider has verified it and nobody else
has it: an account is never found by its e-mail address. Groups of the provider become memberships
in roles; links that an admin made stay.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Final

from lading.api.http import ApiCall, ApiResponse
from lading.api.logins.provider_client import PROVIDER, OpenIdClient
from lading.api.resources import generic, links
from lading.api.resources.accounts import tokens, users
from lading.api.serializer import show
from lading.core import ids
from lading.core.errors import Forbidden, Invalid, NotFound
from lading.core.ids import Infix
from lading.core.protocols import openid_connect as rules
from lading.core.protocols.openid_connect import OpenIdPerson
from lading.core.quantities import format_time
from lading.core.records.access import Principal
from lading.core.records.permissions import NAMES, GroupClass, Level
from lading.core.records.record_types import GROUPS, LINKS, TOKENS, USERS
from lading.core.records.schema import Record
from lading.process.telemetry import event
from lading.store import records
from lading.store.database import Transaction
from lading.store.permission_queries import PERMISSION

RETURN_PATH: Final = "/ui/openid_connect/done"
"""Path at which the page takes the provider's answer."""
AFTER_LOGOUT: Final = "/ui/login"
"""Path to which the provider leads after a logout there."""
_logger = logging.getLogger("lading.api")
_MADE_BY: Final = {"made_by": "openid_connect"}
# Characters of a field of the call; codes of providers have some hundred.
_LONGEST: Final = 8192
# Redirections from a merged user to the next.
_MOST_MERGES: Final = 10


async def begin(call: ApiCall) -> ApiResponse:
    """The address of the provider for a new login, and the values to keep for `finish`."""
    provider, redirect_uri = _configured(call)
    secret = {
        name: call.services.ids.entropy(32).hex() for name in ("state", "nonce", "code_verifier")
    }
    address = await provider.login_address(
        redirect_uri=redirect_uri,
        state=secret["state"],
        nonce=secret["nonce"],
        verifier=secret["code_verifier"],
    )
    return ApiResponse(
        body={"authorization_url": address, **secret}, headers={"Cache-Control": "no-store"}
    )


async def finish(call: ApiCall) -> ApiResponse:
    """A token of the person who has logged in, made a user if there is none yet. Raises
    Unauthenticated for an answer that is not right, Forbidden for a user who is not active.
    """
    provider, redirect_uri = _configured(call)
    code, nonce, verifier = (_field(call, name) for name in ("code", "nonce", "code_verifier"))
    person, id_token = await provider.find_person(
        code,
        redirect_uri=redirect_uri,
        nonce=nonce,
        verifier=verifier,
        issuer=_field(call, "iss", is_optional=True),
    )
    server, user = await enter(call, person)
    if not user["is_active"]:
        raise Forbidden(
            "Forbidden: your account is not active; ask an admin to activate "
            f"{user['username'] or user['uuid']}"
        )
    own = Principal(user_uuid=user["uuid"], token_uuid="", token="", is_admin=user["is_admin"])
    made = replace(server, principal=own)
    life = timedelta(seconds=call.services.config.Login.TokenLifetime)
    async with call.services.database.writing() as tx:
        ends = format_time(call.services.clock.time() + life)
        token, secret = await tokens.make_token(tx, made, {"expires_at": ends})
    event(_logger, "login", user=user["uuid"], token=token["uuid"])
    logout = await provider.logout_address(
        id_token, redirect_uri=call.services.config.ExternalURL.rstrip("/") + AFTER_LOGOUT
    )
    return ApiResponse(
        body={**show(TOKENS, token), "api_token": secret, "logout_url": logout},
        headers={"Cache-Control": "no-store"},
    )


async def enter(call: ApiCall, person: OpenIdPerson) -> tuple[ApiCall, Record]:
    """The user of a person, made if there is none yet, with the rights that the provider's groups
    give; beside it `call` with the rights of the server. Raises Forbidden for a person who is not
    in the group that all must be in.
    """
    rules.check_group(person, call.services.config.Login.OpenIDConnect.RequiredGroup)
    server = replace(
        call,
        principal=Principal(
            user_uuid=call.services.ids.system_user,
            token_uuid=ids.root_token(call.services.config.ClusterID),
            token="",
            is_admin=True,
        ),
    )
    try:
        return server, await _enter(server, person)
    except Invalid:
        # Two first logins of a person at the same time: the other one has made the user.
        return server, await _enter(server, person)


def _configured(call: ApiCall) -> tuple[OpenIdClient, str]:
    services = call.services
    provider = services.features[PROVIDER]
    if provider is None:
        raise NotFound("Path not found: Login.OpenIDConnect is not enabled here")
    url = services.config.ExternalURL.rstrip("/")
    if not url:
        raise Invalid("configuration: ExternalURL: is empty; a login needs an address to return to")
    return provider, url + RETURN_PATH


def _field(call: ApiCall, name: str, *, is_optional: bool = False) -> str:
    value = call.params.get(name)
    if value is None and is_optional:
        return ""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST:
        raise Invalid(f"{name}: must be a text of 1 to {_LONGEST} characters")
    return value


async def _enter(call: ApiCall, person: OpenIdPerson) -> Record:
    """The user of a person, with the rights that the provider's groups give. Raises Invalid when
    the user was made meanwhile.
    """
    settings = call.services.config.Login.OpenIDConnect
    async with call.services.database.writing() as tx:
        user = await _find(tx, person) or await _make(tx, call, person)
        if person.groups is None:
            return user
        await _follow_groups(tx, call, user, person)
        if settings.AdminGroup and user["uuid"] != call.services.ids.system_user:
            is_admin = settings.AdminGroup in person.groups
            user = await users.store_user(tx, call, user, {"is_admin": is_admin})
        return user


async def _find(tx: Transaction, person: OpenIdPerson) -> Record | None:
    found = await records.matching(tx, USERS, identity_url=person.identity)
    user = found[0] if found else None
    for _ in range(_MOST_MERGES):
        if user is None or user["redirect_to_user_uuid"] is None:
            return user
        user = await records.get(tx, USERS, user["redirect_to_user_uuid"])
    return None


async def _make(tx: Transaction, call: ApiCall, person: OpenIdPerson) -> Record:
    services = call.services
    # Of the identity, so that two servers cannot make two users of one person.
    uuid = ids.make_uuid(
        services.config.ClusterID, Infix.USER, hashlib.sha256(person.identity.encode()).digest()
    )
    if await records.get(tx, USERS, uuid) is not None:
        # An admin has given that user another identity.
        uuid = services.ids.new_uuid(Infix.USER)
    email = person.email or None
    if email is not None and await records.matching(tx, USERS, email=email):
        email = None
    taken: set[str] = set()
    while await records.matching(tx, USERS, username=(name := rules.free_username(person, taken))):
        taken.add(name)
    attributes = {
        "uuid": uuid,
        "identity_url": person.identity,
        "email": email,
        "username": name,
        "first_name": person.first_name,
        "last_name": person.last_name,
        "is_active": services.config.Users.NewUsersAreActive,
    }
    user = await users.make_user(tx, call, attributes)
    event(_logger, "user made at first login", user=uuid, username=name)
    return user


async def _follow_groups(
    tx: Transaction, call: ApiCall, user: Record, person: OpenIdPerson
) -> None:
    """Set the memberships that come from the provider to the person's groups."""
    roles = call.services.config.Login.OpenIDConnect.Groups
    wanted_roles = rules.wanted_roles(person, roles)
    mine = await records.matching(tx, LINKS, tail_uuid=user["uuid"], link_class=PERMISSION)
    by_role = {link["head_uuid"]: link for link in mine}
    for role in sorted(set(roles.values())):
        link = by_role.get(role)
        if role in wanted_roles and link is None:
            await _join(tx, call, user["uuid"], role)
        elif role not in wanted_roles and link is not None and link["properties"] == _MADE_BY:
            await generic.remove(tx, call.services, LINKS, link, user_uuid=call.caller.user_uuid)


async def _join(tx: Transaction, call: ApiCall, user: str, role: str) -> None:
    group = await records.get(tx, GROUPS, role)
    if group is None or group["group_class"] != GroupClass.ROLE:
        event(_logger, "no such role", key="Login.OpenIDConnect.Groups", role=role)
        return
    attributes = {
        "link_class": PERMISSION,
        "name": NAMES[Level.WRITE],
        "tail_uuid": user,
        "head_uuid": role,
        "properties": dict(_MADE_BY),
    }
    await links.grant(tx, call, generic.new_record(call, LINKS, attributes), Level.WRITE)
