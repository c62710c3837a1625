"""State diagrams of the transition tables as SVG, for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

from lading.core.containers import container, request_phases
from lading.core.drawing.layered import layers
from lading.core.hpc import daemon_states

_State = TypeVar("_State", bound=StrEnum)
_WIDTH: Final = 110
_HEIGHT: Final = 34
_GAP: Final = 70
"""Between two columns of states."""
_ROW: Final = 76
_MARGIN: Final = 46
_STYLE: Final = (
    "svg{background:#fff}text{font:14px sans-serif;text-anchor:middle;fill:#1b1f24}"
    ".state{fill:#ddf4ff;stroke:#57606a}.way{fill:none;stroke:#57606a}"
    ".dot{fill:#1b1f24;stroke:none}.ring{fill:none;stroke:#1b1f24}"
)
_ARROW: Final = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><path d="M0 0L8 4L0 8z" fill="#57606a"/></marker>'
)
_Point = tuple[float, float]


def render(
    transitions: Mapping[_State, Iterable[_State]], *, initial: Iterable[_State], title: str
) -> str:
    """A picture of a table: a state each, an arrow for each transition.

    A dot leads to initial states, a ring follows final ones. `title` is read to people who do not
    see the picture.
    """
    ways = [(str(one), str(other)) for one, others in transitions.items() for other in others]
    columns = layers([str(one) for one in transitions], ways)
    tallest = max(map(len, columns))
    place = {
        name: (
            _MARGIN + column * (_WIDTH + _GAP),
            _MARGIN + (row + (tallest - len(names)) / 2) * _ROW,
        )
        for column, names in enumerate(columns)
        for row, name in enumerate(names)
    }
    width = 2 * _MARGIN + len(columns) * (_WIDTH + _GAP) - _GAP
    height = 2 * _MARGIN + (tallest - 1) * _ROW + _HEIGHT
    finals = [one for one in place if one not in {first for first, _ in ways}]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height:g}" '
        f'viewBox="0 0 {width} {height:g}">',
        f"<title>{title}: {'; '.join(f'{one} to {other}' for one, other in ways)}</title>",
        f"<style>{_STYLE}</style><defs>{_ARROW}</defs>",
        *(_way(place[one], place[other]) for one, other in ways),
        *(_start(place[str(one)]) for one in initial),
        *(_end(place[one]) for one in finals),
        *(_state(name, at) for name, at in place.items()),
    ]
    return "\n".join((*lines, "</svg>", ""))


def _state(name: str, at: _Point) -> str:
    x, y = at
    return (
        f'<rect class="state" x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="8"/>'
        f'<text x="{x + _WIDTH / 2:g}" y="{y + _HEIGHT / 2 + 5:g}">{name}</text>'
    )


def _way(first: _Point, second: _Point) -> str:
    """An arrow: between neighbours straight, over or under other states as an arc."""
    (x, y), (to_x, to_y) = first, second
    middle, to_middle = y + _HEIGHT / 2, to_y + _HEIGHT / 2
    if to_x > x:
        start, end = x + _WIDTH, to_x
        bend = (end - start) / 2
        is_far = to_x - x > _WIDTH + _GAP and y == to_y
        lift = -_ROW * 0.8 if is_far else 0.0
        path = (
            f"M{start:g} {middle:g}C{start + bend:g} {middle + lift:g} "
            f"{end - bend:g} {to_middle + lift:g} {end:g} {to_middle:g}"
        )
    elif to_x == x:
        down = to_y > y
        path = f"M{x + _WIDTH / 2:g} {y + _HEIGHT * down:g}V{to_y + _HEIGHT * (not down):g}"
    else:
        center, to_center = x + _WIDTH / 3, to_x + 2 * _WIDTH / 3
        deep = max(y, to_y) + _HEIGHT + 34
        path = (
            f"M{center:g} {y + _HEIGHT:g}C{center:g} {deep:g} "
            f"{to_center:g} {deep:g} {to_center:g} {to_y + _HEIGHT:g}"
        )
    return f'<path class="way" marker-end="url(#arrow)" d="{path}"/>'


def _start(at: _Point) -> str:
    x, y = at[0], at[1] + _HEIGHT / 2
    if x > _MARGIN:
        # From above: the way from the state before it comes from the left.
        x, y = x + _WIDTH / 2, at[1]
        return (
            f'<circle class="dot" cx="{x:g}" cy="{y - 27:g}" r="5"/>'
            f'<path class="way" marker-end="url(#arrow)" d="M{x:g} {y - 22:g}V{y:g}"/>'
        )
    return (
        f'<circle class="dot" cx="{x - 32:g}" cy="{y:g}" r="5"/>'
        f'<path class="way" marker-end="url(#arrow)" d="M{x - 27:g} {y:g}H{x:g}"/>'
    )


def _end(at: _Point) -> str:
    x, y = at[0] + _WIDTH, at[1] + _HEIGHT / 2
    return (
        f'<path class="way" marker-end="url(#arrow)" d="M{x:g} {y:g}H{x + 24:g}"/>'
        f'<circle class="ring" cx="{x + 32:g}" cy="{y:g}" r="8"/>'
        f'<circle class="dot" cx="{x + 32:g}" cy="{y:g}" r="4"/>'
    )


def container_diagram() -> str:
    """The states of a container."""
    return render(
        container.TRANSITIONS, initial=(container.INITIAL,), title="States of a container"
    )


def request_diagram() -> str:
    """The states of a container request."""
    return render(
        request_phases.TRANSITIONS,
        initial=request_phases.INITIAL,
        title="States of a container request",
    )


def hpc_code_diagram() -> str:
    """The states of the code in an HPC container."""
    return render(
        daemon_states.CODE_TRANSITIONS,
        initial=(daemon_states.CodeStatus.WAITING,),
        title="States of the code of an HPC container",
    )


def hpc_result_diagram() -> str:
    """The states of the results of an HPC container."""
    return render(
        daemon_states.RESULT_TRANSITIONS,
        initial=(daemon_states.ResultStatus.WAITING,),
        title="States of the results of an HPC container",
    )
