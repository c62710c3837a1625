"""`lading put`, `get`, `ls` and `cat`: upload, download and listing of files.

Downloads are resumable. The journal names the files that were written completely, with their
stamps: a file that is unchanged since is kept. Any other existing file raises Conflict before the
first file is written, or is replaced if `overwrite` is set.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import click
import msgspec

from lading.cli import display, references
from lading.cli.running import log_lines
from lading.cli.running.inputs import LINKS, LINKS_OPTION
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.client.blocks import BlockClient, Keeping
from lading.client.files import deposits
from lading.client.files.downloads import Progress, download, download_file, read_file
from lading.client.files.listed_files import stamp_of
from lading.client.files.listing import LinkPolicy
from lading.client.files.upload_journal import UploadJournal, journal_path
from lading.client.servers.environment import cache_directory
from lading.core.data import filetree, tree_changes
from lading.core.data.filetree import File, FileTree, Node
from lading.core.errors import Conflict, Invalid

# As many as the server gives in one answer (API.MaxItemsPerResponse).
_LISTED = 1000
_LISTED_FIELDS = (
    "uuid", "name", "portable_data_hash", "file_count", "file_size_total", "created_at",
)  # fmt: skip
UNNAMED_OUTPUT = "Container output for request"


class _Span(click.ParamType[tuple[int, int | None]]):
    """The first byte and the one after the last; None for the end."""

    name = "first-last"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int | None]:
        first, dash, last = str(value).partition("-")
        numbers = [number for number in (first, last) if number]
        if (
            not dash
            or not first
            or not all(number.isascii() and number.isdigit() for number in numbers)
        ):
            self.fail(
                f"{value!r}: write FIRST-LAST, for example 0-99 for the first hundred bytes",
                param,
                ctx,
            )
        if last and int(last) < int(first):
            self.fail(f"{value!r}: the last byte comes before the first", param, ctx)
        # Inclusive on the command line, as in HTTP; exclusive here.
        return int(first), int(last) + 1 if last else None


@click.command()
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    metavar="PATH...",
    type=click.Path(exists=True, path_type=Path),
)
@click.option("--name", help="Name of the collection.  [default: the name of the first PATH]")
@click.option(
    "--project", metavar="PROJECT", help="Project that the collection goes into.  [default: yours]"
)
@click.option(
    "--storage-class",
    "classes",
    multiple=True,
    metavar="NAME",
    help="Class of volumes to keep it in.",
)
@click.option("--copies", type=click.IntRange(1), help="Copies to keep, in each of these classes.")
@click.option(LINKS, **LINKS_OPTION)
@display.with_json
def put(
    paths: tuple[Path, ...],
    name: str | None,
    project: str | None,
    classes: tuple[str, ...],
    copies: int | None,
    links: str,
) -> display.Output:
    """Store files and directories as one collection, and print its portable data hash.

    Of a single directory the content is stored, of several paths each under its own name. Content
    that is stored already is not sent again.
    """
    label = deposits.label_of(paths[0])

    async def action(session: CliSession) -> deposits.Deposit:
        await references.check_storage_classes(session, classes)
        sources, keeping = (
            deposits.arrange(paths),
            Keeping(copies=copies, classes=tuple(dict.fromkeys(classes))),
        )
        return await deposits.deposit(
            session.api,
            session.blocks,
            sources,
            name=name,
            label=label,
            keeping=keeping,
            project=await references.find_project(session, project) if project else None,
            links=LinkPolicy(links),
            progress=partial(display.progress),
        )

    stored = with_session(action)
    yield stored
    for line in stored.remarks:
        display.note(line)
    click.echo(stored.portable_data_hash)
    what = f"{count(stored.file_count, 'file')}, {display.size(stored.file_size_total)}"
    display.note(
        f"{'already stored' if stored.was_there else 'stored'} {what} "
        f"as {stored.uuid} ({stored.name})"
    )


@click.command()
@click.argument("source")
@click.argument("target", required=False, type=click.Path(path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace files that are there.")
@display.with_json
def get(source: str, target: Path | None, overwrite: bool) -> display.Output:
    """Write SOURCE, a collection or a path in one, to TARGET on disk.

    SOURCE is a portable data hash, or the uuid or name of a collection, with /PATH for a part of
    it; the uuid of a request, or `last`, stands for its output. The content of a directory is
    written into TARGET, which is made if it does not exist; a file is written to TARGET, or into it
    if TARGET is a directory. Existing files are replaced only with --overwrite; files that an
    interrupted 'get' completed are not fetched again.
    """
    reference = references.need_reference(source)
    if target is None and not reference.path:
        raise click.UsageError(f"where to? name a directory: lading get {source} DIRECTORY")
    goal = target or Path(reference.path).name

    async def action(session: CliSession) -> tuple[Path, int, int]:
        node = await references.find_node(session, reference)
        name = Path(reference.path).name
        return await write_node(session, node, Path(goal), name=name, overwrite=overwrite)

    place, files, size = with_session(action)
    yield {"path": str(place), "file_count": files, "file_size_total": size}
    display.note(f"{place}: {count(files, 'file')}, {display.size(size)}")


@click.command()
@click.argument("source", required=False)
@click.option("-r", "--recursive", is_flag=True, help="List the contents of directories too.")
@click.option(
    "-l",
    "--long",
    is_flag=True,
    help="Show exact sizes, and the number of blocks that each file is in.",
)
@click.option("--all", "with_results", is_flag=True, help="List outputs and logs of requests too.")
@display.with_json
def ls(source: str | None, recursive: bool, long: bool, with_results: bool) -> display.Output:
    """List the collections, or the contents of SOURCE: a collection or a directory in one (see
    `lading get`), or a project.

    Logs of requests, and outputs without a name of their own, are listed with --all only.
    """

    async def look(session: CliSession) -> Node | list[Record]:
        if source is None:
            return await _collections(session, with_results=with_results)
        owner = await references.project_of(session, source)
        if owner:
            return [
                *await _subprojects(session, owner),
                *await _collections(session, with_results=with_results, owner=owner),
            ]
        return await references.find_node(session, references.need_reference(source))

    node = with_session(look)
    if isinstance(node, list):
        yield from _show_records(node)
        return
    listed = _listing(references.need_reference(str(source)).path, node, recursive)
    yield [{"path": path, "type": _kind(entry), "size": size_of(entry)} for path, entry in listed]
    for path, entry in listed:
        shown = (
            f"{size_of(entry):>14}  {_block_count(entry):>5}"
            if long
            else f"{display.size(size_of(entry)):>10}"
        )
        click.echo(f"{shown}  {display.plain(path)}{'/' if isinstance(entry, FileTree) else ''}")


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--range",
    "span",
    type=_Span(),
    help="Bytes FIRST-LAST of each, counted from 0; LAST may be left out.",
)
@display.json_option
def cat(sources: tuple[str, ...], span: tuple[int, int | None] | None) -> None:
    """Write files of collections to standard output; SOURCE is for example HASH/PATH (see `lading
    get`).

    With --json, one document with the path and the text of each.
    """
    out = sys.stdout.buffer

    async def action(session: CliSession) -> None:
        for number, source in enumerate(sources):
            file = await _find_file(session, source)
            if span is not None:
                file = filetree.cut(file, *span)
            async with aclosing(read_file(session.blocks, file)) as pieces:
                if display.is_json_command():
                    await _write_json(out, source, pieces, is_first=not number)
                    continue
                async for piece in pieces:
                    display.write_all(out, piece)
        if display.is_json_command():
            display.write_all(out, b"\n]\n")

    with_session(action)


async def _find_file(session: CliSession, source: str) -> File:
    node = await references.find_node(session, references.need_reference(source))
    if not isinstance(node, File):
        raise Invalid(f"{source}: is a directory; see 'lading ls {source}'")
    return node


async def _write_json(
    out: BinaryIO, source: str, pieces: AsyncIterator[bytes], *, is_first: bool
) -> None:
    """Write one element of a JSON array with the path and the text of a file, as the file is
    read.
    """
    begin = b"[" if is_first else b","
    display.write_all(
        out, b'%b\n  {\n    "path": %b,\n    "text": ' % (begin, msgspec.json.encode(source))
    )
    await log_lines.write_json_text(pieces, out)
    display.write_all(out, b"\n  }")


async def write_node(
    session: CliSession,
    node: Node,
    target: Path,
    *,
    name: str,
    overwrite: bool = True,
) -> tuple[Path, int, int]:
    """Write a file or a tree to disk; return its path, the number of files, and the bytes. Raises
    Conflict as `fetch`.
    """
    with display.progress("Downloading") as report:
        if isinstance(node, File):
            # One look at a local path, here and below.
            place = target / name if target.is_dir() else target  # noqa: ASYNC240
            if not overwrite and os.path.lexists(place):  # noqa: ASYNC240 (as above)
                raise Conflict(f"{place}: is there already; --overwrite replaces it")
            await download_file(session.blocks, node, place, progress=report)
            return place, 1, node.size
        # `absolute` asks the file system for nothing.
        kept = journal_path(
            cache_directory(os.environ),
            "get",
            str(target.absolute()),  # noqa: ASYNC240
        )
        with UploadJournal(kept) as journal:
            await fetch(
                session.blocks, node, target, overwrite=overwrite, journal=journal, progress=report
            )
        return target, sum(1 for _ in filetree.files(node)), filetree.total_size(node)


def size_of(node: Node) -> int:
    """Bytes of a file, or of all files of a tree."""
    return node.size if isinstance(node, File) else filetree.total_size(node)


def _block_count(node: Node) -> int:
    files = [node] if isinstance(node, File) else [file for _, file in filetree.files(node)]
    return len({segment.locator for file in files for segment in file.segments})


def count(number: int, noun: str) -> str:
    """For example `1 file`, `2 files`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


