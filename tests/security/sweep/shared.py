"""What the victim shares with the stranger, and what must stay hidden behind it: the past of a
record that was private once, the project around a shared one, inputs and quotas of others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from lading.core.records.record_types import RECORDS
from lading.core.records.schema import Record
from tests.security.sweep.site import SweepSite
from tests.security.sweep.victim import RUNNER, Victim

Give: TypeAlias = Callable[[str, str], Awaitable[None]]
"""Shares the record of a uuid with the stranger, at a level."""


async def share(site: SweepSite, victim: Victim, stranger: str) -> dict[str, str]:
    """Share some things of the victim with the holder of a token; the uuids of those that can be
    read and not written, by their type.
    """
    it, token = site.world, victim.token
    user = (await it.ok("GET", "users/current", token=stranger))["uuid"]

    async def give(head: str, level: str) -> None:
        link = {"link_class": "permission", "name": level, "tail_uuid": user, "head_uuid": head}
        await it.ok("POST", "links", link, token=token)

    place = await it.ok("POST", "groups", {"name": "shared", "group_class": "project"}, token=token)
    await give(place["uuid"], "can_write")
    await _move(site, victim, place["uuid"])
    given = await _rename(site, victim, give)
    await _surround(site, victim, stranger, give)
    await _derive(site, victim, place["uuid"])
    # The owner of a shared record is one of its attributes.
    site.canaries.names.pop(victim.project, None)
    return given


def _former(site: SweepSite, kind: str) -> Record:
    text = site.canaries.text
    return {
        "name": text(f"former {kind}.name"),
        "description": text(f"former {kind}.description"),
        "properties": {"key": text(f"former {kind}.properties")},
    }


_PRESENT = {"name": "present", "description": "present", "properties": {}}


async def _made(site: SweepSite, victim: Victim, plural: str, owner: str) -> str:
    """A record with a private past; its uuid."""
    it, token = site.world, victim.token
    given = {**_former(site, plural), "owner_uuid": owner}
    if plural == "collections":
        made = await site.collection(token, {"f": b"shared"}, **given)
    elif plural == "groups":
        made = await it.ok("POST", "groups", {**given, "group_class": "project"}, token=token)
    else:
        made = await it.submit("true", token=token, state="Uncommitted", **given)
    # A change in the private place too, not only the one that leaves it.
    await it.ok("PUT", f"{plural}/{made['uuid']}", _former(site, plural), token=token)
    return str(made["uuid"])


async def _move(site: SweepSite, victim: Victim, place: str) -> None:
    """Records that leave a private project, and change with that."""
    for plural in ("collections", "groups", "container_requests"):
        uuid = await _made(site, victim, plural, victim.project)
        changes = {**_PRESENT, "name": f"moved {plural}", "owner_uuid": place}
        await site.world.ok("PUT", f"{plural}/{uuid}", changes, token=victim.token)


async def _rename(site: SweepSite, victim: Victim, give: Give) -> dict[str, str]:
    """Records that stay in a private project, and are shared by themselves."""
    given: dict[str, str] = {}
    for plural in ("collections", "groups", "container_requests"):
        uuid = await _made(site, victim, plural, victim.project)
        changes = {**_PRESENT, "name": f"given {plural}"}
        await site.world.ok("PUT", f"{plural}/{uuid}", changes, token=victim.token)
        await give(uuid, "can_read")
        given[plural] = uuid
    return given


async def _surround(site: SweepSite, victim: Victim, stranger: str, give: Give) -> None:
    """A shared project in a private one, whose quota keeps the stranger's request waiting."""
    it, token, text = site.world, victim.token, site.canaries.text
    outer = {"name": text("groups.name"), "group_class": "project"}
    around = await it.ok("POST", "groups", outer, token=token)
    inner = {"name": "inner", "group_class": "project", "owner_uuid": around["uuid"]}
    within = await it.ok("POST", "groups", inner, token=token)
    await give(within["uuid"], "can_write")
    limits = {"subject_uuid": around["uuid"], "containers": 1, "name": text("quotas.name")}
    await it.ok("POST", "quotas", {**limits, "contact": text("quotas.contact")})
    first = await it.submit("first", token=token, container_image=RUNNER, owner_uuid=around["uuid"])
    await it.ok("POST", f"containers/{first['container_uuid']}/lock", token=victim.dispatcher)
    for n in range(2):
        await it.submit(
            "behind", str(n), token=stranger, container_image=RUNNER, owner_uuid=within["uuid"]
        )
    site.canaries.hide([first["uuid"]], "container_requests.uuid")
    site.canaries.hide([first["container_uuid"]], "containers.uuid")


async def _derive(site: SweepSite, victim: Victim, place: str) -> None:
    """A shared request after a private one, with a private input by the private one's output."""
    it, token = site.world, victim.token
    later = await it.submit(
        "later",
        token=token,
        container_image=RUNNER,
        owner_uuid=place,
        depends_on=[victim.requests["queued"]["uuid"]],
    )
    # What a reader of the request is told of those that it depends on is in the record itself.
    site.canaries.names.pop(victim.requests["queued"]["uuid"], None)
    assert later["container_uuid"]


async def readable(site: SweepSite, victim: Victim, token: str) -> Victim:
    """The victim with the records that the holder of a token can read in place of its own."""
    found: dict[str, list[str]] = {}
    for kind in RECORDS:
        if kind.stored:
            page = await site.world.request("GET", kind.plural, params={"limit": 100}, token=token)
            items = page.json["items"] if page.status == 200 else []
            if items:
                found[kind.plural] = [one["uuid"] for one in items]
    return replace(victim, uuids={**victim.uuids, **found})
