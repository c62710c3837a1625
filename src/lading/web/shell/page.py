"""The page of a shell: who enters where, what that means, and the tickets."""

from __future__ import annotations

import re
from typing import Final

import msgspec
from starlette.responses import Response

from lading.client.api import Record
from lading.client.outcomes import RequestOutcome
from lading.client.request_states import shown_command, shown_state, status_of
from lading.core.errors import Invalid, Unavailable
from lading.core.request_status import RequestStatus
from lading.web import browser_rules
from lading.web.requests import machine
from lading.web.requests.page import request_uuid
from lading.web.shell import permission
from lading.web.visit import Visit

_DEFAULT_LOGIN: Final = "root"
# User names of Linux (useradd(8)), also with capitals and dots.
_LOGIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


async def show(visit: Visit) -> Response:
    """The page. Nothing is entered before its reader says so."""
    request, container = await _records(visit)
    where = await machine.describe(visit, request["uuid"], container["uuid"]) if container else ""
    outcome = RequestOutcome(request, container)
    response = visit.page(
        "shell.html",
        request=request,
        container=container,
        title=request["name"] or shown_command(request),
        state=shown_state(outcome),
        is_running=status_of(outcome) is RequestStatus.RUNNING,
        machine=where,
        login=_DEFAULT_LOGIN,
    )
    response.headers["Content-Security-Policy"] = browser_rules.TERMINAL
    return response


async def give_ticket(visit: Visit) -> Response:
    """A ticket for one shell, if the reader may enter the container now. Raises the refusal."""
    login = visit.field("login") or _DEFAULT_LOGIN
    if not _LOGIN.fullmatch(login):
        raise Invalid(f"{login[:60]!r}: is no name of a user in the image")
    request, container = await _records(visit)
    if container is None:
        raise Unavailable(f"{request['uuid']}: has no container yet; try again when it runs")
    await permission.check(visit, container["uuid"], login)
    ticket = await visit.services.sessions.make_ticket(
        visit.secret, request=request["uuid"], container=container["uuid"], login=login
    )
    return Response(
        msgspec.json.encode({"ticket": ticket}),
        media_type="application/json",
        headers={"Cache-Control": "no-store", "Content-Security-Policy": browser_rules.DOWNLOAD},
    )


async def _records(visit: Visit) -> tuple[Record, Record | None]:
    request = await visit.api.get("container_requests", request_uuid(visit))
    held = request["container_uuid"]
    return request, await visit.api.get("containers", held) if held else None
