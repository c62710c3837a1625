"""The log of a request: its end first, earlier lines on demand, search, download, and lines as they
come.

Files are read in parts of bounded size, however long they are. Lines are shown without the escape
sequences of terminals.
"""

from __future__ import annotations

import re
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.responses import Response

from lading.client.api import Record
from lading.core.errors import Invalid, LadingError, NotFound
from lading.core.ids import is_uuid
from lading.web.requests import files
from lading.web.visit import Visit

# Lines of one look; a browser shows more of them slowly.
_LINES: Final = 500
_PART: Final = 192 << 10
"""Bytes that are read for one view."""
_SEARCHED: Final = 256 << 20
"""Bytes of a file that a search reads."""
# Found lines that are shown; more are only counted.
_HITS: Final = 200
_LONGEST: Final = 4000
"""Characters of a line that are shown."""
_DEFAULTS: Final = ("stdout.txt", "stderr.txt", "crunch-run.txt")
_SUPERVISOR: Final = "crunch-run.txt"
# 416 Range Not Satisfiable: the log has no further bytes.
_NOTHING_MORE: Final = 416
# The Content-Range of RFC 9110, section 14.4, with a known length.
_RANGE: Final = re.compile(r"bytes (\d+)-\d+/(\d+)")
# The timestamp of a line, to nanoseconds, and the escape sequences of terminals (ECMA-48, 5.4).
_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.?\d*Z ")
# Escape sequences of ECMA-48: CSI, OSC, and those of two characters.
_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
# The sums at the end of `crunchstat.txt`; a sum of nothing is left out.
_USAGE: Final = re.compile(r"((?:Maximum|Total) .*)(?<! was 0 bytes)$")
_LAST_WORDS: Final = 12
"""Lines of the standard error that the page of a failed request shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line that begins at byte `at` of its file."""

    at: int
    stamp: str
    text: str
    is_hit: bool = False

    @property
    def clock(self) -> str:
        """The time of day."""
        return self.stamp[11:]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """Lines of a file from byte `start` up to byte `end`, of `size` bytes in all."""

    lines: list[LogLine]
    start: int
    end: int
    size: int


async def show(visit: Visit) -> Response:
    """A part of a log: its end, or what is before, after or around a byte."""
    request, names, container, name = await _choose(visit)
    values = {
        "request": request,
        "title": request["name"] or request["uuid"],
        "containers": containers_of(request),
        "container": container,
        "names": names,
        "name": name,
        "query": visit.query("q"),
        "base": _base(request["uuid"]),
        "here": urlencode({"c": container, "file": name}),
    }
    if not name:
        return visit.page("request_log.html", **values, part=None, hits=None, is_live=False)
    path = _path(request["uuid"], container, name)
    if values["query"]:
        hits = await _search(visit, path, str(values["query"]))
        return visit.page("request_log.html", **values, part=None, hits=hits, is_live=False)
    before, at = _number(visit, "before"), _number(visit, "at")
    is_live = request["state"] != "Final" and before is None and at is None
    if at is not None:
        part = await _around(visit, path, at)
    else:
        part = await _before(visit, path, before, is_growing=is_live)
    return visit.page("request_log.html", **values, part=part, hits=None, is_live=is_live)


async def follow(visit: Visit) -> Response:
    """The lines that came after a byte; 204 if none did, and 286, which ends the polling, when the
    request is final.
    """
    uuid, container, name = visit.parts["uuid"], visit.query("c"), visit.query("file")
    _check(container, name)
    part = await _after(visit, _path(uuid, container, name), _number(visit, "after") or 0)
    if part.lines:
        return visit.page(
            "request_log_lines.html",
            part=part,
            base=_base(uuid),
            here=urlencode({"c": container, "file": name}),
            is_live=True,
        )
    state = await visit.api.get("container_requests", uuid, select=("state",))
    return Response(status_code=286 if state["state"] == "Final" else 204)


async def download(visit: Visit) -> Response:
    """A whole file, to be saved."""
    uuid, container, name = visit.parts["uuid"], visit.query("c"), visit.query("file")
    _check(container, name)
    saved = f"{uuid}-{name.replace('/', '-')}"
    return await files.passed_on(visit, _path(uuid, container, name), saved)


async def last_words(visit: Visit, uuid: str, container: str) -> list[LogLine]:
    """The last lines of the standard error; of the standard output if there are none."""
    for name in ("stderr.txt", "stdout.txt"):
        try:
            part = await _before(visit, _path(uuid, container, name), None)
        except LadingError:
            continue
        if part.lines:
            return part.lines[-_LAST_WORDS:]
    return []


async def usage(visit: Visit, uuid: str, container: str) -> list[str]:
    """What the container used, as its supervisor has summed it up; empty without its log."""
    try:
        part = await _before(visit, _path(uuid, container, _SUPERVISOR), None)
    except LadingError:
        return []
    found = (_USAGE.search(line.text) for line in part.lines)
    return [match[1] for match in found if match]


async def _choose(visit: Visit) -> tuple[Record, list[str], str, str]:
    """The request, the names of its log files, and the container and file that are shown."""
    fields = ("uuid", "name", "state", "container_uuid", "attempted_container_uuids")
    request = await visit.api.get("container_requests", visit.parts["uuid"], select=fields)
    container = visit.query("c") or request["container_uuid"] or ""
    if not container:
        return request, [], "", ""
    _check(container, "x")
    listing: Any = await visit.api.request(
        "GET", f"container_requests/{request['uuid']}/log/{container}/"
    )
    names = sorted(str(one["name"]) for one in listing["items"])
    name = visit.query("file") or next((one for one in _DEFAULTS if one in names), "")
    if name and name not in names:
        raise NotFound(f"There is no log file {name[:80]!r}")
    return request, names, container, name


