"""Streams of events while the victim works."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Final

from lading.core.errors import LadingError
from lading.core.ids import all_users, anonymous_group
from lading.testing.world import World
from tests.security.sweep.site import Caller, SweepSite
from tests.security.sweep.victim import RUNNER, Victim

_PATIENCE: Final = 20.0


async def hear(site: SweepSite, victim: Victim, caller: Caller) -> bytes:
    """All that a caller hears from both streams: of what was, and of what the victim does now."""
    return b"".join([await _listen(site, victim, caller), await _subscribe(site, victim, caller)])


async def work(site: SweepSite, victim: Victim) -> bytes:
    """Make, change and delete things of the victim; the uuid of a container that all can read, and
    which comes last.
    """
    it, token, text = site.world, victim.token, site.canaries.text
    given = {"name": text("groups.name"), "group_class": "project", "owner_uuid": victim.project}
    made = await it.ok("POST", "groups", given, token=token)
    await it.ok("PUT", f"groups/{made['uuid']}", {"name": text("groups.name")}, token=token)
    await it.ok("DELETE", f"groups/{made['uuid']}", token=token)
    request = await it.submit(
        text("containers.command"), token=token, container_image=RUNNER,
        name=text("container_requests.name"),
    )  # fmt: skip
    row = {"event_type": "stderr", "object_uuid": request["container_uuid"]}
    await it.ok("POST", "logs", {**row, "properties": {"text": text("logs.text")}}, token=token)
    prefs = {"prefs": {"key": text("users.prefs")}}
    await it.ok("PUT", f"users/{victim.user_uuid}", prefs, token=token)
    site.canaries.hide([made["uuid"], request["uuid"], request["container_uuid"]], "uuid")
    return await _end(it, f"end {len(site.canaries.labels)}")


async def _end(it: World, name: str) -> bytes:
    """A container that all can read."""
    place = await it.ok("POST", "groups", {"name": name, "group_class": "project"})
    for group in (all_users(it.cluster), anonymous_group(it.cluster)):
        link = {"link_class": "permission", "name": "can_read", "head_uuid": place["uuid"]}
        await it.ok("POST", "links", {**link, "tail_uuid": group})
    ended = await it.submit(name, container_image=RUNNER, owner_uuid=place["uuid"])
    return str(ended["container_uuid"]).encode()


def _headers(caller: Caller) -> Mapping[str, str]:
    return {"authorization": f"Bearer {caller.token}"} if caller.token else {}


async def _listen(site: SweepSite, victim: Victim, caller: Caller) -> bytes:
    headers = {**_headers(caller), "last-event-id": "0"}
    async with (
        asyncio.timeout(_PATIENCE),
        site.transport.stream("GET", "/events", headers=headers) as answer,
    ):
        if answer.status != 200:
            return await answer.read()
        heard = await anext(answer.chunks)
        end = await work(site, victim)
        async for piece in answer.chunks:
            heard += piece
            if end in piece:
                break
        return heard


async def _subscribe(site: SweepSite, victim: Victim, caller: Caller) -> bytes:
    heard = ""
    try:
        async with site.transport.websocket("/websocket", headers=_headers(caller)) as socket:
            await socket.send(json.dumps({"method": "subscribe", "last_log_id": 0}))
            end = (await work(site, victim)).decode()
            while end not in heard and (text := await socket.receive(_PATIENCE)) is not None:
                heard += text
    except LadingError as error:
        return error.message.encode()
    return heard.encode()