async def list_data(
    session: CliSession,
    fields: Sequence[str],
    order: str,
    *,
    with_results: bool,
    filters: Sequence[Any] = (),
    **more: Any,
) -> list[Record]:
    """The first collections in this order, descending: the user's own data, named outputs among
    them; `with_results` also logs and unnamed outputs of requests.
    """

    async def some(*narrowed: Any) -> list[Record]:
        return await session.api.list(
            "collections",
            filters=[*filters, *narrowed],
            order=[f"{order} desc"],
            select=fields,
            limit=_LISTED,
            **more,
        )

    if with_results:
        return await some()
    maker = "properties.container_request"
    # A container's own copies are in the trash from the start.
    own = await some([maker, "exists", False], ["properties.container_uuid", "exists", False])
    named = [
        collection
        # All names before and behind those of unnamed outputs: the API has no "not like".
        for beside in (["name", "<", UNNAMED_OUTPUT], ["name", ">", f"{UNNAMED_OUTPUT[:-1]}u"])
        for collection in await some(
            [maker, "exists", True], ["properties.type", "!=", "log"], beside
        )
    ]
    both = sorted([*own, *named], key=lambda collection: str(collection[order]), reverse=True)
    return both[:_LISTED]


async def _collections(session: CliSession, *, with_results: bool, owner: str = "") -> list[Record]:
    filters = [["owner_uuid", "=", owner]] if owner else []
    return await list_data(
        session, _LISTED_FIELDS, "created_at", with_results=with_results, filters=filters
    )


