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
    filters = {name: visit.query(name) for name in _FILTERS} | {"cols": ",".join(picked_columns)}
    name_or_uuid = filters["q"].strip()
    if is_uuid(name_or_uuid) and infix_of(name_or_uuid) == Infix.REQUEST:
        return visit.redirect(f"{LIST}/{name_or_uuid}")
    owner = visit.session.user_uuid if filters["owner"] == "me" and visit.session else ""
    request_page = await rows.find(
        visit,
        state=filters["state"],
        name=name_or_uuid,
        owner=owner or filters["owner"],
        after=filters["after"],
        most=_PAGE + 1,
        patience=LONG_PATIENCE if visit.query("far") else PATIENCE,
    )
    picked = request_page.rows[:_PAGE]
    older = (
        address(**{**filters, "after": picked[-1].key}) if len(request_page.rows) > _PAGE else ""
    )
    further = (
        {**filters, "after": f"{request_page.reached}~", "far": "1"} if request_page.reached else {}
    )
    listed = await _arranged(visit, picked)
    shown = ",".join(row.uuid for row in listed.rows)
    return visit.page(
        "requests.html",
        listed=listed,
        labels=columns.LABELS,
        chips=_chips(filters),
        filters=filters,
        newest=address(**{**filters, "after": ""}),
        older=older,
        reached=request_page.reached,
        further=address(**further),
        cancelled=visit.query("cancelled"),
        again=visit.query("again"),
        refresh=address(f"{LIST}/rows", cols=filters["cols"], by=filters["by"], uuids=shown),
        topics=rows.topics(picked, new=not filters["after"]),
    )


async def refresh(visit: Visit) -> Response:
    """The rows of some requests, in the same order: a list never moves below the pointer."""
    uuids = [uuid for uuid in visit.query("uuids").split(",") if is_uuid(uuid)][:_PAGE]
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
    request_rows = await rows.find_among(visit, [uuid for uuid in uuids if is_uuid(uuid)])
    ended = {row.uuid for row in request_rows if row.is_over}

    async def cancel_request(uuid: str) -> None:
        await visit.api.action("container_requests", uuid, "cancel")

    return await _each(
        visit, [uuid for uuid in uuids if uuid not in ended], cancel_request, "cancelled"
    )


async def run_again(visit: Visit) -> Response:
    """Submit the requests of the form once more; those that cannot be submitted are named."""

    async def repeat_request(uuid: str) -> None:
        await page.repeat(visit, uuid)

    return await _each(visit, _chosen(visit), repeat_request, "again")


def _chosen(visit: Visit) -> list[str]:
    """The requests that are marked in the form. Raises Invalid."""
    uuids = list(dict.fromkeys(visit.form.get("uuid") or ()))
    if not uuids:
        raise Invalid("no request is selected; mark some and try again")
    if len(uuids) > _MOST:
        raise Invalid(f"{len(uuids)} requests are selected; mark at most {_MOST} at once")
    return uuids


async def _each(
    visit: Visit, uuids: Sequence[str], act: Callable[[str], Awaitable[None]], outcome: str
) -> Response:
    """Act on requests, and go to the list; `outcome` is the parameter that has their number there.
    A page names the failures.
    """
    turns = asyncio.Semaphore(_AT_ONCE)

    async def act_on(uuid: str) -> str:
        async with turns:
            try:
                _check(uuid)
                await act(uuid)
            except LadingError as error:
                return f"{uuid[:40]}: {error.message}"
        return ""

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(act_on(uuid)) for uuid in uuids]
    failures = [task.result() for task in running if task.result()]
    if not failures:
        return visit.redirect(address(**{outcome: str(len(uuids))}))
    return visit.page(
        "requests_failures.html",
        status=207,
        done=len(uuids) - len(failures),
        outcome=outcome,
        failures=failures,
    )


def address(path: str = LIST, **filters: str) -> str:
    """The address of a list with these filters."""
    query = urlencode({name: value for name, value in filters.items() if value})
    return f"{path}?{query}" if query else path


def _check(uuid: str) -> None:
    if not is_uuid(uuid) or infix_of(uuid) != Infix.REQUEST:
        raise Invalid("is no uuid of a request")


def _chips(filters: dict[str, str]) -> list[dict[str, object]]:
    first_page = {**filters, "after": ""}
    chips: list[dict[str, object]] = [
        {
            "text": state or "All",
            "address": address(**{**first_page, "state": state}),
            "is_on": (parse_status(filters["state"]) or "") == state,
        }
        for state in ("", *STATES)
    ]
    is_mine = filters["owner"] == "me"
    mine = address(**{**first_page, "owner": "" if is_mine else "me"})
    return [*chips, {"text": "Mine", "address": mine, "is_on": is_mine}]
