"""Users: the caller, and for admins everybody (api-contract 5.1)."""

from __future__ import annotations

from typing import Final

from lading.api import generic
from lading.api.exchange import Answer, Call
from lading.api.shape import show
from lading.core import access
from lading.core.errors import Forbidden, Invalid
from lading.core.filters import check_select
from lading.core.records import USERS
from lading.core.schema import Record
from lading.store import records

_OWN: Final = frozenset({"first_name", "last_name", "prefs"})


async def list_users(call: Call) -> Answer:
    """A page of users."""
    return await generic.list_records(call, USERS)


async def get_user(call: Call) -> Answer:
    """One user."""
    return await generic.get_record(call, USERS)


async def current_user(call: Call) -> Answer:
    """The user of the calling token."""
    select = check_select(call.params.get("select"), USERS)
    async with call.services.database.reading() as tx:
        record = await generic.find_readable(tx, call.services, USERS, call.caller.user_uuid, call.caller)
    return Answer(body=show(USERS, record, select))


async def system_user(call: Call) -> Answer:
    """The system user."""
    access.check_admin(call.caller, "see the system user")
    call.uuid = call.services.system_user
    return await generic.get_record(call, USERS)


async def create_user(call: Call) -> Answer:
    """A new user, made by an admin."""
    access.check_admin(call.caller, "make users")
    given = _checked(generic.check_attributes(call, USERS, None))
    record = generic.new_record(call, USERS, {**given, "owner_uuid": call.services.system_user})
    async with call.services.database.writing() as tx:
        for name in ("username", "email"):
            if record[name] is not None and await records.matching(tx, USERS, **{name: record[name]}):
                raise Invalid(f"{name}: '{record[name]}' is taken")
        await generic.insert(tx, call, USERS, record)
    return Answer(body=show(USERS, record))


async def update_user(call: Call) -> Answer:
    """Change a user: admins everything, users their names and preferences."""
    select = check_select(call.params.get("select"), USERS)
    async with call.services.database.writing() as tx:
        old = await generic.find_readable(tx, call.services, USERS, call.uuid, call.caller)
        changes = _checked(generic.check_attributes(call, USERS, old))
        changes.pop("owner_uuid", None)
        changed = sorted(name for name, value in changes.items() if value != old[name])
        if not call.caller.is_admin and not set(changed) <= _OWN:
            raise Forbidden(f"Forbidden: only admins may change {', '.join(set(changed) - _OWN)} of a user")
        if old["uuid"] == call.services.system_user and {"is_admin", "is_active"} & set(changed):
            raise Invalid(f"{changed[0]}: the system user stays an active admin")
        new = await generic.apply(tx, call.services, USERS, old, changes, user_uuid=call.caller.user_uuid)
    return Answer(body=show(USERS, new, select))


async def delete_user(call: Call) -> Answer:
    """Remove a user, whose tokens end with that; neither the system user nor the caller can go."""
    access.check_admin(call.caller, "delete users")
    if call.uuid in (call.services.system_user, call.caller.user_uuid):
        raise Invalid("uuid: neither the system user nor yourself can be deleted")
    return await generic.delete_record(call, USERS)


def _checked(given: Record) -> Record:
    for name in ("username", "email"):
        if name in given:
            given[name] = given[name] or None
    return given


HANDLERS: Final = {
    "users.list": list_users,
    "users.get": get_user,
    "users.current": current_user,
    "users.system": system_user,
    "users.create": create_user,
    "users.update": update_user,
    "users.delete": delete_user,
}
