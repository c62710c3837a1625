"""Selects the files of a container's output (docs/spec/containers, section Output).

The walk starts at the output path, inside the container's view of its file system:

- Files of the host are copied. Read-only collections are saved by reference, never read. Secrets
  and excluded mounts are left out; mounts below an excluded one are still visited.
- Symbolic links are always followed, by their text, element by element, within the container's
  mounts: a link can never lead to a file of the host that the container did not see. A link into
  any mount is mapped through that mount.
- A link to a missing path, to a path in no mount, to a tmp mount other than the output, in a
  circle, or over more than 10 links is an error; a link to a secret is dropped.
- An output path that is a file gives an output with this file alone, under its own name.
- Empty directories get a file `.keep`. Fifos, sockets and devices are left out with a note.
- Globs apply to paths relative to the output path, in collections too.
- The copied files have a limit for the sum of their bytes. Files saved by reference are stored
  already, and do not count.

`look` is the walk's access to the host: it returns the entry at a host path without following
links.
"""

from __future__ import annotations

import heapq
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec import structs

from lading.core.containers.mount_plan import Area, CollectionPath, HostPath, Keep, KeepTree, Source
from lading.core.data.globs import Globs
from lading.core.errors import ExecutionError, Failure
from lading.core.resources import format_bytes

# Links in one path; lower than the limit of Linux, which is 40.
MAX_LINKS = 10
MAX_DEPTH = 200
"""Maximum depth of directories; deeper ones are refused, as no program makes them on purpose."""
EMPTY_MARK = ".keep"
# Files between two calls of `ask`.
_STRIDE = 256
# Names that are sorted at once, in less than a tenth of a second, so that `ask` is called often
# enough.
_AT_ONCE = 1 << 17


class FileEntry(msgspec.Struct, frozen=True):
    """A regular file of so many bytes, holes included."""

    size: int = 0


class DirectoryEntry(msgspec.Struct, frozen=True):
    """A directory and its names.

    `files` are certainly regular files and need not be examined; `sizes` has the bytes of the
    measured ones.
    """

    names: tuple[str, ...]
    files: frozenset[str] = frozenset()
    sizes: Mapping[str, int] = msgspec.field(default_factory=dict)


class LinkEntry(msgspec.Struct, frozen=True):
    """A symbolic link and its text."""

    target: str


class SpecialEntry(msgspec.Struct, frozen=True):
    """A fifo, socket or device."""


Entry = FileEntry | DirectoryEntry | LinkEntry | SpecialEntry
Look = Callable[[Source], Entry | None]
"""Returns the entry at a place, None when it is missing."""


class CopyFile(msgspec.Struct, frozen=True):
    """Save the file `source`, which is in no collection, as `name` in the output."""

    name: str
    source: Source


class CopyFiles(msgspec.Struct, frozen=True):
    """Save the regular files `names` of a directory of the host in the directory `name` of the
    output ("" is its top).

    One item for a whole directory: there may be very many files.
    """

    name: str
    source: HostPath
    names: tuple[str, ...]


class Refer(msgspec.Struct, frozen=True):
    """Save a file or directory of a collection as `name` in the output ("" is the whole output), by
    reference.
    """

    name: str
    source: CollectionPath


class EmptyFile(msgspec.Struct, frozen=True):
    """Save an empty file as `name`, so that its directory exists in the output."""

    name: str


Item = CopyFile | CopyFiles | Refer | EmptyFile


class OutputPlan(msgspec.Struct, frozen=True):
    """The entries to save, each name once, and the entries that were left out."""

    items: tuple[Item, ...] = ()
    notes: tuple[str, ...] = ()


def ask_nobody() -> None:
    """The `ask` of a walk that cannot be stopped."""


def plan_output(
    output_path: str,
    areas: Iterable[Area],
    *,
    look: Look,
    globs: Globs,
    limit: int = 0,
    ask: Callable[[], None] = ask_nobody,
) -> OutputPlan:
    """Plan the output of an ended container.

    `ask` is called for each directory and every few hundred files; an exception from it ends the
    walk. Raises ExecutionError(USER) for a broken link, and when the files to copy have more than
    `limit` bytes (0 is no limit).
    """
    walk = _Walk(output_path, {area.target: area for area in areas}, look, globs, limit, ask)
    walk.visit("", output_path, above="", links=0, inside=())
    return OutputPlan(tuple(walk.items), tuple(walk.notes))


@dataclass(slots=True)
class _Place:
    """A container path after resolving links: the path, its area (None: in no mount) and the entry
    there.
    """

    path: str
    area: Area | None
    entry: Entry | None
    links: int


