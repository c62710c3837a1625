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
    said = ", ".join(part for part in parts if not part.startswith("0 cancelled"))
    more = "".join(f"; {text}" for text in _pace(picture))
    head = picture.head
    if head is not None:
        more += f"; next {head['name']}: {head['why']}"
    return display.plain(f"{_clock(picture.at)}  {said}{more}")


def bar(picture: QueuePicture, width: int) -> Text:
    """All requests as one bar: a part for each state, of at least one character."""
    text = Text()
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
        text.append(block * sizes.get(name, 0), style=style)
    return text


def _title(picture: QueuePicture) -> Text:
    text = Text()
    text.append("lading top", style="bold")
    text.append("".join(f"  {said}" for said in (_clock(picture.at), *_pace(picture))))
    return text


def _legend(picture: QueuePicture) -> Text:
    text = Text()
    for name, style, _ in _SEGMENTS:
        if count := _count(picture, name):
            text.append(f"{count} {name}", style=style)
            text.append("   ")
    text.rstrip()
    return text


def _pace(picture: QueuePicture) -> list[str]:
    said = []
    if picture.per_minute:
        said.append(f"{picture.per_minute:g} a minute")
    if picture.reused:
        said.append(f"{picture.reused} reused")
    if picture.seconds_left is not None:
        said.append(f"about {_about(picture.seconds_left)} left")
    return said


def _running(runs: Sequence[RunningRequest], total: int, width: int) -> Table:
    title = "RUNNING" if len(runs) == total else f"RUNNING ({len(runs)} of {total})"
    has_needs = width >= _NARROW
    size = min(_BAR, width - _BESIDE_BAR)
    has_bar = size >= _LEAST_BAR
    more = [*([""] if has_bar else []), *(["NEEDS"] if has_needs else [])]
    table = _table(title, "REQUEST", "FOR", "OF ABOUT", *more)
    for one in runs:
        needs = f"{one.vcpus} vcpus, {display.size(one.ram)}"
        needs += f", {display.plain(one.gpus)}" if one.gpus else ""
        expected = "" if one.expected is None else _time(one.expected)
        table.add_row(
            _name(one.name, width),
            one.uuid[-15:],
            _time(one.seconds),
            expected,
            *([_part(one, size)] if has_bar else []),
            *([needs] if has_needs else []),
        )
    return table


def _part(one: RunningRequest, size: int) -> Text:
    """The bar of one request; what takes longer than expected is marked."""
    if one.part is None:
        return Text("·" * size, style="bright_black")
    full = round(size * one.part)
    style = "yellow" if one.part >= 1 else "cyan"
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
    for one in ends:
        is_good = one.status == RequestStatus.DONE
        state = "reused" if is_good and one.is_reused else one.status
        ago = max(0.0, (now - parse_time(one.ended_at)).total_seconds())
        table.add_row(
            _name(one.name, width),
            one.uuid[-15:],
            Text(state, style="green" if is_good else "red"),
            "" if one.seconds is None else _time(one.seconds),
            _about(ago),
        )
    return table


def _table(title: str, *headings: str) -> Table:
    """A table without lines, whose rows are one line each."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in (title, *headings):
        table.add_column(heading, no_wrap=True)
    return table


def _name(text: str, width: int) -> Text:
    """A name, cut so that the other columns have room."""
    limit = max(_LEAST, width - (_BESIDE if width >= _NARROW else _BESIDE_NARROW))
    return Text(display.shorten(display.plain(" ".join(text.split())), limit))


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
