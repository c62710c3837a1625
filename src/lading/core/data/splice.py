"""`replace_files` and `replace_segments`: writes to a collection that name the changes only.

    replace_files      {target: source}     target: "/" or "/a/b"
        ""                      remove the target
        "<hash>[/path]"         from the content with this portable data hash; the empty
                                collection makes an empty directory
        "current[/path]"        from the collection before the request, so that files can be
                                swapped
        "manifest_text[/path]"  from the manifest of the same request
    replace_segments   {"<locator> <offset> <length>": "<locator> <offset> <length>"}

No target may lie inside another one whose source is not empty, and a manifest that comes with
targets must be used by one of them. Unused segments are ignored; a file that uses a part of a
segment is repointed for that part. A fault raises Malformed, which names the target or segment.
Source: docs/spec/api, section Collections.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

from lading.core import ids
from lading.core.data import filetree, manifest, tree_changes
from lading.core.data.filetree import File, FileTree, Node, Segment
from lading.core.data.manifest import size_of
from lading.core.errors import Invalid, Malformed
from lading.core.records.schema import JSON

# A locator, then the position and the length of a part of its block.
_SEGMENT: Final = re.compile(
    r"([0-9a-f]{32}\+(?:0|[1-9][0-9]{0,17})(?:\+[A-Z][A-Za-z0-9@_-]*)*) ([0-9]{1,18}) ([0-9]{1,18})"
)
# Characters of a path in a message.
_SHOWN: Final = 120


class Origin(StrEnum):
    """Sources of files besides other collections."""

    CURRENT = "current"
    SUPPLIED = "manifest_text"
    NOWHERE = ""


@dataclass(frozen=True, slots=True)
class SpliceSource:
    """Source of one target: `origin` is an Origin or a portable data hash; `path` is below it."""

    origin: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class Repoint:
    """Use `new` in place of `old`; both have the same length."""

    old: Segment
    new: Segment


def read_files(files: JSON, *, supplied: bool) -> dict[str, SpliceSource]:
    """The checked sources by target, targets without their leading slash; `supplied`: the request
    has a manifest.

    Raises Malformed.
    """
    if not isinstance(files, dict):
        raise Malformed("replace_files: must be an object {target: source}")
    sources = {_target(target): _source(target, source) for target, source in files.items()}
    if (
        supplied
        and sources
        and not any(source.origin == Origin.SUPPLIED for source in sources.values())
    ):
        raise Malformed(
            "replace_files: manifest_text is given, but no source refers to it; "
            "use manifest_text/<path>"
        )
    # A target below one that is only removed is fine: the parent is removed first.
    filled = {target for target, source in sources.items() if source.origin}
    for target in sources:
        for parent in _parents(target):
            if parent in filled:
                raise Malformed(
                    f"replace_files: target {_shown('/' + target)} "
                    f"lies inside target {_shown('/' + parent)}"
                )
    return sources


def contents_of(sources: Mapping[str, SpliceSource]) -> set[str]:
    """The portable data hashes of the sources, without the empty collection."""
    # The empty collection is there for everybody, and need not be looked up.
    return {source.origin for source in sources.values()} - {*Origin} - {ids.EMPTY_PDH}


def replace_files(
    current: FileTree,
    sources: Mapping[str, SpliceSource],
    *,
    supplied: FileTree,
    contents: Mapping[str, FileTree],
) -> FileTree:
    """The tree with every target replaced. Raises Malformed for a missing source, or a file as a
    parent.
    """
    origins = {
        Origin.CURRENT: current,
        Origin.SUPPLIED: supplied,
        ids.EMPTY_PDH: FileTree(),
        **contents,
    }
    # All sources are read from the tree before the request, so that files can be swapped.
    changes: dict[str, Node | None] = {}
    for target, source in sources.items():
        node = filetree.find(origins[source.origin], source.path) if source.origin else None
        if source.origin and node is None:
            raise Malformed(
                f"replace_files: source of {_shown('/' + target)}: "
                f"{_shown(source.path)} is not there"
            )
        if not target and isinstance(node, File):
            raise Malformed("replace_files: '/': a file cannot stand for the root of a collection")
        changes[target] = node
    try:
        return tree_changes.change(current, changes)
    except Invalid as error:
        raise Malformed(f"replace_files: {error.message}") from None


def read_segments(segments: JSON) -> tuple[Repoint, ...]:
    """The checked replacements. Raises Malformed."""
    if not isinstance(segments, dict):
        raise Malformed(
            'replace_segments: must be an object {"<locator> <offset> <length>": the same form}'
        )
    replacements = tuple(Repoint(_segment(old), _segment(new)) for old, new in segments.items())
    for replacement in replacements:
        if replacement.old.length != replacement.new.length:
            raise Malformed(
                f"replace_segments: {_written(replacement.old)}: its replacement has"
                f" {replacement.new.length} bytes"
            )
    # Overlapping segments would make the result depend on their order.
    for spans in _by_block(replacements).values():
        for before, after in pairwise(spans):
            if before.old.offset + before.old.length > after.old.offset:
                raise Malformed(
                    f"replace_segments: {_written(after.old)} overlaps {_written(before.old)}"
                )
    return replacements


def replace_segments(tree: FileTree, replacements: tuple[Repoint, ...]) -> FileTree:
    """The tree whose files use the new segments."""
    return _repointed(tree, _by_block(replacements))


def _target(target: str) -> str:
    if target == "/":
        return ""
    path = target[1:]
    if not target.startswith("/") or manifest.fault_of(path) or not _is_text(path):
        raise Malformed(
            f"invalid replace_files target: {_shown(target)}; write '/' or '/directory/file'"
        )
    return path


def _source(target: str, source: JSON) -> SpliceSource:
    if source == "":
        return SpliceSource(Origin.NOWHERE)
    origin, _, path = source.partition("/") if isinstance(source, str) else ("", "", "")
    path = path.removesuffix("/")
    known = origin in (Origin.CURRENT, Origin.SUPPLIED) or ids.is_pdh(origin)
    if not origin or not known or (path and (manifest.fault_of(path) or not _is_text(path))):
        raise Malformed(
            f"invalid replace_files source: {_shown(str(source))} for {_shown(target)}; "
            "write '', 'current/<path>', 'manifest_text/<path>' "
            "or '<portable data hash>/<path>'"
        )
    return SpliceSource(origin, path)


# Lone surrogates cannot be encoded as UTF-8.
def _is_text(path: str) -> bool:
    return (
        not any("\ud800" <= character <= "\udfff" for character in path)
        if not path.isascii()
        else True
    )


def _parents(target: str) -> Iterator[str]:
    end = len(target)
    while end > 0:
        end = max(target.rfind("/", 0, end), 0)
        yield target[:end]


def _segment(value: JSON) -> Segment:
    match = _SEGMENT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise Malformed(
            f"replace_segments: {_shown(str(value))}: not '<locator> <offset> <length>'"
        )
    segment = Segment(match[1], int(match[2]), int(match[3]))
    if not segment.length or segment.offset + segment.length > size_of(segment.locator):
        raise Malformed(f"replace_segments: {_written(segment)}: no bytes of this block")
    return segment


def _by_block(replacements: tuple[Repoint, ...]) -> dict[str, list[Repoint]]:
    by_block: dict[str, list[Repoint]] = {}
    for replacement in sorted(replacements, key=lambda replacement: replacement.old.offset):
        by_block.setdefault(filetree.bare(replacement.old.locator), []).append(replacement)
    return by_block


def _repointed(tree: FileTree, spans: Mapping[str, list[Repoint]]) -> FileTree:
    return FileTree(
        {
            name: _repointed(node, spans)
            if isinstance(node, FileTree)
            else _repointed_file(node, spans)
            for name, node in tree.entries.items()
        }
    )


def _repointed_file(file: File, spans: Mapping[str, list[Repoint]]) -> File:
    # Most files of a collection are not concerned: they are shared with the former tree.
    if not any(filetree.bare(segment.locator) in spans for segment in file.segments):
        return file
    pieces: list[Segment] = []
    for segment in file.segments:
        for piece in _cut(segment, spans.get(filetree.bare(segment.locator), [])):
            filetree.append(pieces, piece)
    return File(tuple(pieces))


# Cuts a segment at the borders of the replacements, which are sorted by offset.
def _cut(segment: Segment, spans: list[Repoint]) -> Iterator[Segment]:
    at, end = segment.offset, segment.offset + segment.length
    # The last replacement that begins at or before the segment may reach into it.
    first = max(bisect_right(spans, at, key=lambda replacement: replacement.old.offset) - 1, 0)
    for replacement in spans[first:]:
        start, stop = (
            max(replacement.old.offset, at),
            min(replacement.old.offset + replacement.old.length, end),
        )
        if replacement.old.offset >= end:
            break
        if start >= stop:
            continue
        if at < start:
            yield Segment(segment.locator, at, start - at)
        yield Segment(
            replacement.new.locator,
            replacement.new.offset + start - replacement.old.offset,
            stop - start,
        )
        at = stop
    if at < end:
        yield Segment(segment.locator, at, end - at)


def _written(segment: Segment) -> str:
    return f"{filetree.bare(segment.locator)} {segment.offset} {segment.length}"


def _shown(value: str) -> str:
    return repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "...")