async def _subprojects(session: CliSession, owner: str) -> list[Record]:
    projects = await session.api.list(
        "groups",
        filters=[["owner_uuid", "=", owner], ["group_class", "in", ["project", "filter"]]],
        order=["name"],
        select=["uuid", "name", "created_at"],
        limit=_LISTED,
    )
    # A name that ends with a slash is a project, as of directories.
    return [{**project, "name": f"{project['name']}/"} for project in projects]


def _show_records(records: Sequence[Record]) -> display.Output:
    """A table of collections and projects; projects have no hash, files and size."""
    yield [{name: record.get(name) for name in _LISTED_FIELDS} for record in records]
    now = datetime.now(UTC)
    display.table(
        ("UUID", "HASH", "FILES", "SIZE", "AGE", "NAME"),
        (
            (
                record["uuid"],
                record.get("portable_data_hash", ""),
                str(record.get("file_count", "")),
                display.size(record["file_size_total"]) if "file_size_total" in record else "",
                display.age(record["created_at"], now),
                display.shorten(record["name"] or ""),
            )
            for record in records
        ),
    )


def _listing(path: str, node: Node, recursive: bool) -> list[tuple[str, Node]]:
    if isinstance(node, File):
        return [(path, node)]
    if not recursive:
        return sorted(node.entries.items())
    return [
        # Empty directories are listed; all others appear in the paths of their files.
        (name, entry)
        for name, entry in filetree.walk(node)
        if isinstance(entry, File) or not entry.entries
    ]


def _kind(node: Node) -> str:
    return "file" if isinstance(node, File) else "directory"


async def fetch(
    blocks: BlockClient,
    tree: FileTree,
    target: Path,
    *,
    overwrite: bool = False,
    journal: UploadJournal | None = None,
    progress: Progress | None = None,
) -> int:
    """Write a tree below `target`; return the number of files that an earlier call had completed.

    Raises Conflict naming a file that is in the way, and as `downloads.download`.
    """
    known = journal or UploadJournal()
    files = dict(filetree.files(tree))
    there = await asyncio.to_thread(_existing, target, files)
    done = {path for path, stamp in there.items() if _key(path, files[path], stamp) in known.blocks}
    foreign = sorted(there.keys() - done)
    if foreign and not overwrite:
        more = f" (and {len(foreign) - 1} more)" if len(foreign) > 1 else ""
        raise Conflict(f"{target / foreign[0]}{more}: is there already; --overwrite replaces it")

    def landed(paths: Iterable[str]) -> None:
        for path, stamp in _existing(target, paths).items():
            known.note_block(_key(path, files[path], stamp), "")

    rest = tree_changes.change(tree, dict.fromkeys(done)) if done else tree
    await download(blocks, rest, target, progress=progress, landed=landed)
    return len(done)


def _existing(target: Path, paths: Iterable[str]) -> dict[str, str]:
    """The existing files at these paths, with their stamps; links are not followed."""
    found = {}
    for path in paths:
        with suppress(FileNotFoundError, NotADirectoryError):
            found[path] = str(stamp_of((target / path).lstat()))
    return found


# Changes with the file on disk and with its wanted content; signatures are left out.
def _key(path: str, file: File, stamp: str) -> str:
    digest = hashlib.sha256(f"{path}\0{stamp}".encode())
    for locator, offset, length in file.segments:
        digest.update(f" {filetree.bare(locator)} {offset} {length}".encode())
    return digest.hexdigest()[:32]
