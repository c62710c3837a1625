"""`lading share` and `unshare`: permission links on a collection or a project (api-contract 3, docs: sharing)."""

from __future__ import annotations

import click

from lading.cli import display, references
from lading.cli.session import Session, with_session
from lading.client.api import Record
from lading.core import ids
from lading.core.errors import Invalid, NotFound
from lading.core.ids import Infix, infix_of, is_uuid

_LEVELS = ("read", "write", "manage")


@click.command()
@click.argument("what")
@click.argument("who", required=False)
@click.option("--can", type=click.Choice(_LEVELS), default="read", show_default=True, help="What they may do.")
@display.json_option
def share(what: str, who: str | None, can: str, as_json: bool) -> None:
    """Let WHO use WHAT, a collection or a project; without WHO, say who may.

    WHO is a user (name, e-mail address or uuid), a role (name or uuid), `everyone` with an account here, or `public`.
    """

    async def action(session: Session) -> list[Record]:
        uuid = await _find_shared(session, what)
        if who is not None:
            await _set(session, uuid, await _find_party(session, who, uuid[:5]), f"can_{can}")
        return await _permissions(session, uuid)

    links = with_session(action)
    if as_json:
        display.emit_json(links)
        return
    if not links:
        display.note(f"{what}: shared with nobody")
        return
    display.table(("WHO", "MAY", "UUID"), ((one["who"], one["can"], one["tail_uuid"]) for one in links))


@click.command()
@click.argument("what")
@click.argument("who")
@display.json_option
def unshare(what: str, who: str, as_json: bool) -> None:
    """Take back what `lading share` gave WHO on WHAT."""

    async def action(session: Session) -> int:
        uuid = await _find_shared(session, what)
        links = await _links(session, uuid, await _find_party(session, who, uuid[:5]))
        if not links:
            raise NotFound(f"{what}: is not shared with {who}; see 'lading share {what}'")
        for link in links:
            await session.api.delete("links", link["uuid"])
        return len(links)

    count = with_session(action)
    if as_json:
        display.emit_json({"what": what, "who": who, "removed": count})
    else:
        display.note(f"{what}: no longer shared with {who}")


async def _find_shared(session: Session, what: str) -> str:
    """The uuid of what is shared."""
    if is_uuid(what, Infix.GROUP):
        return what
    reference = references.need_reference(what)
    if reference.path:
        raise Invalid(f"{what}: files are shared with their collection; leave {reference.path!r} out, or copy it first")
    return str((await references.find_record(session, reference))["uuid"])


async def _find_party(session: Session, who: str, cluster: str) -> str:
    """The uuid of a user or a group. Raises NotFound, Invalid when several have the name."""
    if who in ("everyone", "public"):
        return ids.all_users(cluster) if who == "everyone" else ids.anonymous_group(cluster)
    if is_uuid(who):
        if infix_of(who) not in (Infix.USER, Infix.GROUP):
            raise Invalid(f"{who}: is neither a user nor a group")
        return who
    field = "email" if "@" in who else "username"
    found = await session.api.list("users", filters=[[field, "=", who]], select=["uuid"], limit=2)
    if not found and field == "username":
        roles = [["group_class", "=", "role"], ["name", "=", who]]
        found = await session.api.list("groups", filters=roles, select=["uuid"], limit=2)
    if not found:
        raise NotFound(f"{who}: no user and no role is called so; give a name, an e-mail address or a uuid")
    if len(found) > 1:
        raise Invalid(f"{who}: several are called so; give the uuid")
    return str(found[0]["uuid"])


async def _links(session: Session, uuid: str, party: str) -> list[Record]:
    filters = [["link_class", "=", "permission"], ["head_uuid", "=", uuid], ["tail_uuid", "=", party]]
    return await session.api.list("links", filters=filters, limit=1000)


async def _set(session: Session, uuid: str, party: str, name: str) -> None:
    """The one link from the party has this level; it may have had another."""
    links = await _links(session, uuid, party)
    if not links:
        link = {"link_class": "permission", "name": name, "head_uuid": uuid, "tail_uuid": party}
        await session.api.create("links", link)
        return
    await session.api.update("links", links[0]["uuid"], {"name": name})
    for link in links[1:]:
        await session.api.delete("links", link["uuid"])


async def _permissions(session: Session, uuid: str) -> list[Record]:
    filters = [["link_class", "=", "permission"], ["head_uuid", "=", uuid]]
    links = await session.api.list("links", filters=filters, order=["created_at asc"], limit=1000)
    names = await _names(session, sorted({link["tail_uuid"] for link in links}))
    return [
        {
            "who": names.get(link["tail_uuid"], ""),
            "can": link["name"].removeprefix("can_"),
            "tail_uuid": link["tail_uuid"],
            "uuid": link["uuid"],
        }
        for link in links
    ]


async def _names(session: Session, uuids: list[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for plural, field in (("users", "username"), ("groups", "name")):
        found = await session.api.list(plural, filters=[["uuid", "in", uuids]], select=["uuid", field], limit=1000)
        names |= {one["uuid"]: one[field] or "" for one in found}
    for uuid in uuids:
        if uuid == ids.all_users(uuid[:5]):
            names[uuid] = "everyone"
        elif uuid == ids.anonymous_group(uuid[:5]):
            names[uuid] = "public"
    return names
