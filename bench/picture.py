"""The picture of rates and latencies beside the peers, drawn from the kept figures of containers.

    python -m bench.picture docs/figures/containers.json docs/figures/pace.svg

It has a background of its own, so that it can be read on light pages and on dark ones, also where a
viewer does not know which it is on.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

_WIDTH, _LEFT, _RIGHT = 760, 270, 90
_ROW, _BAR = 30, 16
_STYLE: Final = (
    ".card{fill:#fff;stroke:#d0d7de}.t{fill:#1f2328}.s{fill:#59636e}.g{stroke:#d0d7de}"
    ".ours{fill:#0b62c4}.peer{fill:#8c959f}.o{stroke:#0b62c4}.p{stroke:#8c959f}"
    "@media (prefers-color-scheme:dark){.card{fill:#151b23;stroke:#3d444d}.t{fill:#f0f6fc}"
    ".s{fill:#9198a1}.g{stroke:#3d444d}.ours{fill:#4493f8}.peer{fill:#768390}"
    ".o{stroke:#4493f8}.p{stroke:#768390}}"
)


@dataclass(frozen=True, slots=True)
class Rate:
    """Containers a second of one way to run them."""

    name: str
    rate: float
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds until user code of one way to run containers: half of them, and 99 %."""

    name: str
    p50: float
    p99: float
    is_ours: bool = False


_RATES: Final = (
    ("crun run, two at a time", "crun run, nothing saved", False),
    ("HyperQueue with crun, two at a time", "HyperQueue with crun, nothing saved", False),
    ("Lading, ", "Lading, log and output saved", True),
    ("sbatch in a loop", "sbatch, no container", False),
)
_LATENCIES: Final = (
    ("crun run, to user code", "crun run", False),
    ("Queued to user code", "Lading", True),
    ("HyperQueue with crun, to user code", "HyperQueue with crun", False),
    ("docker run, to user code", "docker run", False),
    ("sbatch, to user code", "sbatch, no container", False),
)


def draw(content: dict[str, Any]) -> str:
    """The SVG of what `report.keep` wrote; rows that were not measured are left out."""
    rows = content["figures"]
    rates = [
        Rate(label, row["rate"], is_ours)
        for name, label, is_ours in _RATES
        if (row := _find(rows, name, "/s"))
    ]
    latencies = [
        Latency(label, row["p50"], row["p99"], is_ours)
        for name, label, is_ours in _LATENCIES
        if (row := _find(rows, name, "ms"))
    ]
    machine = content["machine"]
    caption = f"{machine['kind']}; {content['measured_at'][:10]}; in turns, medians"
    return _svg(rates, latencies, caption)


def _find(rows: Sequence[dict[str, Any]], name: str, unit: str) -> dict[str, Any] | None:
    return next((row for row in rows if row["name"].startswith(name) and row["unit"] == unit), None)


def _svg(rates: Sequence[Rate], latencies: Sequence[Latency], caption: str) -> str:
    top, between = 52, 62
    middle = top + _ROW * len(rates) + between
    ticks = middle + _ROW * len(latencies)
    height = ticks + 58
    spoken = "; ".join(
        [f"{one.name} {one.rate:.0f} a second" for one in rates]
        + [f"{one.name} {one.p50:.0f} ms to user code" for one in latencies]
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="13">',
        f"<title>{escape(spoken)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1}" rx="6"/>',
        _text(16, 30, "No-op containers a second", "t", more=' font-weight="bold"'),
    ]
    lines += _bars(rates, top)
    lines.append(
        _text(
            16,
            middle - 20,
            "Milliseconds to user code, one at a time: half of them, and 99 %",
            "t",
            more=' font-weight="bold"',
        )
    )
    lines += _ranges(latencies, middle)
    lines.append(_text(16, height - 14, caption, "s", more=' font-size="12"'))
    return "\n".join([*lines, "</svg>", ""])


def _bars(rates: Sequence[Rate], top: int) -> list[str]:
    most = max((one.rate for one in rates), default=1.0)
    lines = []
    for number, one in enumerate(rates):
        y, long = top + _ROW * number, (_WIDTH - _LEFT - _RIGHT) * one.rate / most
        kind = "ours" if one.is_ours else "peer"
        lines += [
            _text(_LEFT - 12, y + 13, one.name, "t", more=' text-anchor="end"'),
            f'<rect class="{kind}" x="{_LEFT}" y="{y}" width="{long:.1f}" height="{_BAR}"/>',
            _text(_LEFT + long + 8, y + 13, _short(one.rate), "t"),
        ]
    return lines


def _ranges(latencies: Sequence[Latency], top: int) -> list[str]:
    """A dot at half and a line to 99 %, on a scale of powers of ten."""
    low = 10 ** math.floor(math.log10(min((one.p50 for one in latencies), default=1.0)))
    high = 10 ** math.ceil(math.log10(max((one.p99 for one in latencies), default=10.0)))

    def x_of(value: float) -> float:
        span = math.log10(high / low) or 1.0
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * math.log10(value / low) / span

    bottom, lines = top + _ROW * len(latencies), []
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        x = x_of(10.0**power)
        lines += [
            f'<path class="g" d="M{x:.1f} {top - 6}V{bottom - 6}"/>',
            _text(x, bottom + 10, f"{10.0**power:g}", "s", more=' text-anchor="middle"'),
        ]
    for number, one in enumerate(latencies):
        y, kind = top + _ROW * number + 8, "ours" if one.is_ours else "peer"
        stroke, label = kind[0], f"{_short(one.p50)}, {_short(one.p99)}"
        lines += [
            _text(_LEFT - 12, y + 5, one.name, "t", more=' text-anchor="end"'),
            f'<path class="{stroke}" stroke-width="3" d="M{x_of(one.p50):.1f} {y}'
            f'H{x_of(one.p99):.1f}"/>',
            f'<circle class="{kind}" cx="{x_of(one.p50):.1f}" cy="{y}" r="6"/>',
            _text(x_of(one.p99) + 10, y + 5, label, "t"),
        ]
    return lines


def _text(x: float, y: float, text: str, kind: str, *, more: str = "") -> str:
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}"{more}>{escape(text)}</text>'


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(draw(json.loads(Path(sys.argv[1]).read_text())))
