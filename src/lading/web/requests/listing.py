"""The list of requests: filters in its address, keyset pages, and actions on many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from lading.core.errors import Invalid, LadingError
from lading.core.ids import Infix, infix_of, is_uuid
from lading.core.request_status import parse_status
from lading.web.keyset import LONG_PATIENCE, PATIENCE
from lading.web.requests import columns, page, rows
from lading.web.requests.columns import ListedRows
from lading.web.requests.rows import STATES, RequestRow
from lading.web.visit import Visit

LIST: Final = "/ui/requests"
# Rows of a page: two screens.
_PAGE: Final = 50
_MOST: Final = 200
"""Requests of one form."""
# Calls at a time for the actions on chosen rows; the server takes writes one after another.
_AT_ONCE: Final = 8
_FILTERS: Final = ("state", "q", "owner", "after", "by")


async def show(visit: Visit) -> Response:
    """A page of the list."""
    picked_columns = columns.chosen_columns(visit)
    wanted = {name: visit.query(name) for name in _FILTERS} | {"cols": ",".join(picked_columns)}
    text = wanted["q"].strip()
    if is_uuid(text) and infix_of(text) == Infix.REQUEST:
        return visit.redirect(f"{LIST}/{text}")
    owner = visit.session.user_uuid if wanted["owner"] == "me" and visit.session else ""
    found = await rows.find(
        visit,
        state=wanted["state"],
        name=text,
        owner=owner or wanted["owner"],
        after=wanted["after"],
        most=_PAGE + 1,
        patience=LONG_PATIENCE if visit.query("far") else PATIENCE,
    )
    picked = found.rows[:_PAGE]
    older = address(**{**wanted, "after": picked[-1].key}) if len(found.rows) > _PAGE else ""
    further = {**wanted, "after": f"{found.reached}~", "far": "1"} if found.reached else {}
    listed = await _arranged(visit, picked)
    shown = ",".join(row.uuid for row in listed.rows)
    return visit.page(
        "requests.html",
        listed=listed,
        labels=columns.LABELS,
        chips=_chips(wanted),
        wanted=wanted,
        newest=address(**{**wanted, "after": ""}),
        older=older,
        reached=found.reached,
        further=address(**further),
        cancelled=visit.query("cancelled"),
        again=visit.query("again"),
        refresh=address(f"{LIST}/rows", cols=wanted["cols"], by=wanted["by"], uuids=shown),
        topics=rows.topics(picked, new=not wanted["after"]),
    )


async def refresh(visit: Visit) -> Response:
    """The rows of some requests, in the same order: a list never moves below the pointer."""
    uuids = [one for one in visit.query("uuids").split(",") if is_uuid(one)][:_PAGE]
    picked = await rows.find_among(visit, uuids) if uuids else []
    return visit.page("requests_rows.html", listed=await _arranged(visit, picked))


async def _arranged(visit: Visit, picked: Sequence[RequestRow]) -> ListedRows:
    """The rows with the columns and the groups that the address names."""
    return await columns.arrange(
        visit,
        picked,
        columns.chosen_columns(visit),
        is_grouped=visit.query("by") == columns.BY_RUN,
    )


async def tell_new(visit: Visit) -> Response:
    """The link that appears when there are newer requests."""
    return visit.page("requests_new.html")


async def cancel(visit: Visit) -> Response:
    """Cancel the requests of the form; those that cannot be cancelled are named. One that has ended
    stays as it is.
    """
    uuids = _chosen(visit)
    found = await rows.find_among(visit, [uuid for uuid in uuids if is_uuid(uuid)])
    ended = {row.uuid for row in found if row.is_over}

    async def one(uuid: str) -> None:
        await visit.api.action("container_requests", uuid, "cancel")

    return await _each(visit, [uuid for uuid in uuids if uuid not in ended], one, "cancelled")


async def run_again(visit: Visit) -> Response:
    """Submit the requests of the form once more; those that cannot be submitted are named."""

    async def one(uuid: str) -> None:
        await page.repeat(visit, uuid)

    return await _each(visit, _chosen(visit), one, "again")


def _chosen(visit: Visit) -> list[str]:
    """The requests that are marked in the form. Raises Invalid."""
    uuids = list(dict.fromkeys(visit.form.get("uuid") or ()))
    if not uuids:
        raise Invalid("no request is selected; mark some and try again")
    if len(uuids) > _MOST:
        raise Invalid(f"{len(uuids)} requests are selected; mark at most {_MOST} at once")
    return uuids


async def _each(
    visit: Visit, uuids: Sequence[str], act: Callable[[str], Awaitable[None]], said: str
) -> Response:
    """Act on requests, and go to the list, which says so in the parameter `said`; failures are
    named.
    """
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(uuid: str) -> str:
        async with turns:
            try:
                _check(uuid)
                await act(uuid)
            except LadingError as error:
                return f"{uuid[:40]}: {error.message}"
        return ""

    async with asyncio.TaskGroup() as tasks:
        made = [tasks.create_task(one(uuid)) for uuid in uuids]
    failures = [task.result() for task in made if task.result()]
    if not failures:
        return visit.redirect(address(**{said: str(len(uuids))}))
    return visit.page(
        "requests_failures.html",
        status=207,
        done=len(uuids) - len(failures),
        said=said,
        failures=failures,
    )


def address(path: str = LIST, **wanted: str) -> str:
    """The address of a list with these filters."""
    query = urlencode({name: value for name, value in wanted.items() if value})
    return f"{path}?{query}" if query else path


def _check(uuid: str) -> None:
    if not is_uuid(uuid) or infix_of(uuid) != Infix.REQUEST:
        raise Invalid("is no uuid of a request")


def _chips(wanted: dict[str, str]) -> list[dict[str, object]]:
    kept = {**wanted, "after": ""}
    chips: list[dict[str, object]] = [
        {
            "text": state or "All",
            "address": address(**{**kept, "state": state}),
            "is_on": (parse_status(wanted["state"]) or "") == state,
        }
        for state in ("", *STATES)
    ]
    is_mine = wanted["owner"] == "me"
    mine = address(**{**kept, "owner": "" if is_mine else "me"})
    return [*chips, {"text": "Mine", "address": mine, "is_on": is_mine}]
