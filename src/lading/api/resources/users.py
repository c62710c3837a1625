"""Users: oneself, those that one may see, and for admins everybody (docs/spec/api, section Users).
See also `accounts`."""

from __future__ import annotations

from typing import Final

from lading.api import authorization
from lading.api.authentication import authenticate
from lading.api.caller_serializer import present_one
from lading.api.http import Answer, Call
from lading.api.resources import generic, permission_links
from lading.api.serializer import show
from lading.core.errors import Forbidden, Invalid, Unauthenticated
from lading.core.records import access
from lading.core.records.access import PUBLIC
from lading.core.records.filters import Column, Compare, Expression, check_select
from lading.core.records.record_types import TOKENS, USERS
from lading.core.records.schema import JSON, Record, Type
from lading.store import records
from lading.store.database import Transaction

_OWN: Final = frozenset({"first_name", "last_name", "prefs"})


async def list_users(call: Call) -> Answer:
    """A page of users. Who asks for what is not seen of others finds themselves only."""
    caller = call.caller
    where: tuple[Expression, ...] = ()
    if not caller.is_admin and not _asked_for(call) <= PUBLIC | {"created_at", "modified_at"}:
        where = (Compare(Column("uuid", Type.STRING), "=", caller.user_uuid),)
    return await generic.list_records(call, USERS, where)


async def get_user(call: Call) -> Answer:
    """One user."""
    return await generic.get_record(call, USERS)


async def current_user(call: Call) -> Answer:
    """The user of the calling token."""
    call.uuid = call.caller.user_uuid
    return await generic.get_record(call, USERS)


async def system_user(call: Call) -> Answer:
    """The system user."""
    access.check_admin(call.caller, "see the system user")
    call.uuid = call.services.system_user
    return await generic.get_record(call, USERS)


async def authenticate_user(call: Call) -> Answer:
    """The token that was sent as the password, if it is one of the user who is named. Raises
    Unauthenticated.

    For clients that know no other way to log in than a name and a password; there are no passwords
    here.
    """
    services, name, secret = call.services, call.params.get("username"), call.params.get("password")
    refused = Unauthenticated(
        "Not logged in: there is no such user, or the password is not a token of that user "
        "('lading token create')"
    )
    principal = await authenticate(services, secret) if isinstance(secret, str) else None
    if (
        principal is None
        or principal.is_anonymous
        or principal.container_uuid
        or principal.supervises
    ):
        raise refused
    async with services.database.reading() as tx:
        user = await records.get(tx, USERS, principal.user_uuid)
        token = await records.get(tx, TOKENS, principal.token_uuid)
    if user is None or token is None or not name or name not in (user["username"], user["email"]):
        raise refused
    access.check_active(principal)
    parts = principal.token.split("/")
    return Answer(
        body={**show(TOKENS, token), "api_token": parts[2] if len(parts) >= 3 else principal.token}
    )


async def create_user(call: Call) -> Answer:
    """A new user, made by an admin."""
    access.check_admin(call.caller, "make users")
    async with call.services.database.writing() as tx:
        record = await make_user(tx, call, generic.check_attributes(call, USERS, None))
        return Answer(body=await present_one(tx, call.services, call.caller, USERS, record))


async def make_user(tx: Transaction, call: Call, given: Record) -> Record:
    """Store a new user, set up if active. Raises Invalid."""
    record = generic.new_record(
        call, USERS, {**_checked(given), "owner_uuid": call.services.system_user}
    )
    for name in ("username", "email"):
        if record[name] is not None and await records.matching(tx, USERS, **{name: record[name]}):
            raise Invalid(f"{name}: '{record[name]}' is taken")
    await generic.insert(tx, call, USERS, record)
    if record["is_active"]:
        await permission_links.set_up(tx, call, record["uuid"])
    return record


async def update_user(call: Call) -> Answer:
    """Change a user: admins everything, users their names and preferences."""
    select = check_select(call.params.get("select"), USERS)
    caller = call.caller
    async with call.services.database.writing() as tx:
        old = await authorization.find_readable(tx, call.services, USERS, call.uuid, caller)
        changes = generic.check_attributes(call, USERS, old)
        await authorization.check_writable(tx, USERS, old, caller)
        changed = sorted(
            name for name, value in changes.items() if value != old[name] and name != "owner_uuid"
        )
        if not caller.is_admin and not set(changed) <= _OWN:
            raise Forbidden(
                f"Forbidden: only admins may change {', '.join(set(changed) - _OWN)} of a user"
            )
        if old["uuid"] == call.services.system_user and {"is_admin", "is_active"} & set(changed):
            raise Invalid(f"{changed[0]}: the system user stays an active admin")
        new = await store_user(tx, call, old, changes)
        return Answer(body=await present_one(tx, call.services, caller, USERS, new, select))


async def store_user(tx: Transaction, call: Call, old: Record, changes: Record) -> Record:
    """Store what may be changed of a user, who is set up on becoming active."""
    changes = _checked({name: value for name, value in changes.items() if name != "owner_uuid"})
    new = await generic.apply(
        tx, call.services, USERS, old, changes, user_uuid=call.caller.user_uuid
    )
    if new["is_active"] and not old["is_active"]:
        await permission_links.set_up(tx, call, new["uuid"])
    return new


async def delete_user(call: Call) -> Answer:
    """Remove a user, whose tokens end with that; neither the system user nor the caller can go."""
    access.check_admin(call.caller, "delete users")
    if call.uuid in (call.services.system_user, call.caller.user_uuid):
        raise Invalid("uuid: neither the system user nor yourself can be deleted")
    async with call.services.database.writing() as tx:
        old = await authorization.find_readable(tx, call.services, USERS, call.uuid, call.caller)
        shown = await present_one(tx, call.services, call.caller, USERS, old)
        await generic.remove(tx, call.services, USERS, old, user_uuid=call.caller.user_uuid)
    return Answer(body=shown)


def _checked(given: Record) -> Record:
    for name in ("username", "email"):
        if name in given:
            given[name] = given[name] or None
    return given


def _asked_for(call: Call) -> set[str]:
    """The attributes that a list is filtered by, or made distinct by."""
    params = call.params
    names: set[str] = set()
    filters: JSON = params.get("filters")
    for one in filters if isinstance(filters, list) else []:
        first = one[0] if isinstance(one, list) and one else ""
        names |= {str(name) for name in (first if isinstance(first, list) else [first])}
    if isinstance(params.get("where"), dict):
        names |= set(params["where"])
    if params.get("distinct") and isinstance(params.get("select"), list):
        names |= {str(name) for name in params["select"]}
    return {name.removeprefix("users.") for name in names}


HANDLERS: Final = {
    "users.list": list_users,
    "users.get": get_user,
    "users.current": current_user,
    "users.system": system_user,
    "users.authenticate": authenticate_user,
    "users.create": create_user,
    "users.update": update_user,
    "users.delete": delete_user,
}