@dataclass(slots=True)
class _Walk:
    """The state of one walk."""

    output_path: str
    areas: dict[str, Area]
    look: Look
    globs: Globs
    limit: int
    ask: Callable[[], None]
    total: int = 0
    items: list[Item] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def visit(
        self, name: str, path: str, *, above: str, links: int, inside: tuple[str, ...]
    ) -> None:
        """Plan the entry at the container path `path` as `name` of the output.

        `links` were followed to get here, through the directories `inside`; `path` has no further
        links up to `above`.
        """
        self.ask()
        self._check_name(name)
        place = self._resolve(path, above, links, shown=self._shown(name))
        if place.area is not None and place.area.keep is Keep.NOTHING:
            self._visit_mounts_below(name, place, inside)
            return
        if place.area is not None and place.area.keep is Keep.TEMPORARY:
            self._refuse_temporary(name, place.path, place.area)
            return
        if place.area is None or place.entry is None:
            missing = "does not exist" if place.area else "is in no mount of the container"
            raise _fault(f"{self._shown(name)} is a link to {place.path}, which {missing}")
        match place.entry:
            case DirectoryEntry() as entry:
                self._visit_directory(name, place, entry, inside)
            case FileEntry(size):
                self._visit_file(name or posixpath.basename(self.output_path), place, size)
            case _:
                self.notes.append(
                    f"{self._shown(name)} is neither a file nor a directory; it is not saved"
                )

    def _refuse_temporary(self, name: str, path: str, area: Area) -> None:
        """Refuse a link into a tmp or live mount, unless the globs leave the link out."""
        if self.globs.keeps_file(name) or self.globs.may_keep_below(name):
            raise _fault(
                f"{self._shown(name)} is a link to {path}, which is in the mount"
                f" {area.target}, whose content is not saved, and not in the output; write it"
                f" below {self.output_path}, or let the link lead there or into a collection"
            )

    def _visit_file(self, name: str, place: _Place, size: int) -> None:
        if self.globs.keeps_file(name):
            self._add(name, _source(place), size)

    def _add_file(self, name: str, folder: Source, child: str, size: int) -> None:
        """Plan a regular file of a directory of a collection or git tree."""
        self._check_name(name)
        if self.globs.keeps_file(name):
            self._add(name, _settled(structs.replace(folder, path=_join(folder.path, child))), size)

    def _add(self, name: str, source: Source, size: int) -> None:
        if isinstance(source, CollectionPath):
            self.items.append(Refer(name, source))
            return
        self._count(size)
        self.items.append(CopyFile(name, source))

    def _add_files(
        self, name: str, folder: HostPath, children: Iterable[str], sizes: Mapping[str, int]
    ) -> None:
        """Plan the regular files of a directory of the host."""
        names = self._sorted(children)
        self._check_names(name, names)
        if not self.globs.everything:
            names = list(self._kept(name, names))
        if names:
            self._count(sum(sizes.get(child, 0) for child in names))
            self.items.append(CopyFiles(name, folder, tuple(names)))

    def _kept(self, folder: str, names: list[str]) -> Iterator[str]:
        """The files of a directory that the globs keep."""
        for number, name in enumerate(names):
            if number % _STRIDE == 0:
                self.ask()
            if self.globs.keeps_file(_join(folder, name)):
                yield name

    def _sorted(self, names: Iterable[str]) -> list[str]:
        """Sorted names. Large lists are sorted in parts: sorting millions at once takes seconds
        without a call of `ask`.
        """
        rest = list(names)
        if len(rest) <= _AT_ONCE:
            return sorted(rest)
        parts = []
        for start in range(0, len(rest), _AT_ONCE):
            self.ask()
            parts.append(sorted(rest[start : start + _AT_ONCE]))
        return list(heapq.merge(*parts))

    def _count(self, size: int) -> None:
        self.total += size
        if 0 < self.limit < self.total:
            raise too_large(self.output_path, self.total, self.limit)

    def _visit_directory(
        self, name: str, place: _Place, entry: DirectoryEntry, inside: tuple[str, ...]
    ) -> None:
        names = entry.names
        # Only links can lead to a directory that contains them.
        if place.path in inside:
            raise _fault(
                f"{self._shown(name)} is a link to {place.path}, a directory that it lies in"
            )
        if not self.globs.may_keep_below(name) and not self._keeps_directory(name):
            return
        mounted = self._mounts_below(place.path)
        source = _source(place)
        # Fast path: a whole directory of a collection by reference, without looking at its entries.
        if isinstance(source, CollectionPath) and not mounted and self.globs.keeps_all_below(name):
            self.items.append(Refer(name, source))
            return
        if len(inside) >= MAX_DEPTH:
            raise _fault(f"{self._shown(name)} lies more than {MAX_DEPTH} directories deep")
        # Shows later whether any entry of this directory is saved.
        before = len(self.items)
        self._visit_children(name, place, entry, mounted, (*inside, place.path))
        # Collections have no empty directories of their own.
        is_empty = not names and len(self.items) == before
        if is_empty and self._keeps_directory(name):
            self.items.append(EmptyFile(_join(name, EMPTY_MARK)))

    def _keeps_directory(self, name: str) -> bool:
        """Whether a directory below the output itself is kept although it is empty."""
        return bool(name) and self.globs.keeps_directory(name)

    def _visit_children(
        self,
        name: str,
        place: _Place,
        entry: DirectoryEntry,
        mounted: Iterable[str],
        below: tuple[str, ...],
    ) -> None:
        """Visit the entries of a directory, and the mounts below it; `below` are the parent
        directories of these mounts.
        """
        source = _source(place)
        known, others = set(entry.names), {one.split("/", 1)[0] for one in mounted}
        plain = entry.files - others
        # All plain files in one item; entries that need examination one by one.
        if isinstance(source, HostPath):
            self._add_files(name, source, plain, entry.sizes)
            others |= known - plain
        else:
            others |= known
        for child in self._sorted(others):
            inner = f"{place.path}/{child}"
            if child in plain:
                self._add_file(_join(name, child), source, child, entry.sizes.get(child, 0))
            elif child in known or inner in self.areas:
                self.visit(
                    _join(name, child), inner, above=place.path, links=place.links, inside=below
                )
            else:
                self._visit_mounts_below(
                    _join(name, child), _Place(inner, place.area, None, place.links), below
                )

    def _visit_mounts_below(self, name: str, place: _Place, inside: tuple[str, ...]) -> None:
        """Visit the outermost mounts below a directory whose own content is not walked."""
        mounted = self._mounts_below(place.path)
        for one in mounted:
            if not any(one.startswith(other + "/") for other in mounted):
                inner = posixpath.join(place.path, one)
                self.visit(
                    _join(name, one), inner, above=place.path, links=place.links, inside=inside
                )

    def _mounts_below(self, path: str) -> list[str]:
        """Targets of mounts below a container path, relative to it, parents first."""
        prefix = path + "/"
        return sorted(one[len(prefix) :] for one in self.areas if one.startswith(prefix))

    def _resolve(self, path: str, above: str, links: int, *, shown: str) -> _Place:
        """Follow links in every element of `path` after `above`."""
        done, rest = above, _elements(path[len(above) :])
        while rest:
            here = f"{done}/{rest.pop(0)}"
            area = self._area(here)
            entry = (
                self.look(_inside(area, here))
                if area is not None and area.source is not None
                else None
            )
            if isinstance(entry, LinkEntry):
                links += 1
                if links > MAX_LINKS:
                    raise _fault(f"{shown} is a link that goes over more than {MAX_LINKS} links")
                # Relative targets start at the link's directory; `..` above the root stays at the
                # root.
                target = posixpath.normpath(posixpath.join(done or "/", entry.target))
                done, rest = "", [*_elements(target), *rest]
            elif not rest:
                return _Place(here, area, entry, links)
            else:
                done = here
        return _Place("/", None, None, links)

    def _check_name(self, name: str) -> None:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            shown = name.encode("utf-8", "backslashreplace").decode()
            raise _fault(f"the name {shown} is not UTF-8; a collection cannot hold it") from error

    def _check_names(self, folder: str, names: list[str]) -> None:
        text = "/".join(names)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            # The first bad name, from its position in the joined text.
            first = text.rfind("/", 0, error.start) + 1
            self._check_name(_join(folder, text[first:].partition("/")[0]))

    def _area(self, path: str) -> Area | None:
        """The innermost mount that `path` lies in."""
        while path:
            area = self.areas.get(path)
            if area is not None:
                return area
            path = path.rpartition("/")[0]
        return None

    def _shown(self, name: str) -> str:
        return f"{self.output_path}/{name}" if name else self.output_path


def too_large(output_path: str, size: int, limit: int) -> ExecutionError:
    """Error for an output of `size` bytes or more."""
    return _fault(
        f"the files in {output_path} have {format_bytes(size)} or more,"
        f" and an output may have {format_bytes(limit)} (Containers.MaxOutputSize);"
        " write less there, or select files by output_glob"
    )


def _fault(text: str) -> ExecutionError:
    return ExecutionError(f"output: {text}", Failure.USER)


def _elements(path: str) -> list[str]:
    return [one for one in path.split("/") if one]


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _source(place: _Place) -> Source:
    if place.area is None:  # pragma: no cover
        raise AssertionError("only called for a place in a mount")
    return _inside(place.area, place.path)


def _inside(area: Area, path: str) -> Source:
    """Source of the container path `path` in `area`."""
    below = path[len(area.target) + 1 :]
    if area.source is None:  # pragma: no cover
        raise AssertionError("nothing may be read in this area")
    if not below:
        return area.source
    inner = structs.replace(area.source, path=posixpath.join(area.source.path, below))
    return _settled(inner)


def _settled(source: Source) -> Source:
    """The collection that contains a place in the tree of all collections, or the place itself."""
    return (source.collection if isinstance(source, KeepTree) else None) or source