def containers_of(request: Record) -> list[str]:
    """The containers of a request, the present one last."""
    known = [*(request["attempted_container_uuids"] or ()), request["container_uuid"]]
    return [one for one in dict.fromkeys(known) if one]


def _check(container: str, name: str) -> None:
    if not is_uuid(container) or not name or ".." in name.split("/"):
        raise NotFound("There is no such log")


def _base(uuid: str) -> str:
    return f"/ui/requests/{uuid}/log"


def _path(uuid: str, container: str, name: str) -> str:
    return f"/arvados/v1/container_requests/{uuid}/log/{container}/{quote(name)}"


def _number(visit: Visit, name: str) -> int | None:
    text = visit.query(name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise Invalid(f"{name}: must be a number of bytes")
    return int(text)


async def _read(visit: Visit, path: str, span: str) -> tuple[bytes, int, int]:
    """Bytes of a range, its start, and the size of the file; nothing behind the end."""
    try:
        answer = await visit.api.raw("GET", path, headers={"Range": f"bytes={span}"})
    except LadingError as error:
        if error.status != _NOTHING_MORE:
            raise
        return b"", 0, 0
    match = _RANGE.fullmatch(answer.headers.get("content-range", ""))
    if match is None:
        return answer.body, 0, len(answer.body)
    return answer.body, int(match[1]), int(match[2])


async def _before(visit: Visit, path: str, end: int | None, *, is_growing: bool = False) -> LogPart:
    """The last lines before byte `end`, or of the file; of one that is growing, whole lines."""
    span = f"-{_PART}" if end is None else f"{max(0, end - _PART)}-{end - 1}"
    if end == 0:
        return LogPart(lines=[], start=0, end=0, size=0)
    data, start, size = await _read(visit, path, span)
    if is_growing:
        data = data[: data.rfind(b"\n") + 1]
    lines = _split(data, start, is_cut=start > 0)[-_LINES:]
    first = lines[0].at if lines else start
    return LogPart(lines=lines, start=first, end=start + len(data), size=size)


async def _around(visit: Visit, path: str, at: int) -> LogPart:
    """The lines around the line that begins at byte `at`."""
    begin = max(0, at - _PART // 2)
    data, start, size = await _read(visit, path, f"{begin}-{at + _PART // 2}")
    lines = _split(data, start, is_cut=start > 0, hit=at)
    middle = next((place for place, one in enumerate(lines) if one.is_hit), 0)
    chosen = lines[max(0, middle - _LINES // 2) : middle + _LINES // 2]
    first = chosen[0].at if chosen else start
    return LogPart(lines=chosen, start=first, end=start + len(data), size=size)


async def _after(visit: Visit, path: str, start: int) -> LogPart:
    """The whole lines after byte `start`."""
    data, _, size = await _read(visit, path, f"{start}-{start + _PART - 1}")
    # The last line may still be growing, unless it fills the part.
    whole = data[: data.rfind(b"\n") + 1] or (data if len(data) == _PART else b"")
    lines = _split(whole, start, is_cut=False)
    return LogPart(lines=lines, start=start, end=start + len(whole), size=size)


async def _search(visit: Visit, path: str, text: str) -> list[LogLine]:
    """The first lines with a text, upper and lower case being the same."""
    wanted, found, at, rest = text.encode().lower(), list[LogLine](), 0, b""
    async with visit.api.stream(path) as answer, aclosing(_bounded(answer.chunks)) as pieces:
        async for piece in pieces:
            data = rest + piece
            *lines, rest = data.split(b"\n")
            for line in lines:
                if wanted in line.lower():
                    found.append(_line(line, at))
                at += len(line) + 1
            if len(found) >= _HITS:
                return found[:_HITS]
            # A line without an end must not fill the memory.
            if len(rest) > _PART:
                at, rest = at + len(rest), b""
    return [*found, _line(rest, at)] if wanted in rest.lower() else found


async def _bounded(chunks: Any) -> Any:
    left = _SEARCHED
    async for piece in chunks:
        yield piece[:left]
        left -= len(piece)
        if left <= 0:
            return


def _split(data: bytes, start: int, *, is_cut: bool, hit: int | None = None) -> list[LogLine]:
    """The lines of some bytes; `is_cut`: the first one may have begun earlier and is left out."""
    parts = data.split(b"\n")
    if not parts[-1]:
        parts.pop()
    if is_cut and len(parts) > 1:
        start += len(parts[0]) + 1
        parts = parts[1:]
    lines = []
    for part in parts:
        lines.append(_line(part, start, is_hit=start == hit))
        start += len(part) + 1
    return lines


def _line(data: bytes, at: int, *, is_hit: bool = False) -> LogLine:
    text = data.decode(errors="replace")
    stamp = _STAMP.match(text)
    if stamp:
        text = text[stamp.end() :]
    # A progress bar writes over itself: its last state counts.
    shown = _ESCAPE.sub("", text.rstrip("\r").rpartition("\r")[2])
    cut = f"{shown[:_LONGEST]}… ({len(shown)} characters)" if len(shown) > _LONGEST else shown
    return LogLine(at=at, stamp=stamp[1] if stamp else "", text=cut, is_hit=is_hit)
