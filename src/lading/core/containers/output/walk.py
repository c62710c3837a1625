"""Selects the files of a container's output (docs/spec/containers, section Output).

The walk starts at the output path, inside the container's view of its file system:

- Files of the host are copied. Read-only collections are saved by reference, never read. Secrets
  and excluded mounts are left out; mounts below an excluded one are still visited.
- Symbolic links are always followed, by their text, element by element, within the container's
  mounts: a link can never lead to a file of the host that the container did not see. A link into
  any mount is mapped through that mount.
- A link to a file of the image is followed up to `MAX_IMAGE_FILE` bytes, where the engine gives
  access to the container's root file system.
- An entry that cannot be saved never costs the others: it is left out and named in `omitted`. These
  are links to a missing path, to a path in no mount, to a tmp mount other than the output, to a
  directory that they lie in, or over more than 10 links; names that are too long, and directories
  too deep, for a manifest; files and directories that only their owner may read, where the
  supervisor runs as an ordinary account. A link to a secret is dropped.
- A name that is not UTF-8 is spelled (`core.data.raw_names`) and named in `renamed`.
- An output path that is a file gives an output with this file alone, under its own name.
- Empty directories get a file `.keep`. Fifos, sockets and devices are left out with a remark.
- Globs apply to paths relative to the output path, in collections too.
- The copied files have a limit for the sum of their bytes. Files saved by reference are stored
  already, and do not count.

`look` is the walk's access to the host: it returns the entry at a host path without following
links.
"""

from __future__ import annotations

import heapq
import posixpath
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field

from msgspec import structs

from lading.core.containers.mounting.mount_plan import Area, Keep
from lading.core.containers.mounting.mount_steps import (
    CollectionPath,
    HostPath,
    ImagePath,
    KeepTree,
    Source,
)
from lading.core.containers.output.plan import (
    CopyFile,
    CopyFiles,
    DirectoryEntry,
    EmptyFile,
    Entry,
    FileEntry,
    Item,
    LinkEntry,
    Look,
    OutputPlan,
    Refer,
    UnreadableEntry,
)
from lading.core.data.globs import Globs
from lading.core.data.manifest import MAX_DEPTH, fault_of
from lading.core.data.raw_names import are_plain, is_plain, spell
from lading.core.errors import ExecutionError, Failure
from lading.core.remarks import RemarkList
from lading.core.resources import format_bytes

