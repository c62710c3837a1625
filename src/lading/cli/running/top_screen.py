"""The screen of `lading top`: a `QueuePicture` as tables and bars of rich, or as one line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lading.cli import display
from lading.cli.running.queue_picture import EndedRequest, QueuePicture, RunningRequest
from lading.core.quantities import parse_time
from lading.core.request_status import RequestStatus

# Columns of a bar at most: one for each 5 %.
_BAR = 20
_NARROW = 100
"""Characters of a screen below which the needs are left out."""
_LEAST = 16
"""Characters of a name that are always shown."""
_BESIDE, _BESIDE_NARROW = 84, 62
"""Characters that the other columns of a wide and a narrow screen need."""
_BESIDE_BAR = 54
"""Characters that the columns of a narrow screen need without the bar."""
_LEAST_BAR = 5
"""Columns of a bar below which it is left out."""
# Status, style, and the character of the bar: it is read without colours too.
_SEGMENTS = (
    ("done", "green", "█"),
    ("failed", "red", "▓"),
    ("cancelled", "yellow", "▓"),
    ("running", "cyan", "▒"),
    ("waiting", "bright_black", "░"),
)
_ROWS_BESIDE = 12
"""Lines of the screen that are neither runs nor ends."""


def screen(picture: QueuePicture, *, width: int, height: int) -> RenderableType:
    """The picture for a terminal of this size, in characters."""
    room = max(4, height - _ROWS_BESIDE)
    runs = picture.runs[: max(2, room * 2 // 3)]
    ends = picture.ends[: max(2, room - len(runs))]
    parts: list[RenderableType] = [
        _title(picture),
        Text(),
        bar(picture, width),
        _legend(picture),
        Text(),
    ]
    if runs:
        parts += [_running(runs, len(picture.runs), width), Text()]
    if picture.head is not None:
        parts += [_head(picture), Text()]
    if ends:
        parts.append(_ended(ends, picture.at, width))
    if not picture.total:
        parts.append(Text("nothing waits, runs or has ended; submit with: lading run, lading map"))
    return Group(*parts)


def line(picture: QueuePicture) -> str:
    """The picture in one line, for logs."""
    parts = [f"{_count(picture, name)} {name}" for name, *_ in reversed(_SEGMENTS)]
    counts = ", ".join(count for count in parts if not count.startswith("0 cancelled"))
    more = "".join(f"; {pace}" for pace in _pace(picture))
    head = picture.head
    if head is not None:
        more += f"; next {head['name']}: {head['why']}"
    return display.plain(f"{_clock(picture.at)}  {counts}{more}")


def bar(picture: QueuePicture, width: int) -> Text:
    """All requests as one bar: a part for each state, of at least one character."""
    drawing = Text()
    if not picture.total:
        return Text("─" * width, style="bright_black")
    counts = {name: _count(picture, name) for name, *_ in _SEGMENTS}
    sizes = {
        name: max(1, width * count // picture.total) for name, count in counts.items() if count
    }
    # The remainder of rounding goes to the largest part.
    largest = max(sizes, key=lambda name: sizes[name])
    sizes[largest] += width - sum(sizes.values())
    for name, style, block in _SEGMENTS:
        drawing.append(block * sizes.get(name, 0), style=style)
    return drawing


def _title(picture: QueuePicture) -> Text:
    title = Text()
    title.append("lading top", style="bold")
    title.append("".join(f"  {fact}" for fact in (_clock(picture.at), *_pace(picture))))
    return title


def _legend(picture: QueuePicture) -> Text:
    legend = Text()
    for name, style, _ in _SEGMENTS:
        if count := _count(picture, name):
            legend.append(f"{count} {name}", style=style)
            legend.append("   ")
    legend.rstrip()
    return legend


def _pace(picture: QueuePicture) -> list[str]:
    facts = []
    if picture.per_minute:
        facts.append(f"{picture.per_minute:g} a minute")
    if picture.reused:
        facts.append(f"{picture.reused} reused")
    if picture.seconds_left is not None:
        facts.append(f"about {_about(picture.seconds_left)} left")
    return facts


def _running(runs: Sequence[RunningRequest], total: int, width: int) -> Table:
    title = "RUNNING" if len(runs) == total else f"RUNNING ({len(runs)} of {total})"
    has_needs = width >= _NARROW
    size = min(_BAR, width - _BESIDE_BAR)
    has_bar = size >= _LEAST_BAR
    more = [*([""] if has_bar else []), *(["NEEDS"] if has_needs else [])]
    table = _table(title, "REQUEST", "FOR", "OF ABOUT", *more)
    for request in runs:
        needs = f"{request.vcpus} vcpus, {display.size(request.ram)}"
        needs += f", {display.plain(request.gpus)}" if request.gpus else ""
        expected = "" if request.expected is None else _time(request.expected)
        table.add_row(
            _name(request.name, width),
            request.uuid[-15:],
            _time(request.seconds),
            expected,
            *([_part(request, size)] if has_bar else []),
            *([needs] if has_needs else []),
        )
    return table


def _part(request: RunningRequest, size: int) -> Text:
    """The bar of one request; a request that takes longer than expected is marked."""
    if request.part is None:
        return Text("·" * size, style="bright_black")
    full = round(size * request.part)
    style = "yellow" if request.part >= 1 else "cyan"
    return Text("━" * full, style=style) + Text("─" * (size - full), style="bright_black")


def _head(picture: QueuePicture) -> Text:
    head = picture.head or {}
    text = Text()
    text.append("NEXT  ", style="bold")
    text.append(f"{display.plain(head['name'])} ({head['uuid'][-15:]})")
    if head["why"]:
        text.append(f": {display.plain(head['why'])}", style="yellow")
    return text


def _ended(ends: Sequence[EndedRequest], at: str, width: int) -> Table:
    table = _table("ENDED", "REQUEST", "STATE", "TOOK", "AGO")
    now = datetime.fromisoformat(at)
    for end in ends:
        is_good = end.status == RequestStatus.DONE
        state = "reused" if is_good and end.is_reused else end.status
        ago = max(0.0, (now - parse_time(end.ended_at)).total_seconds())
        table.add_row(
            _name(end.name, width),
            end.uuid[-15:],
            Text(state, style="green" if is_good else "red"),
            "" if end.seconds is None else _time(end.seconds),
            _about(ago),
        )
    return table


def _table(title: str, *headings: str) -> Table:
    """A table without lines, whose rows are one line each."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in (title, *headings):
        table.add_column(heading, no_wrap=True)
    return table


def _name(name: str, width: int) -> Text:
    """A name, cut so that the other columns have room."""
    limit = max(_LEAST, width - (_BESIDE if width >= _NARROW else _BESIDE_NARROW))
    return Text(display.shorten(display.plain(" ".join(name.split())), limit))


def _time(seconds: float) -> str:
    """For example `0:07`, `1:30`, `26:03:59`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _about(seconds: float) -> str:
    """A length of time without parts of a second, which would tell of an accuracy that is none."""
    return f"{seconds:.0f} s" if seconds < 10 else display.duration(seconds)


def _count(picture: QueuePicture, name: str) -> int:
    count: int = picture.succeeded if name == RequestStatus.DONE else getattr(picture, name)
    return count


def _clock(at: str) -> str:
    return datetime.fromisoformat(at).astimezone().strftime("%H:%M:%S")
