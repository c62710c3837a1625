"""Pages of admins: health of the parts, volumes and what maintenance found; users, with what they
may do.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import Response

from lading.client import sharing
from lading.client.api import Record
from lading.core import ids
from lading.core.errors import Forbidden, Invalid, NotFound
from lading.core.ids import Infix, is_uuid
from lading.core.quantities import format_time
from lading.web.keyset import has_part, key_of, page_after
from lading.web.visit import Visit

PLACE: Final = "/ui/admin"
USERS: Final = "/ui/admin/users"
_PAGE: Final = 50
_FIELDS: Final = (
    "uuid", "username", "email", "full_name", "is_active", "is_admin", "identity_url", "created_at",
)  # fmt: skip
_CHANGES: Final[dict[str, Record]] = {
    "activate": {"is_active": True},
    "deactivate": {"is_active": False},
    "make-admin": {"is_admin": True},
    "unmake-admin": {"is_admin": False},
}
_MEMBER: Final = "can_write"


async def show(visit: Visit) -> Response:
    """Health and storage."""
    await _need_admin(visit)
    health: Record = await visit.api.request("GET", "health")
    storage = health["storage"] or {"volumes": []}
    return visit.page(
        "admin.html",
        health=health,
        volumes=storage["volumes"],
        scrub=_work(storage.get("scrub"), "began"),
        balance=_work(storage.get("balance"), "at"),
    )


async def list_users(visit: Visit) -> Response:
    """Users, the newest first; `q` is a part of the name, `state` is `inactive` or `admin`."""
    await _need_admin(visit)
    name, state = visit.query("q").strip(), visit.query("state")
    filters: list[Any] = {
        "inactive": [["is_active", "=", False]],
        "admin": [["is_admin", "=", True]],
    }.get(state, [])
    field = "email" if "@" in name else "username"
    users = await page_after(
        visit.api,
        "users",
        filters=[*filters, *([has_part(field, name)] if name else [])],
        select=_FIELDS,
        after=visit.query("after"),
        most=_PAGE + 1,
    )
    rows = users[:_PAGE]
    older = f"{USERS}?state={quote(state)}&q={quote(name)}&after={key_of(rows[-1])}" if rows else ""
    return visit.page(
        "users.html",
        rows=rows,
        wanted=name,
        state=state,
        older=older if len(users) > _PAGE else "",
    )


async def show_user(visit: Visit) -> Response:
    """One user, with the roles that the user is a member of."""
    uuid = _user_uuid(visit)
    try:
        await _need_admin(visit)
    except Forbidden:
        # Nothing tells a stranger whether there is such a user.
        raise NotFound("There is no such user") from None
    user = await visit.api.get("users", uuid, select=_FIELDS)
    links = await visit.api.list(
        "links",
        filters=[
            ["link_class", "=", "permission"],
            ["tail_uuid", "=", uuid],
            ["head_uuid", "like", f"%-{Infix.GROUP}-%"],
        ],
        limit=1000,
    )
    heads = sorted({link["head_uuid"] for link in links})
    roles = await visit.api.list(
        "groups",
        filters=[["uuid", "in", heads], ["group_class", "=", "role"]],
        select=("uuid", "name"),
        limit=1000,
    )
    return visit.page(
        "user.html",
        person=user,
        title=user["username"] or uuid,
        roles=sorted(roles, key=lambda role: str(role["name"])),
        fixed=_why_fixed(visit, uuid),
    )


async def change_user(visit: Visit) -> Response:
    """Activate or deactivate a user, give or take the rights of an admin."""
    uuid, change = _user_uuid(visit), visit.field("change")
    if change not in _CHANGES:
        raise Invalid(f"change: must be one of {', '.join(_CHANGES)}")
    fixed = _why_fixed(visit, uuid)
    if fixed:
        raise Invalid(f"change: {fixed}")
    await visit.api.update("users", uuid, _CHANGES[change])
    return visit.redirect(f"{USERS}/{uuid}")


async def join_role(visit: Visit) -> Response:
    """Make a user a member of a role."""
    uuid, role = _user_uuid(visit), visit.field("role").strip()
    if not role:
        raise Invalid("role: name a role")
    head = await sharing.find_party(visit.api, role, uuid[:5])
    if not is_uuid(head, Infix.GROUP):
        raise Invalid(f"role: {role!r} is no role")
    await sharing.set_level(visit.api, head, uuid, _MEMBER)
    return visit.redirect(f"{USERS}/{uuid}")


async def leave_role(visit: Visit) -> Response:
    """End the membership of a user in a role."""
    uuid, role = _user_uuid(visit), visit.field("role")
    links = await sharing.links_of(visit.api, role, uuid)
    if not links:
        raise NotFound("The user is no member of this role")
    for link in links:
        await visit.api.delete("links", link["uuid"])
    return visit.redirect(f"{USERS}/{uuid}")


async def create_user(visit: Visit) -> Response:
    """Make a user."""
    name = visit.field("username").strip()
    if not name:
        raise Invalid("username: is empty; give one")
    given = {"username": name, "email": visit.field("email").strip() or None}
    made = await visit.api.create("users", given)
    return visit.redirect(f"{USERS}/{made['uuid']}")


async def _need_admin(visit: Visit) -> None:
    """Check that the reader is an admin: others would see their own record alone, and think that it
    is all. Raises Forbidden.
    """
    reader = await visit.api.get("users", "current")
    if not reader["is_admin"]:
        raise Forbidden("This page is for admins.")


def _why_fixed(visit: Visit, uuid: str) -> str:
    """Reason why the reader cannot change the rights of a user, or ""."""
    if visit.session is not None and uuid == visit.session.user_uuid:
        return "this is your own account; another admin can change it"
    if uuid in (ids.system_user(uuid[:5]), ids.anonymous_user(uuid[:5])):
        return "this is a user of the system itself, which stays as it is"
    return ""


def _user_uuid(visit: Visit) -> str:
    uuid = visit.parts["uuid"]
    if not is_uuid(uuid, Infix.USER):
        raise NotFound("There is no such user")
    return uuid


def _work(state: Record | None, key: str) -> Record | None:
    """The result of maintenance with its time as a text, "" where it has not run."""
    if not state:
        return None
    moment = state[key] or 0
    at = format_time(datetime.fromtimestamp(moment, UTC)) if moment else ""
    return {**state, "at_text": at}
