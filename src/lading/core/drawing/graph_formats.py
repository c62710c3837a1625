"""A folded graph as text of other programs: SVG, DOT of Graphviz, Mermaid.

Names come from strangers: each format has its own way to write them, and control characters are
left out.
"""

from __future__ import annotations

import json
from html import escape
from typing import Final

from lading.core.drawing.folding import FoldedGraph, FoldedNode
from lading.core.drawing.placement import HEIGHT, WIDTH, PlacedNode, place

_LONGEST: Final = 24
"""Characters of a name that fit into a node of SVG."""
_SHAPES: Final = {"request": "ellipse", "collection": "box", "image": "box3d"}
_MERMAID: Final = {"request": ("([", "])"), "image": ("[[", "]]")}
_STYLE: Final = (
    "text{font:13px sans-serif;fill:#1b1f24}.small{font-size:11px;fill:#57606a}"
    "rect{fill:#fff;stroke:#57606a}.request{fill:#ddf4ff}.image{fill:#f6f8fa}"
    ".failed{fill:#ffebe9;stroke:#cf222e}.reused{stroke-dasharray:4 2}"
    ".sealed{fill:#eaeef2;stroke-dasharray:2 2}.start{stroke-width:3}"
    "path{fill:none;stroke:#8c959f}"
)


def to_dot(graph: FoldedGraph) -> str:
    """The graph as a directed graph of DOT, from left to right."""
    numbers = {node.key: number for number, node in enumerate(graph.nodes)}
    lines = ["digraph lineage {", "  rankdir=LR;"]
    for node in graph.nodes:
        shape = _SHAPES.get(node.nodes[0].kind, "box")
        style = ", style=dashed" if node.nodes[0].sealed else ""
        label = _quoted("\n".join(_words(node)))
        lines.append(f"  n{numbers[node.key]} [shape={shape}, label={label}{style}];")
    lines += [f"  n{numbers[first]} -> n{numbers[second]};" for first, second in graph.edges]
    return "\n".join((*lines, "}", ""))


def to_mermaid(graph: FoldedGraph) -> str:
    """The graph as a flow chart of Mermaid, from left to right."""
    numbers = {node.key: number for number, node in enumerate(graph.nodes)}
    lines = ["flowchart LR"]
    for node in graph.nodes:
        left, right = _MERMAID.get(node.nodes[0].kind, ("[", "]"))
        # Mermaid reads HTML entities in quoted text, and nothing else of it.
        label = "<br>".join(escape(word).replace("#", "#35;") for word in _words(node))
        label = label.replace("&quot;", "#quot;").replace("&#x27;", "'")
        lines.append(f'  n{numbers[node.key]}{left}"{label}"{right}')
    lines += [f"  n{numbers[first]} --> n{numbers[second]}" for first, second in graph.edges]
    return "\n".join((*lines, ""))


def to_svg(graph: FoldedGraph, *, start: str) -> str:
    """The graph as a picture that stands alone, without script and without links."""
    drawing = place(graph, start=start)
    size = f'width="{drawing.width}" height="{drawing.height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
        f'viewBox="0 0 {drawing.width} {drawing.height}">',
        f"<style>{_STYLE}</style>",
        *(f'<path d="{path}"/>' for path in drawing.paths),
    ]
    for node in drawing.nodes:
        lines += _svg_node(node)
    return "\n".join((*lines, "</svg>", ""))


def _svg_node(placed: PlacedNode) -> list[str]:
    node = placed.node
    first, states = node.nodes[0], " ".join(node.states)
    classes = [first.kind]
    classes += ["sealed"] if first.sealed else []
    classes += ["failed"] if "failed" in states or "cancelled" in states else []
    classes += ["reused"] if "reused" in states else []
    classes += ["start"] if placed.is_start else []
    name, *more = _words(node)
    return [
        f'<rect class="{" ".join(classes)}" x="{placed.x}" y="{placed.y}" width="{WIDTH}" '
        f'height="{HEIGHT}" rx="{10 if first.kind == "request" else 0}">'
        f"<title>{escape(name)}</title></rect>",
        f'<text x="{placed.x + 10}" y="{placed.y + 18}">{escape(_cut(name))}</text>',
        f'<text class="small" x="{placed.x + 10}" y="{placed.y + 36}">'
        f"{escape(_cut(' '.join(more)))}</text>",
    ]


def _words(node: FoldedNode) -> list[str]:
    """The name, and kind or states."""
    number = len(node.nodes)
    name = _plain(node.name) + (f" × {number}" if number > 1 else "")
    states = [f"{state} {n}" if number > 1 else state for state, n in node.states.items()]
    return [name, ", ".join(map(_plain, states)) or node.nodes[0].kind]


def _plain(label: str) -> str:
    return "".join(character if character.isprintable() else " " for character in label)


def _cut(label: str) -> str:
    return label if len(label) <= _LONGEST else label[: _LONGEST - 1] + "…"


def _quoted(label: str) -> str:
    # The escapes of JSON that occur here are those of DOT; control characters were left out.
    return json.dumps(label, ensure_ascii=False)
