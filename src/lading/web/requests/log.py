"""The log of a request: its end first, earlier lines on demand, search, downloads, and new lines as
they come; the same while it runs and afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from lading.client.api import Record
from lading.client.request_states import shown_command
from lading.core.errors import Invalid, LadingError, NotFound
from lading.core.ids import is_uuid
from lading.core.quantities import duration, size
from lading.process.concurrency import together
from lading.web.requests import files
from lading.web.requests.log_lines import (
    LogLine,
    LogPart,
    LogView,
    around,
    first_lines,
    last_lines,
    read_cursor,
    show_cursor,
)
from lading.web.requests.log_reading import LogFiles
from lading.web.visit import Visit

_MOST_LINES: Final = 500
"""Lines of one view, and of one batch of new lines."""
_HITS: Final = 200
_DEFAULTS: Final = ("stdout.txt", "stderr.txt", "crunch-run.txt")
"""Files that are shown if none is chosen."""
_MOST_FILES: Final = 12
"""Files that are shown together."""
_SUPERVISOR: Final = "crunch-run.txt"
_AMOUNTS: Final = re.compile(r"\b(\d{1,18}(?:/\d{1,18})?) bytes\b", re.ASCII)
_SECONDS: Final = re.compile(r"\b\d{1,12}\.\d{6}\b", re.ASCII)
_USAGE: Final = re.compile(r"((?:Maximum|Total) .*)(?<! was 0 bytes)$")
_LAST_WORDS: Final = 12
"""Lines of the standard error that the page of a failed request shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChoice:
    """Selected part of the log of a request."""

    request: Record
    files: LogFiles
    names: list[str]
    chosen: list[str]
    query: str
    is_default: bool = False
    """Nobody has chosen the files: further ones are shown as soon as they exist."""

    @property
    def lacks_files(self) -> bool:
        """Whether a file exists that a page of nobody's choice would show too."""
        return self.is_default and any(
            name in self.names and name not in self.chosen for name in _DEFAULTS
        )

    def follow_address(self, after: str) -> str:
        """The parameters of the address that has the lines after a place."""
        return self.address(after=after, **({"default": "1"} if self.is_default else {}))

    def address(self, chosen: Sequence[str] | None = None, **more: str) -> str:
        """The parameters of an address that shows the same, but for what is given."""
        pairs = [("c", self.files.container)]
        pairs += [("file", name) for name in (self.chosen if chosen is None else chosen)]
        query = more.pop("q", self.query)
        return urlencode([*pairs, *((("q", query),) if query else ()), *more.items()])

    @property
    def chips(self) -> list[tuple[str, str, bool]]:
        """Name, parameters of the address that adds or removes it, and whether it is shown, of each
        file.
        """
        chips = []
        for name in self.names:
            is_on = name in self.chosen
            others = [chosen for chosen in self.chosen if chosen != name]
            selection = others if is_on else [*self.chosen, name]
            chips.append((name, self.address(selection or [name]), is_on))
        return chips


async def show(visit: Visit) -> Response:
    """A part of a log: its end, or what is before, after or around a place; or a search."""
    choice = await _choose(visit)
    values: dict[str, Any] = {
        "request": choice.request,
        "title": choice.request["name"] or shown_command(choice.request),
        "containers": containers_of(choice.request),
        "choice": choice,
        "base": f"/ui/requests/{choice.request['uuid']}/log",
        "view": None,
        "hits": None,
        "is_live": False,
        "before": "",
        "after": "",
    }
    if choice.chosen and choice.query:
        values["hits"] = await choice.files.find(choice.chosen, choice.query, _HITS)
    elif choice.chosen:
        view, values["is_live"] = await _view(visit, choice)
        values |= {"view": view, **_cursors(view)}
    return visit.page("request_log.html", **values)


async def earlier(visit: Visit) -> Response:
    """The lines before a place, to be put above those that are shown."""
    choice = await _choose(visit)
    view = await _before(choice, visit.query("before"))
    return _lines(visit, choice, view, is_live=False)


async def follow(visit: Visit) -> Response:
    """The lines that came after a place; 204 if none did, and 286, which ends the polling, when the
    request is final.
    """
    choice = await _choose(visit)
    is_final = choice.request["state"] == "Final"
    if choice.lacks_files or (choice.chosen and not visit.query("after")):
        # The page shows no log, or not the files that exist only since it was made: a command may
        # write its first line after the page was opened.
        return Response(status_code=286 if is_final else 204, headers={"HX-Refresh": "true"})
    view = await _after(choice, visit.query("after"))
    if view.lines:
        return _lines(visit, choice, view, is_live=True)
    return Response(status_code=286 if is_final else 204)


async def download(visit: Visit) -> Response:
    """Download of the filtered log: a file as it is, or several in order of time; with a text only
    the lines that have it.
    """
    choice = await _choose(visit)
    if not choice.chosen:
        raise NotFound("There is no log yet")
    uuid = choice.request["uuid"]
    if len(choice.chosen) == 1 and not choice.query:
        name = choice.chosen[0]
        return await files.passed_on(visit, choice.files.path(name), f"{uuid}-{_plain(name)}")
    lines = choice.files.merged(choice.chosen, choice.query)
    return files.saved(lines, f"{uuid}-log.txt")


