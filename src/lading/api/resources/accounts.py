"""Users being set up, let in and shut out (docs/spec/api, sections Users and Permissions).

Set up, a user is a member of the role of all users, with can_write, and is seen by the others if
the configuration says so. That happens when an active user is made, when a user becomes active, and
by `setup`. `unsetup` takes back all permissions and tokens. How users are merged stands in
`user_merge`.
"""

from __future__ import annotations

from typing import Final

from lading.api import authorization
from lading.api.caller_serializer import present, present_one
from lading.api.http import Answer, Call
from lading.api.resources import generic, permission_links
from lading.api.resources.users import make_user, store_user
from lading.api.serializer import show
from lading.core import ids
from lading.core.errors import Forbidden, Invalid, Malformed
from lading.core.records import access
from lading.core.records.filters import check_select
from lading.core.records.permissions import is_user
from lading.core.records.record_types import LINKS, TOKENS, USERS
from lading.core.records.schema import JSON, Record
from lading.store import permission_queries, records
from lading.store.database import Transaction
from lading.store.graph import PERMISSION


async def setup_user(call: Call) -> Answer:
    """Give a user, named by `uuid` or described by `user` and made if need be, what users have."""
    access.check_admin(call.caller, "set up users")
    uuid = call.params.get("uuid")
    async with call.services.database.writing() as tx:
        if uuid is not None:
            user = await authorization.find_readable(
                tx, call.services, USERS, str(uuid), call.caller
            )
        else:
            user = await _described(tx, call)
        await permission_links.set_up(tx, call, user["uuid"])
        links = await _given_to(tx, user["uuid"])
        shown = await present_one(tx, call.services, call.caller, USERS, user)
    return Answer(
        body={"kind": "arvados#HashList", "items": [shown, *(show(LINKS, one) for one in links)]}
    )


async def unsetup_user(call: Call) -> Answer:
    """Take a user's permissions and tokens away; the user is inactive then."""
    access.check_admin(call.caller, "shut users out")
    services, caller = call.services, call.caller
    select = check_select(call.params.get("select"), USERS)
    async with services.database.writing() as tx:
        user = await authorization.find_readable(tx, services, USERS, call.uuid, caller)
        if user["uuid"] in (services.system_user, caller.user_uuid):
            raise Invalid("uuid: neither the system user nor yourself can be shut out")
        for kind, links in (
            (LINKS, await _given_to(tx, user["uuid"])),
            (TOKENS, await _tokens(tx, user["uuid"])),
        ):
            for one in links:
                await generic.remove(tx, services, kind, one, user_uuid=caller.user_uuid)
        gone = {"is_active": False, "is_admin": False, "prefs": {}}
        user = await generic.apply(tx, services, USERS, user, gone, user_uuid=caller.user_uuid)
        return Answer(body=await present_one(tx, services, caller, USERS, user, select))


async def activate_user(call: Call) -> Answer:
    """Make a user active: an admin anybody, users themselves once they were set up."""
    services, caller = call.services, call.caller
    select = check_select(call.params.get("select"), USERS)
    async with services.database.writing() as tx:
        user = await authorization.find_readable(tx, services, USERS, call.uuid, caller)
        if not caller.is_admin:
            everybody = ids.all_users(services.config.ClusterID)
            if user["uuid"] != caller.user_uuid or not await permission_queries.members_of(
                tx, everybody, [user["uuid"]]
            ):
                raise Forbidden(
                    "Forbidden: is_active: you were not invited; ask an admin to set you up"
                )
        user = await store_user(tx, call, user, {"is_active": True})
        return Answer(body=await present_one(tx, services, caller, USERS, user, select))


async def update_users(call: Call) -> Answer:
    """Change many users, or make those that are missing: `updates` is {uuid: attributes}."""
    access.check_admin(call.caller, "change users")
    updates = call.params.get("updates")
    if not isinstance(updates, dict) or not all(isinstance(one, dict) for one in updates.values()):
        raise Malformed("updates: must be an object of uuids and attributes")
    async with call.services.database.writing() as tx:
        users = [await _updated(tx, call, uuid, given) for uuid, given in updates.items()]
        items = await present(tx, call.services, call.caller, USERS, users, None)
    return Answer(
        body={
            "kind": "arvados#userList",
            "items": items,
            "items_available": len(items),
            "included": [],
        }
    )


async def _updated(tx: Transaction, call: Call, uuid: str, given: Record) -> Record:
    if not ids.is_uuid(uuid) or not is_user(uuid):
        raise Invalid(f"updates: {uuid[:60]!r} is not the uuid of a user")
    old = await records.get(tx, USERS, uuid)
    if old is None:
        return await make_user(
            tx, call, generic.check_attributes(call, USERS, None, {**given, "uuid": uuid})
        )
    return await store_user(tx, call, old, generic.check_attributes(call, USERS, old, given))


async def _described(tx: Transaction, call: Call) -> Record:
    given = generic.check_attributes(call, USERS, None, _description(call.params.get("user")))
    email = given.get("email")
    if not email:
        raise Invalid("user: give a uuid, or a user with an email")
    found = await records.matching(tx, USERS, email=email)
    return found[0] if found else await make_user(tx, call, given)


def _description(given: JSON) -> Record:
    if given is not None and not isinstance(given, dict):
        raise Malformed("user: must be an object of attributes")
    return given or {}


async def _given_to(tx: Transaction, uuid: str) -> list[Record]:
    return await records.matching(tx, LINKS, tail_uuid=uuid, link_class=PERMISSION)


async def _tokens(tx: Transaction, uuid: str) -> list[Record]:
    return await records.matching(tx, TOKENS, owner_uuid=uuid)


HANDLERS: Final = {
    "users.setup": setup_user,
    "users.unsetup": unsetup_user,
    "users.activate": activate_user,
    "users.batch_update": update_users,
}
