"""Templates: every text is escaped, and characters that could mislead a reader are marked.

Names, logs, file names and properties are written by strangers. Control characters and those that
change the direction of text are shown by their code, so that no name can look like another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape

from lading.client.request_states import REUSED
from lading.core.quantities import age, duration, parse_time, shorten, size
from lading.core.request_status import RequestStatus

_HERE: Final = Path(__file__).parent
_STATES: Final = 512
"""States whose elements are kept: a list shows the same few in each row."""
STATIC: Final = _HERE / "static"
_VENDOR: Final = ("htmx.min.js", "sse.min.js", "xterm.js", "uPlot.iife.min.js")
"""Files that `scripts/assets.sh` fetches, without which the page has no live updates, no plots and
no terminal.
"""
# A shape beside the word and the colour: states must not be told apart by colour alone.
_SHAPES: Final[dict[str, tuple[str, str]]] = {
    RequestStatus.RUNNING: ("run", "▶"),
    RequestStatus.DONE: ("good", "✓"),
    RequestStatus.FAILED: ("bad", "✗"),
    RequestStatus.CANCELLED: ("off", "⊘"),
    RequestStatus.WAITING: ("wait", "…"),
}


class Renderer:
    """Makes HTML from the templates."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            finalize=visible,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        environment.filters |= {
            "age": self._age,
            "bytes": size,
            "amount": amount,
            "dollars": dollars,
            "exact": exact,
            "look": look,
            "moment": moment,
            "seconds": duration,
            "tick": tick,
            "segment": lambda value: quote(str(value), safe=""),
            "short": shorten,
            "state": state,
            "worst": worst,
            "worst_first": worst_first,
            "path": lambda value: quote(str(value), safe="/"),
        }
        environment.globals |= {"has_scripts": has_scripts()}
        self._environment = environment

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        """The text of a template. Raises jinja2.TemplateError for a fault of ours."""
        return self._environment.get_template(template).render(values)

    def _age(self, timestamp: str | None) -> Markup:
        """Time since a timestamp, with the exact time as its title."""
        if not timestamp:
            return Markup("")
        # A list has one for each row, and Markup.format takes as long as the rest of the row.
        words = escape(f"{age(timestamp, self._clock())} ago")
        return Markup(
            f'<time datetime="{escape(timestamp)}" title="{escape(shown_moment(timestamp))}">'
            f"{words}</time>"
        )


def has_scripts() -> bool:
    """Whether the fetched scripts are there."""
    return all((STATIC / "vendor" / name).is_file() for name in _VENDOR)


def visible(value: object) -> object:
    """The value of an expression as it is put into the page, before it is escaped."""
    if isinstance(value, Markup) or not isinstance(value, str) or value.isprintable():
        return value
    return "".join(
        character if character.isprintable() or character in "\n\t" else _code(character)
        for character in value
    )


def exact(name: str) -> Markup:
    """The name of a file, so that two names never look alike: line breaks and tabs by their codes,
    and blanks as they are.
    """
    shown = "".join(
        character if character.isprintable() else _code(character) for character in name
    )
    return Markup('<span class="exact">{}</span>').format(shown)


def _code(character: str) -> str:
    return character.encode("unicode_escape").decode()


def shown_moment(timestamp: str) -> str:
    """A timestamp of the API to the second, with its zone."""
    return parse_time(timestamp).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def moment(timestamp: str | None) -> Markup:
    """A timestamp as an element."""
    if not timestamp:
        return Markup("")
    return Markup('<time datetime="{}">{}</time>').format(timestamp, shown_moment(timestamp))


def amount(value: float | None, unit: str) -> str:
    """A number, bytes or a rate of bytes; "" if it is not known."""
    if value is None:
        return ""
    if unit == "number":
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return size(round(value)) + ("/s" if unit == "rate" else "")


def dollars(amount: float) -> str:
    """An amount of money, small ones too: `$12.90`, `$0.0004`."""
    return f"${amount:,.2f}" if amount >= 0.01 else f"${amount:.4f}"


def tick(seconds: float) -> str:
    """A place on an axis of time: as a duration, with a decimal where two places next to each other
    would have one name.
    """
    text = duration(seconds)
    unit = {"min": 60.0, "h": 3600.0, "d": 86400.0}.get(text.partition(" ")[2])
    if unit is None or seconds >= 10 * unit:
        return text
    return f"{seconds / unit:.1f} {text.partition(' ')[2]}"


def look(state_text: str) -> tuple[str, str]:
    """The class and the shape of a state."""
    word, reused = state_text.removesuffix(REUSED), state_text.endswith(REUSED)
    kind, shape = _SHAPES.get(word.partition(" ")[0], ("plain", "•"))
    return kind, "↺" if reused and kind == "good" else shape


class _Step(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def state(self) -> str: ...


_Item = TypeVar("_Item", bound=_Step)


def worst(states: Iterable[str]) -> str:
    """Of several states that which a reader must see first."""
    return min(states, key=_rank)


def worst_first(items: Iterable[_Item], most: int) -> list[_Item]:
    """At most `most` items, those first that a reader must see first, then by name: `sort_9` comes
    before `sort_10`.
    """
    return sorted(items, key=lambda item: (_rank(item.state), _numbered(item.name)))[:most]


def _numbered(name: str) -> list[tuple[int, str]]:
    parts = re.findall(r"\d{1,18}|\D+", name, re.ASCII)
    return [(int(piece), "") if piece[0] in "0123456789" else (-1, piece) for piece in parts]


def _rank(state: str) -> int:
    return ("bad", "off", "run", "wait", "plain", "good").index(look(state)[0])


@lru_cache(maxsize=_STATES)
def state(state_text: str) -> Markup:
    """A state as a word with a shape and a colour."""
    kind, shape = look(state_text)
    return Markup('<span class="state {}"><span aria-hidden="true">{}</span> {}</span>').format(
        kind, shape, state_text
    )