# Links in one path; lower than the limit of Linux, which is 40.
MAX_LINKS = 10
MAX_IMAGE_FILE = 16 << 20
"""Maximum size in bytes of a file of the image that is saved for a link to it."""
_UNREADABLE = (
    "cannot be read by the account that saves the output; "
    "let the command end with chmod -R a+rX on it"
)
# Characters of a path in a message.
_SHOWN = 200
EMPTY_MARK = ".keep"
# Files between two calls of `ask`.
_STRIDE = 256
# Names that are sorted at once, in less than a tenth of a second, so that `ask` is called often
# enough.
_AT_ONCE = 1 << 17
_Visits = Iterator["_Visits"]
"""Work on one entry. It yields the work on each entry below it, which is done before it goes on."""


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
    walk. Raises ExecutionError(USER) when nothing can be saved, as the output path itself is a
    broken link, and when the files to copy have more than `limit` bytes (0 is no limit).
    """
    walk = _Walk(output_path, {area.target: area for area in areas}, look, globs, limit, ask)
    _go_through(walk.visit("", output_path, above="", links=0, inside=()))
    return OutputPlan(
        tuple(walk.items), walk.omitted.remarks(), walk.renamed.remarks(), walk.special.remarks()
    )


def _go_through(visits: _Visits) -> None:
    """Do the work, without recursion: directories may be nested as deep as a manifest allows."""
    stack = [visits]
    while stack:
        below = next(stack[-1], None)
        if below is None:
            stack.pop()
        else:
            stack.append(below)


@dataclass(slots=True)
class _Place:
    """A container path after resolving links: the path, its area (None: in no mount) and the entry
    there.

    `links`: the number of links that were followed; more than `MAX_LINKS` have no entry.
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
    omitted: RemarkList = field(default_factory=RemarkList)
    renamed: RemarkList = field(default_factory=RemarkList)
    special: RemarkList = field(default_factory=RemarkList)

    def visit(
        self, name: str, path: str, *, above: str, links: int, inside: tuple[str, ...]
    ) -> _Visits:
        """Plan the entry at the container path `path` as `name` of the output.

        `links` were followed to get here, through the directories `inside`; `path` has no further
        links up to `above`.
        """
        self.ask()
        if fault := fault_of(name) if name else "":
            self._omit(name, fault)
            return
        location = self._resolve(path, above, links)
        if location.area is not None and location.area.keep is Keep.NOTHING:
            yield self._visit_mounts_below(name, location, inside)
        elif fault := self._fault_of(location, is_link=location.links > links):
            self._omit(name, fault)
        else:
            yield self._visit_place(name, location, inside)

    def _visit_place(self, name: str, location: _Place, inside: tuple[str, ...]) -> _Visits:
        match location.entry:
            case DirectoryEntry() as entry:
                yield self._visit_directory(name, location, entry, inside)
            case FileEntry(size):
                self._visit_file(name or posixpath.basename(self.output_path), location, size)
            case _ if not name or self.globs.keeps_file(name):
                self.special.add(
                    f"{self._shown(name)} is neither a file nor a directory; it is not saved"
                )

    def _omit(self, name: str, fault: str) -> None:
        """Leave out an entry that the globs keep. The output itself cannot be left out."""
        if not name:
            raise _fault(f"{self._shown(name)} {fault}")
        if self.globs.keeps_file(name) or self.globs.may_keep_below(name):
            self.omitted.add(f"{self._shown(name)} {fault}")

    def _spell(self, folder: str, child: str, siblings: Container[str]) -> str:
        """Name in the output of the entry `child` of a directory with the entries `siblings`."""
        stored = spell(child, siblings.__contains__)
        name = _join(folder, stored)
        # A name that grows too long by its spelling is left out, and nothing spells it.
        if stored != child and self.globs.keeps_file(name) and not fault_of(name):
            self.renamed.add(f"{self._shown(name)} has a name that is not UTF-8; this spells it")
        return name

    def _visit_file(self, name: str, location: _Place, size: int) -> None:
        if self.globs.keeps_file(name):
            self._add(name, _source(location), size)

    def _add_file(self, name: str, folder: Source, child: str, size: int) -> None:
        """Plan a regular file of a directory of a collection or git tree."""
        if fault := fault_of(name):
            self._omit(name, fault)
        elif self.globs.keeps_file(name):
            self._add(name, _settled(structs.replace(folder, path=_join(folder.path, child))), size)

    def _add(self, name: str, source: Source, size: int) -> None:
        if isinstance(source, CollectionPath):
            self.items.append(Refer(name, source))
            return
        self._count(size)
        self.items.append(CopyFile(name, source))

    def _add_files(
        self, name: str, folder: HostPath, children: Iterable[str], entry: DirectoryEntry
    ) -> None:
        """Plan the regular files of a directory of the host, some of the entries of `entry`."""
        names, sizes = self._sorted(children), entry.sizes
        if not are_plain(names):
            names = list(self._add_spelled(name, folder, names, entry))
        if not self.globs.everything:
            names = list(self._kept(name, names))
        if names:
            self._count(sum(sizes.get(child, 0) for child in names))
            self.items.append(CopyFiles(name, folder, tuple(names)))

    def _add_spelled(
        self, name: str, folder: HostPath, children: list[str], entry: DirectoryEntry
    ) -> Iterator[str]:
        """Plan the files of a directory whose names have to be spelled; return the others."""
        siblings, sizes = set(entry.names), entry.sizes
        for child in children:
            if is_plain(child):
                yield child
                continue
            stored = self._spell(name, child, siblings)
            if fault := fault_of(stored):
                self._omit(stored, fault)
            elif self.globs.keeps_file(stored):
                self._count(sizes.get(child, 0))
                self.items.append(CopyFile(stored, HostPath(_join(folder.path, child))))

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
        remaining = list(names)
        if len(remaining) <= _AT_ONCE:
            return sorted(remaining)
        parts = []
        for start in range(0, len(remaining), _AT_ONCE):
            self.ask()
            parts.append(sorted(remaining[start : start + _AT_ONCE]))
        return list(heapq.merge(*parts))

    def _count(self, size: int) -> None:
        self.total += size
        if 0 < self.limit < self.total:
            raise too_large(self.output_path, self.total, self.limit)

    def _visit_directory(
        self, name: str, location: _Place, entry: DirectoryEntry, inside: tuple[str, ...]
    ) -> _Visits:
        names = entry.names
        keeps_below = self.globs.everything or self.globs.may_keep_below(name)
        if not keeps_below and not self._keeps_directory(name):
            return
        if fault := _fault_of_directory(name, location, inside):
            self._omit(name, fault)
            return
        mounted = self._mounts_below(location.path)
        source = _source(location)
        # Fast path: a whole directory of a collection by reference, without looking at its entries.
        if isinstance(source, CollectionPath) and not mounted and self.globs.keeps_all_below(name):
            self.items.append(Refer(name, source))
            return
        # Shows later whether any entry of this directory is saved, or was left out.
        before, omitted = len(self.items), self.omitted.count
        yield self._visit_children(name, location, entry, mounted, (*inside, location.path))
        # Collections have no empty directories of their own.
        is_empty = len(self.items) == before and (not names or self.omitted.count > omitted)
        if is_empty and self._keeps_directory(name):
            self.items.append(EmptyFile(_join(name, EMPTY_MARK)))

    def _keeps_directory(self, name: str) -> bool:
        """Whether a directory below the output itself is kept although it is empty."""
        return bool(name) and self.globs.keeps_directory(name)

    def _visit_children(
        self,
        name: str,
        location: _Place,
        entry: DirectoryEntry,
        mounted: Iterable[str],
        below: tuple[str, ...],
    ) -> _Visits:
        """Visit the entries of a directory, and the mounts below it; `below` are the parent
        directories of these mounts.
        """
        source = _source(location)
        names, others = set(entry.names), {target.split("/", 1)[0] for target in mounted}
        plain = entry.files - others
        # All plain files in one item; entries that need examination one by one.
        if isinstance(source, HostPath):
            self._add_files(name, source, plain, entry)
            others |= names - plain
        else:
            others |= names
        for child in self._sorted(others):
            inner = f"{location.path}/{child}"
            if child in plain:
                stored = self._spell(name, child, names)
                self._add_file(stored, source, child, entry.sizes.get(child, 0))
            elif child in names or inner in self.areas:
                yield self.visit(
                    self._spell(name, child, names),
                    inner,
                    above=location.path,
                    links=location.links,
                    inside=below,
                )
            else:
                yield self._visit_mounts_below(
                    _join(name, child), _Place(inner, location.area, None, location.links), below
                )

    def _visit_mounts_below(self, name: str, location: _Place, inside: tuple[str, ...]) -> _Visits:
        """Visit the outermost mounts below a directory whose own content is not walked."""
        mounted = self._mounts_below(location.path)
        for target in mounted:
            if not any(target.startswith(outer + "/") for outer in mounted):
                inner = posixpath.join(location.path, target)
                yield self.visit(
                    _join(name, target),
                    inner,
                    above=location.path,
                    links=location.links,
                    inside=inside,
                )

    def _mounts_below(self, path: str) -> list[str]:
        """Targets of mounts below a container path, relative to it, parents first."""
        prefix = path + "/"
        return sorted(target[len(prefix) :] for target in self.areas if target.startswith(prefix))

    def _resolve(self, path: str, above: str, links: int) -> _Place:
        """Follow links in every element of `path` after `above`."""
        done, remaining = above, _elements(path[len(above) :])
        while remaining:
            current = f"{done}/{remaining.pop(0)}"
            area = self._area(current)
            entry = self._look(current, area)
            if isinstance(entry, LinkEntry):
                links += 1
                if links > MAX_LINKS:
                    return _Place(current, area, None, links)
                # Relative targets start at the link's directory; `..` above the root stays at the
                # root.
                target = posixpath.normpath(posixpath.join(done or "/", entry.target))
                done, remaining = "", [*_elements(target), *remaining]
            elif not remaining:
                return _Place(current, area, entry, links)
            else:
                done = current
        return _Place("/", None, None, links)

    def _look(self, path: str, area: Area | None) -> Entry | None:
        """The entry at a container path whose links above are resolved."""
        if area is not None:
            return self.look(_inside(area, path)) if area.source is not None else None
        # Mount targets count by their text, so a directory above one is no link, whatever the image
        # has there.
        return None if self._mounts_below(path) else self.look(ImagePath(path[1:]))

    def _area(self, path: str) -> Area | None:
        """The innermost mount that `path` lies in."""
        while path:
            area = self.areas.get(path)
            if area is not None:
                return area
            path = path.rpartition("/")[0]
        return None

    def _fault_of(self, location: _Place, *, is_link: bool) -> str:
        """The reason why the entry at a place cannot be saved, "" if it can. `is_link`: the entry
        of the output is a link that leads to the place.
        """
        path = _cut(location.path)
        if location.links > MAX_LINKS:
            return f"is a link that goes over more than {MAX_LINKS} links"
        if location.area is None:
            return _fault_in_image(path, location.entry)
        if location.area.keep is Keep.TEMPORARY:
            return (
                f"is a link to {path}, which is in the mount {_cut(location.area.target)}, whose"
                f" content is not saved; write it below {_cut(self.output_path)}"
            )
        if isinstance(location.entry, UnreadableEntry):
            return f"is a link to {path}, which {_UNREADABLE}" if is_link else _UNREADABLE
        if location.entry is not None:
            return ""
        return f"is a link to {path}, which does not exist" if is_link else "has vanished"

    def _shown(self, name: str) -> str:
        return _cut(f"{self.output_path}/{name}" if name else self.output_path)


