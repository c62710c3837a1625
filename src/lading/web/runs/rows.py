"""Rows of the list of runs, and the names of their users and projects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from markupsafe import Markup

from lading.client.api import Record
from lading.client.request_states import REUSED
from lading.core.containers.attempts.spot import about
from lading.core.errors import LadingError
from lading.core.ids import Infix, infix_of, is_uuid
from lading.core.quantities import parse_time
from lading.core.runs.states import RunState
from lading.process.concurrency import together
from lading.web.visit import Visit

BAR_WIDTH: Final = 200
"""Width of the bar of a run in units of its drawing."""
_BARS: Final = 512
"""Bars that are kept: a list shows the same few in most rows."""
_LIVE: Final = (RunState.WAITING, RunState.RUNNING)
# The order in a bar: work that ended on the left, as in a bar of progress.
_SHARES: Final = (
    ("done", "good"), ("failed", "bad"), ("cancelled", "off"), ("running", "run"),
    ("waiting", "wait"), ("draft", "plain"),
)  # fmt: skip
_LEAST: Final = 3.0
"""Width of a share of few steps among thousands, which must be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarShare:
    """A part of a bar: the look of a state, and where it is."""

    look: str
    x: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run as the list shows it; `uuid` is that of its project, or of the request of its runner.

    `seconds` are those from its beginning to its end, or to now; None for a run without steps.
    `left` is the time until its expected end in words, "" where none is expected.
    """

    uuid: str
    name: str
    attempt: int
    state: str
    note: str
    params: str
    shares: tuple[BarShare, ...]
    summary: str
    user: str
    user_uuid: str
    project: str
    project_uuid: str
    cost: float
    began_at: str
    seconds: float | None
    left: str

    @property
    def bar(self) -> Markup:
        """The bar of its steps."""
        return draw_bar(self.shares, self.summary)


async def make_rows(visit: Visit, runs: Sequence[Record]) -> list[RunRow]:
    """The rows of these runs, with the names of users and projects, which two calls fetch."""
    names = await names_of(
        visit, {str(run[key] or "") for run in runs for key in ("owner_uuid", "user_uuid")}
    )
    now = visit.services.clock().timestamp()
    return [_row(run, names, now) for run in runs]


async def names_of(visit: Visit, uuids: Iterable[str]) -> dict[str, str]:
    """The names of users and projects by their uuids; of records that the reader cannot read the
    uuids.
    """
    asked = sorted(uuid for uuid in uuids if is_uuid(uuid))
    names = dict(zip(asked, asked, strict=True))
    if visit.session is not None and visit.session.user_uuid in names:
        names[visit.session.user_uuid] = visit.session.user_name

    async def look_up(plural: str, kind: Infix, attribute: str) -> None:
        same = [uuid for uuid in asked if infix_of(uuid) == kind and names[uuid] == uuid]
        if not same:
            return
        # A token of limited scope reads no users, which is no reason not to show the runs.
        with suppress(LadingError):
            records = await visit.api.list(
                plural,
                filters=[["uuid", "in", same]],
                select=("uuid", attribute),
                limit=len(same),
            )
            names.update(
                {record["uuid"]: record[attribute] for record in records if record[attribute]}
            )

    await together(look_up("users", Infix.USER, "username"), look_up("groups", Infix.GROUP, "name"))
    return names


def shown_state(run: Record) -> str:
    """The state of a run in a word; a run whose every result is an earlier one is reused."""
    counts = run["counts"]
    is_reused = run["state"] == RunState.DONE and 0 < counts["total"] == counts["reused"]
    return str(run["state"]) + (REUSED if is_reused else "")


def bar_shares(counts: Mapping[str, Any], width: float = BAR_WIDTH) -> tuple[BarShare, ...]:
    """The bar of some steps: a share for each state, none so small that it cannot be seen."""
    numbers = [(look, counts[word]) for word, look in _SHARES if counts[word]]
    total = sum(number for _, number in numbers)
    sizes = [max(_LEAST, width * number / total) for _, number in numbers]
    scale = width / sum(sizes) if sizes else 1.0
    shares: list[BarShare] = []
    x = 0.0
    for (look, _), size in zip(numbers, sizes, strict=True):
        shares.append(BarShare(look=look, x=round(x, 1), width=round(size * scale, 1)))
        x += size * scale
    return tuple(shares)


@lru_cache(maxsize=_BARS)
def draw_bar(shares: tuple[BarShare, ...], summary: str) -> Markup:
    """A bar as an element; `summary` says the same in words."""
    rectangles = Markup().join(
        Markup('<rect class="{}" x="{}" width="{}" height="10"></rect>').format(
            share.look, share.x, share.width
        )
        for share in shares
    )
    return Markup(
        '<svg class="drawing shares" viewBox="0 0 {width} 10" preserveAspectRatio="none" role="img"'
        ' aria-label="{summary}"><rect class="ground" width="{width}" height="10"></rect>'
        "{rectangles}</svg>"
    ).format(width=BAR_WIDTH, summary=summary, rectangles=rectangles)


def summary_of(counts: Mapping[str, Any], noun: str = "step") -> str:
    """The steps of a run in words: `12 steps: 10 done (4 reused), 2 failed`."""
    total = counts["total"]
    if not total:
        return "no steps yet"
    words = [
        f"{counts[word]} {word}"
        + (f" ({counts['reused']} reused)" if word == "done" and counts["reused"] else "")
        for word, _ in _SHARES
        if counts[word]
    ]
    return f"{total} {noun}{'' if total == 1 else 's'}: {', '.join(words)}"


def shown_params(params: Mapping[str, Any]) -> str:
    """Parameters in one line: `k=31, reads=a.fq`."""
    return ", ".join(f"{name}={shown_value(value)}" for name, value in params.items())


def shown_value(value: object) -> str:
    """A parameter as a reader would write it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def seconds_of(run: Record, now: float) -> float | None:
    """Seconds from the beginning of a run to its end, or to `now`; None for one without steps."""
    if not run["counts"]["total"]:
        return None
    end = run["ended_at"] or run["finished_at"]
    is_over = run["state"] not in _LIVE and end
    until = parse_time(end).timestamp() if is_over else now
    return max(0.0, until - parse_time(run["began_at"]).timestamp())


def _left(run: Record, now: float) -> str:
    end = run.get("expected_end")
    return about(max(0.0, parse_time(end).timestamp() - now)) if end else ""


def _row(run: Record, names: Mapping[str, str], now: float) -> RunRow:
    owner = str(run["owner_uuid"])
    is_home = infix_of(owner) == Infix.USER
    user = str(run["user_uuid"] or "")
    return RunRow(
        uuid=run["uuid"],
        name=run["name"] or run["uuid"],
        attempt=run["attempt"],
        state=shown_state(run),
        note=run["note"],
        params=shown_params(run["params"]),
        shares=bar_shares(run["counts"]),
        summary=summary_of(run["counts"]),
        user=names.get(user, user),
        user_uuid=user,
        project=f"Home of {names.get(owner, owner)}" if is_home else names.get(owner, owner),
        project_uuid=owner,
        cost=run["cost"],
        began_at=run["began_at"],
        seconds=seconds_of(run, now),
        left=_left(run, now),
    )
