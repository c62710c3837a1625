"""`lading trace`: what a result came from and what used it, as a tree, a picture or a document."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from lading.cli import display, references
from lading.cli.session import CliSession, with_session
from lading.client.provenance.lineage import Lineage, find_content_lineage, find_lineage
from lading.client.provenance.lineage_sources import add_sources, keep_readers, mark_withdrawn
from lading.core.data import filetree
from lading.core.drawing.folding import FoldedGraph, FoldedNode, fold
from lading.core.drawing.graph_formats import to_dot, to_mermaid, to_svg
from lading.core.drawing.outline import neighbours_of, outline, within
from lading.core.errors import NotFound
from lading.core.ids import Infix, is_pdh, is_uuid

_MOST: Final = 100_000
"""Nodes of a document or a tree."""
_MOST_DRAWN: Final = 1000
"""Nodes of a picture: a larger one cannot be read."""


@click.command()
@click.argument("subject", metavar="REQUEST|COLLECTION[/FILE]|PATH")
@click.option("--from", "upwards", is_flag=True, help="Show its origins only.")
@click.option("--to", "downwards", is_flag=True, help="Show its uses only.")
@click.option(
    "--depth", type=click.IntRange(min=1), metavar="N", help="At most N steps away, each way."
)
@click.option("--users", "with_users", is_flag=True, help="Show who asked for the requests, too.")
@click.option("--each", is_flag=True, help="Do not group the requests of one step.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("tree", "svg", "dot", "mermaid")),
    default="tree",
    show_default=True,
    help="A tree for reading, or a picture or a text for other programs.",
)
@display.with_json
def trace(
    subject: str,
    upwards: bool,
    downwards: bool,
    depth: int | None,
    with_users: bool,
    each: bool,
    form: str,
) -> display.Output:
    """Show the origins and the uses of a request or a collection: requests, collections, images,
    git trees and workflows.

    A file is used by the containers that could read it: they mounted the file, or a directory with
    it. PATH is a file or directory here, of which a collection with nothing else is stored. Records
    that you may not read are shown as "not readable". Requests whose names differ by a number alone
    are one step, shown once with their number. Results that were withdrawn, and results made from
    them, are marked.
    """

    async def action(session: CliSession) -> Lineage:
        drawn = await _find(session, subject)
        await add_sources(session.api, drawn, with_users=with_users)
        mark_withdrawn(drawn)
        return drawn

    drawn_lineage = with_session(action)
    # Neither option, or both: both ways.
    up, down = upwards or not downwards, downwards or not upwards
    shown_keys = _near(drawn_lineage, up=up, down=down, depth=depth)
    yield _document(drawn_lineage, shown_keys)
    folded = fold(
        [node for node in drawn_lineage.nodes.values() if node.key in shown_keys],
        [edge for edge in drawn_lineage.edges if shown_keys.issuperset(edge)],
        start=drawn_lineage.start,
        most=_MOST if form != "svg" else _MOST_DRAWN,
        by_step=not each,
    )
    match form:
        case "svg":
            click.echo(to_svg(folded, start=drawn_lineage.start), nl=False)
        case "dot":
            click.echo(to_dot(folded), nl=False)
        case "mermaid":
            click.echo(to_mermaid(folded), nl=False)
        case _:
            _show_tree(folded, drawn_lineage.start, up=up, down=down)
    if folded.left_out:
        display.note(f"{folded.left_out} nodes further away are left out; give --depth")
    if drawn_lineage.is_cut:
        display.note("there are more: the server follows 10,000 containers each way")


async def _find(session: CliSession, subject: str) -> Lineage:
    """The lineage of a request, a collection, a file in one, or a path here."""
    path = Path(subject)
    # In a thread: a directory may be large.
    if (subject.startswith((".", "/")) or "." in subject) and await asyncio.to_thread(path.exists):
        return await _find_local(session, path)
    reference = references.need_reference(subject)
    name = reference.name
    if not (is_pdh(name) or is_uuid(name) or name == references.LAST):
        # The end of a uuid names a request too.
        with suppress(NotFound):
            name = await references.find_named(session, name)
    if not reference.path and not (is_pdh(name) or is_uuid(name, Infix.COLLECTION)):
        request = await references.find_request(session, name)
        return await find_lineage(session.api, request)
    record = await references.find_collection(session, reference)
    if reference.path:
        tree = filetree.from_manifest(record["manifest_text"])
        if filetree.find(tree, reference.path) is None:
            raise NotFound(f"{reference.name}: holds no {reference.path}")
    drawn = await find_content_lineage(session.api, record)
    if reference.path:
        keep_readers(drawn, reference.path)
    return drawn


async def _find_local(session: CliSession, path: Path) -> Lineage:
    """The lineage of the collection that `lading put` makes of a local path."""
    # Imported here: most traces are of what is stored.
    from lading.client.files.deposits import arrange
    from lading.client.files.uploads import Upload

    with Upload(arrange([path])) as upload:
        await upload.look()
        pdh = await upload.hash()
    try:
        record = await session.api.get("collections", pdh)
    except NotFound as error:
        raise NotFound(
            f"{path}: no collection has this content and nothing else; name its collection"
        ) from error
    return await find_content_lineage(session.api, record)


def _near(drawn: Lineage, *, up: bool, down: bool, depth: int | None) -> set[str]:
    """The keys of the nodes to show."""
    before, after = neighbours_of(drawn.edges)
    steps = len(drawn.nodes) if depth is None else depth
    chosen_ways = [
        chosen_ways for chosen_ways, is_chosen in ((before, up), (after, down)) if is_chosen
    ]
    return {key for way in chosen_ways for key in within(drawn.start, way, steps)}


def _show_tree(graph: FoldedGraph, start: str, *, up: bool, down: bool) -> None:
    nodes = {node.key: node for node in graph.nodes}
    own = next(node for node in graph.nodes if any(each.key == start for each in node.nodes))
    before, after = neighbours_of(graph.edges)
    lines = [_line(own)]
    ways = (("made from", before, up), ("used by", after, down))
    for title, neighbours, is_chosen in ways:
        if is_chosen:
            lines.append(
                f"{title}: nothing that is recorded" if own.key not in neighbours else title
            )
            for line in outline(own.key, neighbours):
                more = "  (see above)" if line.is_repeated and line.key in neighbours else ""
                lines.append(f"{line.prefix}{_line(nodes[line.key])}{more}")
    # At once: a call for each line takes as long as the lines.
    click.echo("\n".join(lines))


def _line(node: FoldedNode) -> str:
    first, number = node.nodes[0], len(node.nodes)
    name = display.plain(display.shorten(node.name)) + (f" x {number}" if number > 1 else "")
    counted = node.states
    states = ", ".join(
        _painted(state) + (f" {count}" if len(counted) > 1 else "")
        for state, count in counted.items()
    )
    uuid = f"  {_identifier(node)}" if number == 1 else ""
    return f"{name}  {states or first.kind}{uuid}"


def _painted(state: str) -> str:
    return click.style(state, fg="red") if state.startswith("failed") else state


def _identifier(node: FoldedNode) -> str:
    first = node.nodes[0]
    return first.request_uuid or (first.key if is_pdh(first.key) else "")


def _document(drawn: Lineage, shown_keys: set[str]) -> Mapping[str, Any]:
    return {
        "start": drawn.start,
        "complete": not drawn.is_cut,
        "nodes": [
            {
                "key": node.key,
                "kind": node.kind,
                "name": node.name,
                "state": node.api_state,
                "status": node.state,
                "request": node.request_uuid or None,
                "readable": not node.sealed,
            }
            for node in drawn.nodes.values()
            if node.key in shown_keys
        ],
        "edges": [
            {"from": first, "to": second}
            for first, second in dict.fromkeys(drawn.edges)
            if shown_keys.issuperset((first, second))
        ],
    }
