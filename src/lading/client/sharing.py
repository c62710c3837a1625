"""Permission links: the permission links of a record, and their changes; for the command line and
the page.

A request is shared with its records (`shared_records`): its log and its output have links of their
own, its container follows the request. These links name the request in their properties, and end
with its access. Access that was given to the log or the output itself does not end. A link of the
class `container_access` also lets a user into the containers of the request.

Source: docs/spec/api, section Links.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from lading.client.api import ApiClient, Record
from lading.core import ids
from lading.core.errors import Forbidden, Invalid, NotFound
from lading.core.ids import Infix, infix_of, is_uuid
from lading.core.policy.token_scopes import reading_collection

_TOKENS: Final = "api_client_authorizations"
_ENTERING: Final = "container_access"
_OF_REQUEST: Final = "shared_with_request"
"""Property of a link to the log or the output of a request: the uuid of the request."""
_KINDS: Final[dict[str, str]] = {
    Infix.COLLECTION: "collection",
    Infix.GROUP: "project",
    Infix.REQUEST: "request",
}


async def find_party(api: ApiClient, who: str, cluster: str) -> str:
    """The uuid of a user or a group. Raises NotFound, Invalid when several have the name."""
    # The cluster id is the beginning of each uuid.
    if who in ("everyone", "public"):
        return ids.all_users(cluster) if who == "everyone" else ids.anonymous_group(cluster)
    if is_uuid(who):
        if infix_of(who) not in (Infix.USER, Infix.GROUP):
            raise Invalid(f"{who}: is neither a user nor a group")
        return who
    field = "email" if "@" in who else "username"
    matches = await api.list("users", filters=[[field, "=", who]], select=["uuid"], limit=2)
    if not matches and field == "username":
        roles = [["group_class", "=", "role"], ["name", "=", who]]
        matches = await api.list("groups", filters=roles, select=["uuid"], limit=2)
    if not matches:
        raise NotFound(
            f"{who}: no user and no role is called so; give a name, an e-mail address or a uuid"
        )
    if len(matches) > 1:
        raise Invalid(f"{who}: several are called so; give the uuid")
    return str(matches[0]["uuid"])


async def find_project(api: ApiClient, name: str) -> str:
    """The uuid of the project with this name; a uuid, and "", stay as they are. Raises NotFound,
    Invalid when several have the name.
    """
    name = name.strip()
    if not name or is_uuid(name):
        return name
    filters = [["name", "=", name], ["group_class", "=", "project"]]
    projects = await api.list("groups", filters=filters, select=["uuid"], limit=2)
    if not projects:
        raise NotFound(f"{name[:80]}: there is no such project that you can see")
    if len(projects) > 1:
        raise Invalid(f"{name[:80]}: several projects are called so; give the uuid")
    return str(projects[0]["uuid"])


async def links_of(api: ApiClient, uuid: str, party: str) -> list[Record]:
    """The permission links of a party to a record."""
    filters = [
        ["link_class", "=", "permission"],
        ["head_uuid", "=", uuid],
        ["tail_uuid", "=", party],
    ]
    return await api.list("links", filters=filters, limit=1000)


async def set_level(api: ApiClient, uuid: str, party: str, name: str, *, request: str = "") -> None:
    """Set the level of the party's only link; other links of the party are deleted. `request` is
    the request that the record is shared with, "" for a record that is shared by itself.
    """
    links = await links_of(api, uuid, party)
    if links and not request and any(_request_of(link) for link in links):
        # The API has one link between the same ends: one of the record itself takes its place.
        for link in links:
            await api.delete("links", link["uuid"])
        links = []
    if not links:
        link = {"link_class": "permission", "name": name, "head_uuid": uuid, "tail_uuid": party}
        properties = {_OF_REQUEST: request} if request else {}
        await api.create("links", {**link, "properties": properties})
        return
    # Changed before the others are deleted: the party has access all the time.
    await api.update("links", links[0]["uuid"], {"name": name})
    for link in links[1:]:
        await api.delete("links", link["uuid"])


def _request_of(link: Record) -> str:
    """The request with which a link shares the log or the output, "" for none."""
    return str((link["properties"] or {}).get(_OF_REQUEST) or "")


async def shared_records(api: ApiClient, uuid: str) -> dict[str, str]:
    """The records that are shared together with the record `uuid`, which is the first: uuids by
    kind (`request`, `container`, `log`, `output`); of other records than requests itself alone.

    A log or an output that the caller cannot see, or that does not exist yet, is left out.
    """
    if not is_uuid(uuid, Infix.REQUEST):
        return {_KINDS.get(infix_of(uuid), "record"): uuid}
    fields = ("uuid", "container_uuid", "log_uuid", "output_uuid")
    request = await api.get("container_requests", uuid, select=fields)
    stored = {"log": request["log_uuid"], "output": request["output_uuid"]}
    stored_uuids = [stored_uuid for stored_uuid in stored.values() if stored_uuid]
    filters = [["uuid", "in", stored_uuids]]
    rows = await api.list("collections", filters=filters, select=["uuid"]) if stored_uuids else []
    present = {str(row["uuid"]) for row in rows}
    records = {"request": uuid, "container": request["container_uuid"], **stored}
    return {
        kind: str(record_uuid)
        for kind, record_uuid in records.items()
        if record_uuid and (kind not in stored or record_uuid in present)
    }


async def share_with(
    api: ApiClient, uuid: str, party: str, name: str, *, may_enter: bool = False
) -> None:
    """Give a party the level `name` on a record and on the records shared with it; with
    `may_enter` let it into the containers of a request. Raises Invalid, Forbidden.
    """
    if may_enter:
        if not is_uuid(uuid, Infix.REQUEST):
            raise Invalid(f"{uuid}: is no request, so it has no container to enter")
        if not is_uuid(party, Infix.USER):
            raise Invalid("users are let into containers one by one, by name; roles are not")
        # First: only the user of the containers may do this, and a refusal must share nothing.
        link = {"link_class": _ENTERING, "name": "can_enter"}
        await api.create("links", {**link, "head_uuid": uuid, "tail_uuid": party})
    # The request is the last: what it shows is readable then.
    for kind, head in reversed((await shared_records(api, uuid)).items()):
        if kind != "container":
            beside = uuid if kind in ("log", "output") else ""
            await set_level(api, head, party, name, request=beside)


async def unshare_with(api: ApiClient, uuid: str, party: str) -> dict[str, str]:
    """Take back what `share_with` gave to a party; the records that are no longer shared, as
    `shared_records`. A log or an output that was shared by itself stays so.
    """
    ended: dict[str, str] = {}
    entering = await _entering(api, uuid, party)
    for link in entering:
        # Another user's: the user of the containers, who alone takes it back.
        with suppress(Forbidden):
            await api.delete("links", link["uuid"])
    for kind, head in (await shared_records(api, uuid)).items():
        links = await links_of(api, head, party) if kind != "container" else []
        if kind in ("log", "output"):
            links = [link for link in links if _request_of(link) == uuid]
        for link in links:
            await api.delete("links", link["uuid"])
        # The container follows the request.
        if links or (kind == "container" and (entering or "request" in ended)):
            ended[kind] = head
    return ended


async def shared_by_itself(api: ApiClient, uuid: str, party: str) -> dict[str, str]:
    """Of a request the log and the output that a party has access to by a link of their own, as
    `shared_records`.
    """
    records = await shared_records(api, uuid)
    return {
        kind: head
        for kind, head in records.items()
        if kind in ("log", "output") and await links_of(api, head, party)
    }


async def list_access(api: ApiClient, uuid: str) -> list[Record]:
    """The access to a record and to the records shared with it: `who`, `can` (`read`,
    `write`, `manage`, `enter`), `of` (the kind of the record), `head_uuid`, `tail_uuid`, `uuid` of
    the link.
    """
    shown: list[Record] = []
    heads = await shared_records(api, uuid)
    for kind, head in heads.items():
        # A container has the access of its request, and that of who may enter.
        of = heads["request"] if kind == "container" else head
        links = await list_permissions(api, of)
        shown += [{**link, "of": kind, "head_uuid": head} for link in links]
    guests = await _entering(api, uuid)
    names = await names_of(api, sorted({guest["tail_uuid"] for guest in guests}))
    return shown + [
        {
            "who": names.get(guest["tail_uuid"], ""),
            "can": "enter",
            "of": "container",
            "head_uuid": heads.get("container") or uuid,
            "tail_uuid": guest["tail_uuid"],
            "uuid": guest["uuid"],
        }
        for guest in guests
    ]


async def _entering(api: ApiClient, uuid: str, party: str | None = None) -> list[Record]:
    """The links by which users, or one of them, may enter the containers of a request."""
    if not is_uuid(uuid, Infix.REQUEST):
        return []
    filters = [["link_class", "=", _ENTERING], ["head_uuid", "=", uuid]]
    if party is not None:
        filters.append(["tail_uuid", "=", party])
    return await api.list("links", filters=filters, order=["created_at asc"], limit=1000)


async def make_address(api: ApiClient, uuid: str, ends: str | None) -> Record:
    """An address with a token that reads one collection: `url`, `token_uuid`, `expires_at`. `ends`
    is the API timestamp of its end, None for none.
    """
    scopes = list(reading_collection(uuid))
    token = await api.create(_TOKENS, {"scopes": scopes, "expires_at": ends})
    config: Record = await api.request("GET", "config")
    files = str(config["Services"]["WebDAVDownload"]["ExternalURL"])
    return {
        "url": f"{files}c={uuid}/t=v2/{token['uuid']}/{token['api_token']}/_/",
        "token_uuid": token["uuid"],
        "expires_at": token["expires_at"],
    }


async def list_addresses(api: ApiClient, uuid: str, now: str) -> list[Record]:
    """The caller's own tokens that read this collection alone and have not ended at `now`: `uuid`,
    `expires_at`.
    """
    filters = [["scopes", "=", list(reading_collection(uuid))]]
    tokens = await api.list(_TOKENS, filters=filters, select=["uuid", "expires_at"], limit=1000)
    return [token for token in tokens if (token["expires_at"] or now) >= now]


async def list_permissions(api: ApiClient, uuid: str) -> list[Record]:
    """The permission links of a record: `who`, `can`, `tail_uuid`, `uuid`."""
    filters = [["link_class", "=", "permission"], ["head_uuid", "=", uuid]]
    links = await api.list("links", filters=filters, order=["created_at asc"], limit=1000)
    names = await names_of(api, sorted({link["tail_uuid"] for link in links}))
    return [
        {
            "who": names.get(link["tail_uuid"], ""),
            "can": link["name"].removeprefix("can_"),
            "tail_uuid": link["tail_uuid"],
            "uuid": link["uuid"],
        }
        for link in links
    ]


async def names_of(api: ApiClient, uuids: list[str]) -> dict[str, str]:
    """Names of users and groups, as far as the caller can read them, by their uuids."""
    names: dict[str, str] = {}
    for plural, infix, field in (
        ("users", Infix.USER, "username"),
        ("groups", Infix.GROUP, "name"),
    ):
        if of_kind := sorted({uuid for uuid in uuids if is_uuid(uuid, infix)}):
            filters = [["uuid", "in", of_kind]]
            rows = await api.list(plural, filters=filters, select=["uuid", field], limit=1000)
            names |= {row["uuid"]: row[field] for row in rows if row[field]}
    for uuid in uuids:
        if uuid == ids.all_users(uuid[:5]):
            names[uuid] = "everyone"
        elif uuid == ids.anonymous_group(uuid[:5]):
            names[uuid] = "public"
    return names
