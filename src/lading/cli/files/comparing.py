"""`lading diff` and `du`: differences of collections and requests, and the space they take.

Trees are compared by content (`client.provenance.file_differences`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import click

from lading.cli import display, references
from lading.cli.files.pruning import kind_of, manifests
from lading.cli.provenance.details import (
    Details,
    details_document,
    find_contents,
    find_details,
    show_contents,
    show_details,
    show_trees,
    trees_document,
)
from lading.cli.provenance.differences import documents, find_both, show_causes
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.client.provenance.causes import Causes, find_causes, side_of
from lading.client.provenance.file_differences import compare_files
from lading.client.provenance.tree_differences import StepDifference, compare_trees
from lading.core.data.filetree import File, FileTree, Node
from lading.core.data.packing import BlockUsage, blocks_of, sizes_of, usage_of, usage_of_groups
from lading.core.data.tree_changes import Difference, PathChange
from lading.core.errors import Invalid
from lading.core.ids import Infix, infix_of

_SIGNS = {PathChange.ADDED: "+", PathChange.REMOVED: "-", PathChange.CHANGED: "~"}
_COLOURS = {PathChange.ADDED: "green", PathChange.REMOVED: "red", PathChange.CHANGED: "yellow"}


@click.command()
@click.argument("before")
@click.argument("after")
@click.option(
    "--files", "only_files", is_flag=True, help="Compare only the outputs of two requests."
)
@click.option(
    "--tree", "with_tree", is_flag=True, help="Compare all steps that led to two requests."
)
@click.option(
    "--text",
    "with_text",
    is_flag=True,
    help="Show differences within small texts and tables of two collections, too.",
)
@display.with_json
def diff(
    before: str, after: str, only_files: bool, with_tree: bool, with_text: bool
) -> display.Output:
    """Show the files added (+), removed (-) or changed (~) from BEFORE to AFTER, by their content.

    Both are collections, or directories or files in them. Of two requests the first cause of the
    difference is shown before the files of their outputs: in the request itself, or in an earlier
    step that made one of its inputs; then images by layers and packages, the use of resources, and
    the machines. Of small texts and tables the lines or cells that differ are shown. With --tree
    all steps that led to both requests are compared by their names. The exit code is 1 when they
    differ.
    """
    if only_files and with_tree:
        raise click.UsageError("Give --files or --tree.")

    async def action(session: CliSession) -> _Compared:
        both = None if only_files else await find_both(session, (before, after))
        if both is not None:
            return await _compare_requests(session, both, with_steps=with_tree)
        if with_tree:
            raise Invalid(f"--tree: {before} and {after} must both be requests")
        files = await _compare_files(session, (before, after))
        return _Compared(files, contents=await find_contents(session, files) if with_text else {})

    compared = with_session(action)
    yield display.Conclusion(_document(compared), compared.exit_code)
    _show(compared)


@dataclass(frozen=True, slots=True)
class _Compared:
    files: list[Difference] | None
    causes: Causes | None = None
    details: Details | None = None
    steps: list[StepDifference] | None = None
    contents: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """1 when there is a difference."""
        trees = any(step.differs for step in self.steps or ())
        return 1 if self.files or trees or (self.causes and self.causes.first) else 0


async def _compare_requests(
    session: CliSession, both: Sequence[Record], *, with_steps: bool
) -> _Compared:
    """Causes of the differences of two requests, then their outputs if both have one."""
    names = [str(request["uuid"]) for request in both]
    # Before the outputs, whose comparison may read gigabytes.
    steps = await compare_trees(session.api, names[0], names[1]) if with_steps else None
    theirs, ours = [await side_of(session.api, request) for request in both]
    causes = await find_causes(session.api, ours, theirs)
    details = await find_details(session, causes, theirs, ours)
    if any(not request["output_uuid"] for request in both):
        return _Compared(None, causes, details, steps)
    files = await _compare_files(session, names)
    details.contents = await find_contents(session, files)
    return _Compared(files, causes, details, steps, details.contents)


async def _compare_files(session: CliSession, names: Sequence[str]) -> list[Difference]:
    named = [references.need_reference(name) for name in names]
    old, new = [_rooted(await references.find_node(session, reference)) for reference in named]
    with display.progress("Comparing") as report:
        return (await compare_files(session.blocks, old, new, progress=report)).differences


def _show(compared: _Compared) -> None:
    if compared.causes is not None:
        _show_causes(compared, compared.causes)
    for difference in compared.files or ():
        click.secho(
            f"{_SIGNS[difference.change]} {_shown(difference)}", fg=_COLOURS[difference.change]
        )
        show_contents(compared.contents, difference.path)
    if compared.files is None:
        display.note("one of them has no output, so that no files are compared")
    elif not compared.files and compared.causes is not None:
        click.echo("The files of both outputs are equal.")


def _show_causes(compared: _Compared, causes: Causes) -> None:
    show_causes(causes)
    if compared.steps is not None:
        click.echo()
        show_trees(compared.steps)
    if compared.details is not None:
        show_details(compared.details)
    click.echo()


def _document(compared: _Compared) -> object:
    files = [
        {
            "path": difference.path,
            "change": difference.change,
            "before": _size(difference.before),
            "after": _size(difference.after),
        }
        for difference in compared.files or ()
    ]
    if compared.causes is None:
        return files
    file_rows = files if compared.files is not None else None
    return {
        "steps": documents(compared.causes),
        "complete": not compared.causes.is_cut,
        "files": file_rows,
        **(details_document(compared.details) if compared.details else {}),
        **({"tree": trees_document(compared.steps)} if compared.steps is not None else {}),
    }


@click.command()
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option(
    "--by",
    type=click.Choice(("project", "kind", "collection")),
    default="project",
    show_default=True,
    help="Without SOURCE, show one line for each of these.",
)
@click.option(
    "--project", metavar="PROJECT", help="Without SOURCE, count collections of this project only."
)
@display.with_json
def du(sources: tuple[str, ...], by: str, project: str | None) -> display.Output:
    """Show the size of each SOURCE, the space of its blocks in the store, and the part of that
    space that several SOURCEs use; without SOURCE, of all collections.

    A block is counted whole where any part of it is used: SOURCE may be a single file of it. A
    block that several share is counted once in all.
    """
    if not sources:
        yield from _show_all(by, project)
        return
    named = [references.need_reference(source) for source in sources]

    async def action(session: CliSession) -> list[Node]:
        return [await references.find_node(session, reference) for reference in named]

    each, total = usage_of(with_session(action))
    rows = [*zip(sources, each, strict=True), *([("in all", total)] if len(sources) > 1 else [])]
    counted = [_counted(source, usage) for source, usage in rows[: len(sources)]]
    yield {"sources": counted, "total": total}
    # A single one shares nothing with others that were named.
    has_shared = len(sources) > 1
    display.table(
        ("FILES", "SIZE", "STORED", *(["SHARED"] if has_shared else []), "SOURCE"),
        (
            (
                str(usage.files),
                display.size(usage.logical),
                display.size(usage.stored),
                *([display.size(usage.shared)] if has_shared else []),
                name,
            )
            for name, usage in rows
        ),
    )


@dataclass(slots=True)
class _Group:
    collections: int = 0
    files: int = 0
    logical: int = 0
    blocks: set[str] = field(default_factory=set)


def _show_all(by: str, project: str | None) -> display.Output:
    async def action(session: CliSession) -> dict[str, _Group]:
        filters = []
        if project is not None:
            filters.append(["owner_uuid", "=", await references.find_project(session, project)])
        return await _grouped(session, by, filters)

    groups = with_session(action)
    own, total = usage_of_groups({name: group.blocks for name, group in groups.items()})
    rows: list[dict[str, Any]] = [
        {
            by: name,
            "collections": group.collections,
            "files": group.files,
            "logical": group.logical,
            "stored": sizes_of(group.blocks),
            "shared": sizes_of(group.blocks) - own[name],
        }
        for name, group in groups.items()
    ]
    rows.sort(key=lambda row: (-int(row["stored"]), str(row[by])))
    yield {"groups": rows, "total": {"stored": total}}
    sizes = ("logical", "stored", "shared")
    display.table(
        ("COLLECTIONS", "FILES", "SIZE", "STORED", "SHARED", by.upper()),
        (
            (
                str(row["collections"]),
                str(row["files"]),
                *(display.size(int(row[name])) for name in sizes),
                display.shorten(str(row[by])),
            )
            for row in rows
        ),
    )
    display.note(f"{display.size(total)} stored in all, each block counted once")


async def _grouped(session: CliSession, by: str, filters: list[Any]) -> dict[str, _Group]:
    groups: dict[str, _Group] = {}
    owners: dict[str, str] = {}
    async with aclosing(manifests(session, filters)) as every:
        async for collection in every:
            # Names are chosen here, so that one pass over all manifests is enough.
            if by == "kind":
                name = kind_of(collection)
            elif by == "collection":
                name = f"{collection['uuid']} {collection['name'] or ''}".rstrip()
            else:
                name = collection["owner_uuid"]
                if name not in owners:
                    owners[name] = await _owner_name(session, name)
                name = owners[name]
            group = groups.setdefault(name, _Group())
            group.collections += 1
            group.files += collection["file_count"] or 0
            group.logical += collection["file_size_total"] or 0
            group.blocks |= blocks_of(collection["manifest_text"])
    return groups


async def _owner_name(session: CliSession, uuid: str) -> str:
    """The project's name, or the user's, with its uuid."""
    kind = "groups" if infix_of(uuid) == Infix.GROUP else "users"
    found = await session.api.list(kind, filters=[["uuid", "=", uuid]], limit=1)
    name = (found[0].get("name") or found[0].get("username") or "") if found else ""
    return f"{name} ({uuid})" if name else uuid


def _counted(name: str, usage: BlockUsage) -> dict[str, str | int]:
    return {
        "source": name,
        "files": usage.files,
        "logical": usage.logical,
        "stored": usage.stored,
        "shared": usage.shared,
    }


def _rooted(node: Node) -> FileTree:
    """A tree with one file under a fixed name, so that two files with different names can be
    compared.
    """
    return node if isinstance(node, FileTree) else FileTree({"(file)": node})


def _size(node: Node | None) -> int | None:
    return node.size if isinstance(node, File) else None


def _shown(difference: Difference) -> str:
    before, after = _size(difference.before), _size(difference.after)
    slash = (
        "/"
        if isinstance(
            difference.after if difference.before is None else difference.before, FileTree
        )
        else ""
    )
    if before is not None and after is not None and before != after:
        return f"{difference.path}{slash} ({display.size(before)} -> {display.size(after)})"
    size = before if after is None else after
    return f"{difference.path}{slash}" + (f" ({display.size(size)})" if size is not None else "")
