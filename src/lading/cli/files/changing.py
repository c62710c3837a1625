"""Changes of collections: `lading cp`, `mv`, `rm`, `trash` and `undelete`.

`cp`, `mv` and `rm` change files by reference, on the server. A change is computed from the present
state of the collection. If another client changes the collection in between, it is computed again.
Source: docs/spec/api, section Collections.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import click

from lading.cli import display, references
from lading.cli.files.data import count, list_data
from lading.cli.references import FileReference
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.core.data import filetree
from lading.core.data.filetree import FileTree
from lading.core.errors import Conflict, Invalid, LadingError, NotFound
from lading.core.ids import Infix, is_uuid

# Times that a change is computed again; then Conflict.
_ATTEMPTS = 10
# Precondition Failed: the collection has another etag.
_CHANGED = 412
Changes = dict[str, str]
_FIELDS = (
    "uuid",
    "name",
    "portable_data_hash",
    "file_count",
    "file_size_total",
    "trash_at",
    "delete_at",
)


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.argument("target")
@click.option("--new", is_flag=True, help="TARGET is the name of a new collection.")
@click.option("--overwrite", is_flag=True, help="Replace files that are there.")
@display.with_json
def cp(sources: tuple[str, ...], target: str, new: bool, overwrite: bool) -> display.Output:
    """Copy each SOURCE, a collection or a file or directory in one, to TARGET, a collection or a
    place in one.

    In an existing directory, each SOURCE keeps its name; of a whole collection, the content is
    copied.
    """
    given = [references.need_reference(source) for source in sources]

    async def action(session: CliSession) -> Record:
        if new:
            changes = await _placed(
                session, given, FileTree(), FileReference(target), overwrite=overwrite
            )
            return await session.api.create(
                "collections", {"name": target}, replace_files=changes, ensure_unique_name=True
            )
        goal = references.need_reference(target)
        return await _change(
            session, goal, lambda tree: _placed(session, given, tree, goal, overwrite=overwrite)
        )

    yield from _show(with_session(action))


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--overwrite", is_flag=True, help="Replace a file that is there.")
@display.with_json
def mv(source: str, target: str, overwrite: bool) -> display.Output:
    """Move SOURCE, a file or directory of a collection, to TARGET in the same collection
    (COLLECTION/PATH or PATH).
    """
    origin = references.need_reference(source)
    if not origin.path:
        raise click.UsageError(f"which file? write {source}/PATH")
    goal = target.removeprefix(f"{origin.name}/").strip("/")
    other = references.parse_reference(target)
    if other is not None and other.name != origin.name:
        raise click.UsageError(
            "files are moved within one collection; use 'lading cp' and 'lading rm'"
        )

    async def moved(tree: FileTree) -> Changes:
        node = _need(tree, origin)
        place = _within(tree, goal, origin.path)
        _check_free(tree, place, f"{origin.name}/{place}", overwrite=overwrite)
        if isinstance(node, FileTree) and place.startswith(f"{origin.path}/"):
            raise Invalid(f"{origin.path}: cannot be moved into itself, to {place}")
        # Both in one request, so that there is no moment without the file.
        return {f"/{origin.path}": "", f"/{place}": f"current/{origin.path}"}

    yield from _show(with_session(lambda session: _change(session, origin, moved)))


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="COLLECTION/PATH...")
@display.with_json
def rm(paths: tuple[str, ...]) -> display.Output:
    """Remove files and directories from a collection. Past versions of it keep them."""
    targets = [references.need_reference(path) for path in paths]
    for target in targets:
        if not target.path:
            raise click.UsageError(
                f"'lading trash {target.name}' puts a whole collection into the trash"
            )
    if len({target.name for target in targets}) > 1:
        raise click.UsageError("name files of one collection at a time")

    async def removed(tree: FileTree) -> Changes:
        for target in targets:
            _need(tree, target)
        return {f"/{target.path}": "" for target in targets}

    yield from _show(with_session(lambda session: _change(session, targets[0], removed)))


async def _change(
    session: CliSession, goal: FileReference, work: Callable[[FileTree], Awaitable[Changes]]
) -> Record:
    """Apply a change that `work` computes; computed again if the collection has changed in
    between.
    """
    for _ in range(_ATTEMPTS):
        record = await references.find_record(session, goal)
        changes = await work(filetree.from_manifest(record["manifest_text"]))
        try:
            answer: Record = await session.api.request(
                "PUT",
                f"collections/{record['uuid']}",
                body={"collection": {}, "replace_files": changes},
                headers={"If-Match": record["etag"]},
            )
        except LadingError as error:
            if error.status != _CHANGED:
                raise
            continue
        return answer
    raise Conflict(f"{goal.name}: others change it all the time; try again")


async def _placed(
    session: CliSession,
    sources: list[FileReference],
    tree: FileTree,
    goal: FileReference,
    *,
    overwrite: bool,
) -> Changes:
    """The changes of a copy: path in the target -> hash and path of the content."""
    changes: Changes = {}
    for source in sources:
        record = await references.find_collection(session, source)
        source_tree = filetree.from_manifest(record["manifest_text"])
        node = _need(source_tree, source) if source.path else source_tree
        pdh = record["portable_data_hash"]
        for path_in_target, path in _places(tree, goal, source, node, many=len(sources) > 1):
            _check_free(tree, path_in_target, f"{goal.name}/{path_in_target}", overwrite=overwrite)
            if f"/{path_in_target}" in changes:
                raise Invalid(
                    f"{path_in_target}: two sources have this name; copy them one at a time"
                )
            changes[f"/{path_in_target}"] = f"{pdh}/{path}"
    return changes


def _places(
    tree: FileTree, goal: FileReference, source: FileReference, node: filetree.Node, *, many: bool
) -> list[tuple[str, str]]:
    """Pairs of a path in the target and a path in the source."""
    if source.path:
        if many and goal.path and not isinstance(filetree.find(tree, goal.path), FileTree):
            return [(f"{goal.path}/{source.path.rpartition('/')[2]}", source.path)]
        return [(_within(tree, goal.path, source.path), source.path)]
    prefix = f"{goal.path}/" if goal.path else ""
    entries: Mapping[str, filetree.Node] = node.entries if isinstance(node, FileTree) else {}
    return [(f"{prefix}{name}", name) for name in entries]


def _within(tree: FileTree, target: str, path: str) -> str:
    """The path `target`, or the path below it if it is an existing directory."""
    name = path.rpartition("/")[2]
    if not target:
        return name
    return f"{target}/{name}" if isinstance(filetree.find(tree, target), FileTree) else target


def _check_free(tree: FileTree, path: str, shown: str, *, overwrite: bool) -> None:
    existing = filetree.find(tree, path)
    if isinstance(existing, FileTree):
        raise Conflict(f"{shown}: a directory is there; remove it first, or copy to another name")
    if existing is not None and not overwrite:
        raise Conflict(f"{shown}: is there already; --overwrite replaces it")


def _need(tree: FileTree, reference: FileReference) -> filetree.Node:
    node = filetree.find(tree, reference.path)
    if node is None:
        raise NotFound(
            f"{reference.name}: holds no {reference.path}; see 'lading ls {reference.name}'"
        )
    return node


def _show(record: Record) -> display.Output:
    fields = ("uuid", "name", "portable_data_hash", "file_count", "file_size_total")
    yield {name: record[name] for name in fields}
    click.echo(record["portable_data_hash"])
    display.note(f"{record['uuid']} ({record['name']}): {count(record['file_count'], 'file')}")


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="COLLECTION...")
@display.with_json
def trash(sources: tuple[str, ...]) -> display.Output:
    """Move collections to the trash. They can be restored until they are deleted."""
    named = [references.need_reference(source) for source in sources]
    for reference in named:
        if reference.path:
            raise click.UsageError(
                f"'lading rm {reference.name}/{reference.path}' takes files out of a collection"
            )

    async def action(session: CliSession) -> list[Record]:
        # All are looked up before the first is changed, so that a mistake changes nothing.
        records = [await references.find_record(session, reference) for reference in named]
        return [await session.api.delete("collections", record["uuid"]) for record in records]

    records = with_session(action)
    yield [{name: record[name] for name in _FIELDS} for record in records]
    for record in records:
        display.note(
            f"{record['uuid']} ({record['name']}) is in the trash until {record['delete_at']};"
            f" 'lading undelete {record['uuid']}' takes it out"
        )


@click.command()
@click.argument("uuids", nargs=-1, metavar="UUID...")
@click.option("--all", "with_results", is_flag=True, help="List outputs and logs of requests too.")
@display.with_json
def undelete(uuids: tuple[str, ...], with_results: bool) -> display.Output:
    """Restore collections from the trash; without a UUID, list the trash.

    Logs of requests, and outputs without a name of their own, are listed with --all only. If its
    name is in use by now, the restored collection has the date in its name.
    """
    for uuid in uuids:
        if not is_uuid(uuid, Infix.COLLECTION):
            raise Invalid(
                f"{uuid}: not the uuid of a collection; 'lading undelete' lists the trash"
            )

    async def action(session: CliSession) -> list[Record]:
        if not uuids:
            return await list_data(
                session,
                _FIELDS,
                "trash_at",
                with_results=with_results,
                filters=[["is_trashed", "=", True]],
                include_trash=True,
            )
        return [await _untrash(session, uuid) for uuid in uuids]

    records = with_session(action)
    yield [{name: record[name] for name in _FIELDS} for record in records]
    if uuids:
        for record in records:
            display.note(f"{record['uuid']} ({record['name']}) is back")
    else:
        display.table(
            ("UUID", "FILES", "SIZE", "DELETED", "NAME"),
            (
                (
                    record["uuid"],
                    str(record["file_count"]),
                    display.size(record["file_size_total"]),
                    record["delete_at"],
                    display.shorten(record["name"] or ""),
                )
                for record in records
            ),
        )


async def _untrash(session: CliSession, uuid: str) -> Record:
    answer: Record = await session.api.action(
        "collections", uuid, "untrash", body={"ensure_unique_name": True}
    )
    return answer
