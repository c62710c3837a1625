"""The list of runs, the first screen of the page: filters in its address, pages by a cursor."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from lading.client import sharing
from lading.client.api import Record
from lading.core.errors import Invalid, LadingError, NotFound
from lading.core.ids import Infix, infix_of, is_uuid
from lading.core.quantities import parse_time
from lading.core.runs.states import RunState
from lading.process.concurrency import together
from lading.web.live_updates import RUNS
from lading.web.runs import rows
from lading.web.visit import Visit

LIST: Final = "/ui/runs"
_PAGE: Final = 50
"""Runs of a page: two screens."""
_FILTERS: Final = ("state", "q", "user", "project", "since")
_MINE: Final = "me"


async def show(visit: Visit) -> Response:
    """A page of the list."""
    chosen = {name: visit.query(name).strip() for name in _FILTERS}
    runs, after = await _find(visit, chosen, after=visit.query("after"), limit=_PAGE)
    picked = await rows.make_rows(visit, runs)
    shown = ",".join(row.uuid for row in picked)
    return visit.page(
        "runs.html",
        rows=picked,
        chosen=chosen,
        chips=_chips(chosen),
        has_filter=any(chosen.values()),
        after=visit.query("after"),
        newest=address(**chosen),
        older=address(**chosen, after=after) if after else "",
        refresh=address(f"{LIST}/rows", **chosen, after=visit.query("after"), uuids=shown),
        fresh=address(f"{LIST}/new", **chosen, first=_mark(runs)),
        topics=RUNS,
    )


async def refresh(visit: Visit) -> Response:
    """The rows of the runs that are shown, in the same order: a list never moves below the
    pointer. An empty list gets the runs that have begun since.
    """
    chosen = {name: visit.query(name).strip() for name in _FILTERS}
    uuids = [uuid for uuid in visit.query("uuids").split(",") if is_uuid(uuid)][:_PAGE]
    runs, _ = await _find(visit, chosen, after=visit.query("after"), limit=_PAGE)
    if uuids:
        read = {run["uuid"]: run for run in runs}
        await together(*(_read_into(visit, read, uuid) for uuid in uuids if uuid not in read))
        runs = [read[uuid] for uuid in uuids if uuid in read]
    return visit.page("runs_rows.html", rows=await rows.make_rows(visit, runs))


async def tell_new(visit: Visit) -> Response:
    """The link that appears when another run has begun, or another attempt of one."""
    chosen = {name: visit.query(name).strip() for name in _FILTERS}
    runs, _ = await _find(visit, chosen, after="", limit=1)
    has_new = bool(runs) and _mark(runs) != visit.query("first")
    return visit.page("runs_new.html", newest=address(**chosen) if has_new else "")


def address(path: str = LIST, **chosen: str) -> str:
    """The address of a list with these filters."""
    query = urlencode({name: value for name, value in chosen.items() if value})
    return f"{path}?{query}" if query else path


async def _find(
    visit: Visit, chosen: dict[str, str], *, after: str, limit: int
) -> tuple[list[Record], str]:
    """The runs of a page, and the cursor of the next one, "" after the last. Raises Invalid,
    NotFound.
    """
    params: Record = {"limit": limit, "after": after, "name": chosen["q"], "state": chosen["state"]}
    params |= {
        "user": await _user(visit, chosen["user"]),
        "project": await sharing.find_project(visit.api, chosen["project"]),
        "since": _since(chosen["since"]),
    }
    answer: Any = await visit.api.request(
        "GET", "groups/runs", params={name: value for name, value in params.items() if value}
    )
    return answer["items"], answer["next"] or ""


async def _read_into(visit: Visit, read: dict[str, Record], uuid: str) -> None:
    """Read a run that is not among the newest any more; one that is gone leaves the list."""
    plural = "container_requests" if infix_of(uuid) == Infix.REQUEST else "groups"
    try:
        run: Any = await visit.api.request("GET", f"{plural}/{uuid}/run")
    except LadingError as error:
        if error.status not in (403, 404):
            raise
        return
    read[uuid] = run


async def _user(visit: Visit, user: str) -> str:
    """The uuid of the user with this name, `me` for the reader. Raises NotFound."""
    if user == _MINE and visit.session is not None:
        return visit.session.user_uuid
    if not user or is_uuid(user, Infix.USER):
        return user
    attribute = "email" if "@" in user else "username"
    users = await visit.api.list(
        "users", filters=[[attribute, "=", user]], select=("uuid",), limit=1
    )
    if not users:
        raise NotFound(
            f"user: nobody is called {user[:80]!r}; give a user name or an e-mail address"
        )
    return str(users[0]["uuid"])


def _since(day: str) -> str:
    """A day, or a time, as the API takes it. Raises Invalid."""
    if not day:
        return ""
    try:
        parse_time(day)
    except ValueError:
        raise Invalid(f"since: {day[:40]!r} is no day, as 2026-01-31") from None
    return day


def _mark(runs: list[Record]) -> str:
    """The newest run and its attempt, "" for none."""
    return f"{runs[0]['uuid']}.{runs[0]['attempt']}" if runs else ""


def _chips(chosen: dict[str, str]) -> list[dict[str, object]]:
    chips: list[dict[str, object]] = [
        {
            "label": state.capitalize() or "All",
            "address": address(**{**chosen, "state": state}),
            "is_on": chosen["state"] == state,
        }
        for state in ("", *RunState)
    ]
    is_mine = chosen["user"] == _MINE
    mine = address(**{**chosen, "user": "" if is_mine else _MINE})
    return [*chips, {"label": "Mine", "address": mine, "is_on": is_mine}]
