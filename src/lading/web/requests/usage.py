"""Use of resources by a container over time, beside the requested amounts: a table, which a script
plots.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from lading.client.request_states import shown_command, state_of
from lading.core.containers.log_files import UsageHistory, UsagePoint
from lading.core.errors import LadingError, NotFound
from lading.core.ids import is_uuid
from lading.web.requests import log, machine
from lading.web.requests.page import request_uuid
from lading.web.visit import Visit

_FILE: Final = "crunchstat.txt"
# Points of a curve: more cannot be told apart in its width.
_MOST_POINTS: Final = 200
_READ: Final = 64 << 20
"""Bytes of the file that are read: three weeks of samples each 10 s."""
_LONGEST: Final = 1 << 12
"""Bytes of a line that may be a sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCurve:
    """A column of the table: its attribute in `UsagePoint`, its name, and how values are shown."""

    key: str
    name: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePlot:
    """A plot of one or two columns; `limit` is what was asked for, if anything was."""

    key: str
    title: str
    curves: tuple[UsageCurve, ...]
    limit: float | None
    limit_name: str = "asked for"


async def show(visit: Visit) -> Response:
    """The page with the plots and their table."""
    return visit.page("usage.html", **await _values(visit))


async def refresh(visit: Visit) -> Response:
    """The table alone, for a container that runs."""
    return visit.page("usage_table.html", **await _values(visit))


async def _values(visit: Visit) -> dict[str, Any]:
    request = await visit.api.get("container_requests", request_uuid(visit))
    attempts = log.containers_of(request)
    chosen = _chosen(visit, attempts)
    container = await visit.api.get("containers", chosen) if chosen else None
    points = await _points(visit, request["uuid"], chosen) if chosen else []
    state = state_of(request, container)
    constraints: Mapping[str, Any] = (container or {}).get("runtime_constraints") or {}
    return {
        "request": request,
        "title": request["name"] or shown_command(request),
        "attempts": attempts,
        "container": chosen,
        "points": points,
        "begin": points[0].at if points else 0.0,
        "plots": list(_plots(constraints, points)),
        "is_live": state == "Running" and chosen == request["container_uuid"],
        "machine": await machine.describe(visit, request["uuid"], chosen) if chosen else "",
    }


def _chosen(visit: Visit, attempts: list[str]) -> str:
    """The attempt that the address names, or the last one; "" while there is none. Raises
    NotFound.
    """
    chosen = visit.query("c") or (attempts[-1] if attempts else "")
    if chosen and (not is_uuid(chosen) or chosen not in attempts):
        raise NotFound("There is no such attempt")
    return chosen


def _plots(constraints: Mapping[str, Any], points: list[UsagePoint]) -> Iterator[UsagePlot]:
    """The plots for which there are values."""
    vcpus, ram = (_number(constraints.get(name)) for name in ("vcpus", "ram"))
    gpus: Mapping[str, Any] = constraints.get("gpu") or {}
    plots = (
        _plot("cpu", "Processors", "number", {"cpu": "in use"}, asked=vcpus),
        _plot("memory", "Memory", "bytes", {"memory": "in use"}, asked=ram),
        _plot("gpu", "GPUs", "number", {"gpu": "in use"}, asked=_number(gpus.get("device_count"))),
        _plot("gpu-memory", "Memory of GPUs", "bytes", {"gpu_memory": "in use"}),
        _plot("disk", "Disk", "rate", {"disk_read": "read", "disk_written": "written"}),
        _plot("network", "Network", "rate", {"received": "received", "sent": "sent"}),
    )
    for plot in plots:
        if any(getattr(point, curve.key) is not None for point in points for curve in plot.curves):
            yield plot


def _plot(
    key: str, title: str, unit: str, curves: Mapping[str, str], *, asked: float | None = None
) -> UsagePlot:
    """A plot of columns, given by key and name; `asked` is the amount that the request wants."""
    return UsagePlot(
        key=key,
        title=title,
        curves=tuple(
            UsageCurve(key=column, name=name, unit=unit) for column, name in curves.items()
        ),
        limit=asked,
    )


def _number(value: Any) -> float | None:
    if isinstance(value, list):
        value = max(value, default=None)
    return float(value) if isinstance(value, int | float) and value > 0 else None


async def _points(visit: Visit, request: str, container: str) -> list[UsagePoint]:
    history = UsageHistory(most=_MOST_POINTS)
    path = f"/arvados/v1/container_requests/{request}/log/{container}/{_FILE}"
    try:
        async with visit.api.stream(path) as answer, aclosing(_lines(answer.chunks)) as lines:
            async for line in lines:
                history.add(line.decode(errors="replace"))
    except LadingError:
        # There is no log yet, or it may not be read: then there are no samples.
        return []
    return history.points


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    left, unfinished = _READ, b""
    async for piece in chunks:
        *lines, unfinished = (unfinished + piece).split(b"\n")
        for line in lines:
            yield line
        left -= len(piece)
        if left <= 0 or len(unfinished) > _LONGEST:
            return
