"""Access of people and groups to a project, a collection, or a request with its container, log and
output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.responses import Response

from lading.client import sharing
from lading.client.api import Record
from lading.client.request_states import shown_command
from lading.core.errors import Invalid, NotFound
from lading.core.ids import Infix, infix_of, is_uuid
from lading.core.quantities import format_time
from lading.web.data import entries
from lading.web.site import tokens
from lading.web.visit import Visit

LEVELS: Final = ("read", "write", "manage")
# Kind -> its records in the API, and its page.
_KINDS: Final[dict[Infix, tuple[str, Callable[[str], str]]]] = {
    Infix.GROUP: ("groups", entries.project_place),
    Infix.COLLECTION: ("collections", entries.collection_place),
    Infix.REQUEST: ("container_requests", "/ui/requests/{}".format),
}


async def show(visit: Visit) -> Response:
    """Page of users and groups with access by a permission link, as far as the reader may see it.
    For a collection it has the reader's own addresses that read it, too.
    """
    return await _page(visit, new_address=None)


async def make_address(visit: Visit) -> Response:
    """Make an address that reads a collection, and show it: this page alone has it."""
    uuid = entries.need_uuid(visit, Infix.COLLECTION)
    ends = tokens.end_of(visit.field("days"), visit.services.clock())
    visit.tells_secret = True
    return await _page(visit, new_address=await sharing.make_address(visit.api, uuid, ends))


async def end_address(visit: Visit) -> Response:
    """End an address of the reader's."""
    uuid, token = entries.need_uuid(visit, Infix.COLLECTION), visit.field("token")
    now = format_time(visit.services.clock())
    tokens = [link["uuid"] for link in await sharing.list_addresses(visit.api, uuid, now)]
    if token not in tokens:
        raise NotFound("There is no such address")
    await visit.api.delete("api_client_authorizations", token)
    return visit.redirect(_access_address(uuid))


async def _page(visit: Visit, *, new_address: Record | None) -> Response:
    uuid = _named(visit)
    plural, address_of = _KINDS[Infix(infix_of(uuid))]
    is_collection = is_uuid(uuid, Infix.COLLECTION)
    is_request = is_uuid(uuid, Infix.REQUEST)
    fields = ("uuid", "name", "command") if is_request else ("uuid", "name")
    record = await visit.api.get(plural, uuid, select=fields)
    return visit.page(
        "access.html",
        uuid=uuid,
        title=record["name"] or (shown_command(record) if is_request else uuid),
        place=address_of(uuid),
        links=await sharing.list_access(visit.api, uuid),
        levels=LEVELS,
        is_collection=is_collection,
        is_request=is_request,
        addresses=await sharing.list_addresses(visit.api, uuid, format_time(visit.services.clock()))
        if is_collection
        else [],
        made=new_address,
    )


async def give(visit: Visit) -> Response:
    """Give a user or a role a level of access, or change the level. The field `enter` lets a user
    into the containers of a request.
    """
    uuid, who, level = _named(visit), visit.field("who").strip(), visit.field("can")
    if not who or level not in LEVELS:
        raise Invalid(f"name who gets access, and one of the levels {', '.join(LEVELS)}")
    party = await sharing.find_party(visit.api, who, uuid[:5])
    may_enter = bool(visit.field("enter"))
    await sharing.share_with(visit.api, uuid, party, f"can_{level}", may_enter=may_enter)
    return visit.redirect(_access_address(uuid))


async def remove(visit: Visit) -> Response:
    """Remove the access of a user or a role."""
    uuid, party = _named(visit), visit.field("who")
    if not await sharing.unshare_with(visit.api, uuid, party):
        raise NotFound("They have no access by a link")
    return visit.redirect(_access_address(uuid))


def _named(visit: Visit) -> str:
    return entries.need_uuid(visit, *_KINDS)


def _access_address(uuid: str) -> str:
    return f"/ui/access/{uuid}"