async def last_words(visit: Visit, uuid: str, container: str) -> list[LogLine]:
    """The last lines of the standard error; of the standard output if there are none."""
    log_files = LogFiles(visit, uuid, container)
    for name in ("stderr.txt", "stdout.txt"):
        try:
            part = await log_files.before(name, None)
        except LadingError:
            continue
        if part.lines:
            return part.lines[-_LAST_WORDS:]
    return []


async def usage(visit: Visit, uuid: str, container: str) -> list[str]:
    """Use of resources by the container, as its supervisor reported it, with bytes and seconds in
    words; empty without its log.
    """
    try:
        part = await LogFiles(visit, uuid, container).before(_SUPERVISOR, None)
    except LadingError:
        return []
    matches = (_USAGE.search(line.content) for line in part.lines)
    return [_in_words(match[1]) for match in matches if match]


def _in_words(line: str) -> str:
    """A line such as `Maximum disk usage was 18%, 1024/4096 bytes`: `18%, 1.0 KiB of 4.0 KiB`."""
    amounts = _AMOUNTS.sub(
        lambda match: " of ".join(map(size, map(int, match[1].split("/")))), line
    )
    return _SECONDS.sub(lambda match: duration(float(match[0])), amounts)


def containers_of(request: Record) -> list[str]:
    """The containers of a request, the present one last."""
    uuids = [*(request["attempted_container_uuids"] or ()), request["container_uuid"]]
    return [uuid for uuid in dict.fromkeys(uuids) if uuid]


async def _choose(visit: Visit) -> LogChoice:
    """Part of the log that the address selects. Raises NotFound."""
    fields = ("uuid", "name", "command", "state", "container_uuid", "attempted_container_uuids")
    request = await visit.api.get("container_requests", visit.parts["uuid"], select=fields)
    container = visit.query("c") or request["container_uuid"] or ""
    query = visit.query("q")
    log_files = LogFiles(visit, request["uuid"], container)
    if not container:
        return LogChoice(request=request, files=log_files, names=[], chosen=[], query=query)
    if not is_uuid(container):
        raise NotFound("There is no such log")
    names = await log_files.names()
    requested = list(dict.fromkeys(visit.incoming.query_params.getlist("file")))
    missing = [name for name in requested if name not in names]
    if missing:
        raise NotFound(f"There is no log file {missing[0][:80]!r}")
    chosen = requested or [name for name in _DEFAULTS if name in names]
    return LogChoice(
        request=request,
        files=log_files,
        names=names,
        chosen=chosen[:_MOST_FILES],
        query=query,
        is_default=not requested or visit.query("default") == "1",
    )


async def _view(visit: Visit, choice: LogChoice) -> tuple[LogView, bool]:
    """The lines that the address asks for, and whether new ones are shown as they come."""
    at, before, after = (visit.query(name) for name in ("at", "before", "after"))
    if at:
        name = choice.chosen[0]
        if not (at.isascii() and at.isdigit() and len(at) < 16):
            raise Invalid("at: must be a number of bytes")
        return around(
            await choice.files.near(name, int(at)), int(at), _MOST_LINES, name=name
        ), False
    if after:
        return await _after(choice, after), False
    if before:
        return await _before(choice, before), False
    is_live = choice.request["state"] != "Final"

    async def read(name: str) -> LogPart:
        return await choice.files.before(name, None, is_growing=is_live)

    return last_lines(await _parts(choice.chosen, read), _MOST_LINES), is_live


async def _before(choice: LogChoice, cursor_text: str) -> LogView:
    cursor = read_cursor(cursor_text, choice.chosen)

    async def read(name: str) -> LogPart:
        return await choice.files.before(name, cursor[name])

    return last_lines(await _parts(choice.chosen, read), _MOST_LINES)


async def _after(choice: LogChoice, cursor_text: str) -> LogView:
    cursor = read_cursor(cursor_text, choice.chosen)
    is_growing = choice.request["state"] != "Final"

    async def read(name: str) -> LogPart:
        return await choice.files.after(name, cursor[name], is_growing=is_growing)

    return first_lines(await _parts(choice.chosen, read), _MOST_LINES)


async def _parts(
    names: Sequence[str], read: Callable[[str], Coroutine[Any, Any, LogPart]]
) -> dict[str, LogPart]:
    """A part of each file, read concurrently."""
    parts: dict[str, LogPart] = {}

    async def read_part(name: str) -> None:
        parts[name] = await read(name)

    await together(*(read_part(name) for name in names))
    return {name: parts[name] for name in names}


def _lines(visit: Visit, choice: LogChoice, view: LogView, *, is_live: bool) -> Response:
    return visit.page(
        "request_log_lines.html",
        view=view,
        choice=choice,
        base=f"/ui/requests/{choice.request['uuid']}/log",
        is_live=is_live,
        **_cursors(view),
    )


def _cursors(view: LogView) -> dict[str, Any]:
    """The cursors of a view, as parameters."""
    return {"before": show_cursor(view.start), "after": show_cursor(view.end)}


def _plain(name: str) -> str:
    return name.replace("/", "-")