def _fault_of_directory(name: str, location: _Place, inside: tuple[str, ...]) -> str:
    """The reason why the content of a directory cannot be saved, "" if it can."""
    # Only links can lead to a directory that contains them.
    if location.path in inside:
        return f"is a link to {_cut(location.path)}, a directory that it lies in"
    # A file in it would have one name more. Links may lie deeper than their names show.
    if len(inside) >= MAX_DEPTH or name.count("/") + 2 > MAX_DEPTH:
        return f"lies too deep: a path has at most {MAX_DEPTH} names"
    return ""


def _fault_in_image(path: str, entry: Entry | None) -> str:
    """The reason why an entry outside the mounts cannot be saved, "" if it can."""
    match entry:
        case FileEntry(size) if size <= MAX_IMAGE_FILE:
            return ""
        case FileEntry():
            limit = format_bytes(MAX_IMAGE_FILE)
            return f"is a link to {path}, a file of the image of more than {limit}"
        case DirectoryEntry():
            return f"is a link to {path}, a directory of the image"
        case UnreadableEntry():
            return f"is a link to {path}, a file of the image that {_UNREADABLE}"
    return f"is a link to {path}, which is in no mount of the container"


def _cut(path: str) -> str:
    """A path for a message: on one line, and of bounded length."""
    shown = path if path.isprintable() else repr(path)[1:-1]
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."


def too_large(output_path: str, size: int, limit: int) -> ExecutionError:
    """Error for an output of `size` bytes or more."""
    return _fault(
        f"the files in {output_path} have {format_bytes(size)} or more,"
        f" and an output may have {format_bytes(limit)} (Containers.MaxOutputSize);"
        " write less there, or select files by output_glob"
    )


def _fault(fault: str) -> ExecutionError:
    return ExecutionError(f"output: {fault}", Failure.USER)


def _elements(path: str) -> list[str]:
    return [element for element in path.split("/") if element]


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _source(location: _Place) -> Source:
    return (
        ImagePath(location.path[1:])
        if location.area is None
        else _inside(location.area, location.path)
    )


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
