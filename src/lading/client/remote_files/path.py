"""`lading.Path`: files of the site in the manner of `pathlib`.

    table = lading.Path("project/results/table.csv")
    print(table.read_text())
    for file in lading.Path("project/results").glob("*.csv"):
        print(file.name, file.stat().size)

An address is `project/collection/file` below the caller's home, or begins with a uuid or a hash;
`lading://` may stand before it. The site is that of `lading.connect()`, connected with the first
call, or the one that is given.
"""

from __future__ import annotations

import functools
import io
import threading
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, Any, Literal, overload

from lading.client.remote_files.addresses import SCHEME, plain_path
from lading.client.remote_files.faults import IsNoDirectory, NoSuchFile
from lading.client.remote_files.streams import FileSite, buffered, open_stream
from lading.client.remote_files.tree import TreeEntry
from lading.core.data.globs import Globs, compile_globs, matches_nothing
from lading.core.errors import Invalid

_connecting = threading.Lock()


@functools.total_ordering
class Path:
    """The path of a file, directory, collection or project. Paths are values: equal, hashed and
    ordered by their names.
    """

    __slots__ = ("_pure", "_site")

    def __init__(self, *segments: str | Path, site: FileSite | None = None) -> None:
        self._pure: PurePosixPath = PurePosixPath(
            *(
                segment._pure if isinstance(segment, Path) else plain_path(segment)
                for segment in segments
            )
        )
        if self._pure.is_absolute() or ".." in self._pure.parts:
            raise Invalid(f"{self._pure}: write names with / between them, without ..")
        earlier = (segment._site for segment in segments if isinstance(segment, Path))
        self._site: FileSite | None = site or next(filter(None, earlier), None)

    # The names.

    @property
    def name(self) -> str:
        """The last name."""
        return self._pure.name

    @property
    def stem(self) -> str:
        """The last name without its suffix."""
        return self._pure.stem

    @property
    def suffix(self) -> str:
        """The end of the last name, from its last dot on."""
        return self._pure.suffix

    @property
    def suffixes(self) -> list[str]:
        """The suffixes of the last name."""
        return self._pure.suffixes

    @property
    def parts(self) -> tuple[str, ...]:
        """All names."""
        return self._pure.parts

    @property
    def parent(self) -> Path:
        """The path without its last name; the home's is the home."""
        return self._of(self._pure.parent)

    @property
    def parents(self) -> tuple[Path, ...]:
        """The paths above, the nearest first."""
        return tuple(self._of(pure) for pure in self._pure.parents)

    def joinpath(self, *segments: str | Path) -> Path:
        """The path with further names."""
        return Path(self, *segments)

    def __truediv__(self, segment: str | Path) -> Path:
        return self.joinpath(segment)

    def with_name(self, name: str) -> Path:
        """The path with another last name."""
        return self._of(self._pure.with_name(name))

    def with_stem(self, stem: str) -> Path:
        """The path with another last name before its suffix."""
        return self._of(self._pure.with_stem(stem))

    def with_suffix(self, suffix: str) -> Path:
        """The path with another suffix of its last name."""
        return self._of(self._pure.with_suffix(suffix))

    def relative_to(self, base: str | Path) -> PurePosixPath:
        """The names below another path. Raises ValueError."""
        return self._pure.relative_to(Path(base)._pure)

    def is_relative_to(self, base: str | Path) -> bool:
        """Whether it is another path, or below it."""
        return self._pure.is_relative_to(Path(base)._pure)

    def match(self, pattern: str) -> bool:
        """Whether its last names match a pattern, as `pathlib` says."""
        return self._pure.match(pattern)

    def as_posix(self) -> str:
        """The names with `/` between them; "" for the home."""
        return "" if not self._pure.parts else str(self._pure)

    def as_uri(self) -> str:
        """The address, which the file system of fsspec takes."""
        return f"{SCHEME}://{self.as_posix()}"

    def __str__(self) -> str:
        return self.as_uri()

    def __repr__(self) -> str:
        return f"Path({self.as_uri()!r})"

    def __eq__(self, value: object, /) -> bool:
        return self._pure == value._pure if isinstance(value, Path) else NotImplemented

    def __lt__(self, value: object, /) -> bool:
        return self._pure < value._pure if isinstance(value, Path) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._pure)

    # Looking.

    def stat(self) -> TreeEntry:
        """Kind, `size`, `modified` and others of the file or directory. Raises NoSuchFile."""
        return self.site.call(self.site.files.entry(self.as_posix()))

    def exists(self) -> bool:
        """Whether it is there, for the caller."""
        return self._kind() is not None

    def is_file(self) -> bool:
        """Whether it is a file."""
        return self._kind() == "file"

    def is_dir(self) -> bool:
        """Whether it is a directory, a collection or a project."""
        return self._kind() == "directory"

    def iterdir(self) -> Iterator[Path]:
        """The paths in a directory. Raises NoSuchFile, IsNoDirectory."""
        entries = self.site.call(self.site.files.entries(self.as_posix()))
        if [entry.path for entry in entries] == [self.as_posix()]:
            raise IsNoDirectory(f"{self.as_posix()}: is a file")
        for entry in entries:
            yield self._of(PurePosixPath(entry.path))

    def glob(self, pattern: str) -> Iterator[Path]:
        """The paths below that match a pattern, in order; `**` stands for any directories, also
        for none. Raises Invalid for a pattern that can match nothing.
        """
        if not pattern or pattern.startswith("/") or matches_nothing(pattern):
            raise Invalid(f"{pattern!r}: no pattern; write for example *.csv or **/*.csv")
        globs = compile_globs([pattern.rstrip("/")])
        for path, kind in self._below(globs):
            name = str(path.relative_to(self))
            if globs.keeps_file(name) if kind == "file" else globs.keeps_directory(name):
                yield path

    def rglob(self, pattern: str) -> Iterator[Path]:
        """As `glob` with `**/` before the pattern."""
        return self.glob(f"**/{pattern}")

    def walk(self) -> Iterator[tuple[Path, list[str], list[str]]]:
        """Each directory from this one down: its path, and the names of the directories and files
        in it.
        """
        entries = self.site.call(self.site.files.entries(self.as_posix()))
        folders = [entry.name for entry in entries if entry.kind == "directory"]
        yield self, folders, [entry.name for entry in entries if entry.kind == "file"]
        for name in folders:
            yield from (self / name).walk()

    # Reading and writing.

    @overload
    def open(
        self,
        mode: Literal["rb", "wb", "xb", "ab"],
        *,
        encoding: None = None,
        errors: None = None,
        newline: None = None,
    ) -> IO[bytes]: ...

    @overload
    def open(
        self,
        mode: str = "r",
        *,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]: ...

    def open(
        self,
        mode: str = "r",
        *,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Open the file, with the words of Python's `open`; text is UTF-8 by default. The written
        bytes are at the path after `close`, and durable then.
        """
        kind = mode.replace("b", "", 1).replace("t", "", 1)
        stream = buffered(open_stream(self.site, self.as_posix(), kind))
        if "b" in mode:
            return stream
        return io.TextIOWrapper(stream, encoding or "utf-8", errors, newline)

    def read_bytes(self) -> bytes:
        """The content. Raises NoSuchFile, IsDirectory."""
        return self.site.call(self.site.files.read(self.as_posix()))

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The text."""
        return self.read_bytes().decode(encoding, errors)

    def write_bytes(self, data: bytes | bytearray | memoryview) -> int:
        """Store a content, durable at the return; the number of bytes. The collection is made if it
        is missing. Raises IsDirectory, NotPermitted.
        """
        self.site.call(self.site.files.write(self.as_posix(), data))
        return memoryview(data).nbytes

    def write_text(self, data: str, encoding: str = "utf-8", errors: str = "strict") -> int:
        """Store a text; the number of characters."""
        self.write_bytes(data.encode(encoding, errors))
        return len(data)

    def touch(self, exist_ok: bool = True) -> None:
        """Make an empty file unless it is there. Raises FileIsThere."""
        if not exist_ok or not self.exists():
            self.site.call(self.site.files.write(self.as_posix(), b"", exclusive=True))

    # Changing.

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a directory, or a collection. Raises FileIsThere, NoSuchFile without `parents`."""
        made = self.site.files.make_directory(self.as_posix(), parents=parents, exist_ok=exist_ok)
        self.site.call(made)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove a file. Raises NoSuchFile, IsDirectory."""
        try:
            self.site.call(self.site.files.remove_file(self.as_posix()))
        except NoSuchFile:
            if not missing_ok:
                raise

    def rmdir(self) -> None:
        """Remove an empty directory, or put an empty collection into the trash. Raises NoSuchFile,
        IsDirectory.
        """
        self.site.call(self.site.files.remove(self.as_posix()))

    def rename(self, target: str | Path) -> Path:
        """Move to a path where nothing is; that path. No data is moved. Raises FileIsThere."""
        return self._move(target, exclusive=True)

    def replace(self, target: str | Path) -> Path:
        """Move to a path, in place of a file there; that path."""
        return self._move(target, exclusive=False)

    def copy(self, target: str | Path) -> Path:
        """Copy to a path, in place of a file there; that path. No data is moved."""
        goal = Path(target, site=self._site)
        self.site.call(self.site.files.copy(self.as_posix(), goal.as_posix()))
        return goal

    @property
    def site(self) -> FileSite:
        """The site that it is on."""
        return self._site or _default_site()

    def _move(self, target: str | Path, *, exclusive: bool) -> Path:
        goal = Path(target, site=self._site)
        moved = self.site.files.move(self.as_posix(), goal.as_posix(), exclusive=exclusive)
        self.site.call(moved)
        return goal

    def _kind(self) -> str | None:
        try:
            return self.stat().kind
        except (NoSuchFile, IsNoDirectory):
            return None

    def _of(self, pure: PurePosixPath) -> Path:
        return Path(str(pure), site=self._site)

    def _below(self, globs: Globs) -> Iterator[tuple[Path, str]]:
        """The paths below, with their kinds, in directories that may have matching ones."""
        folders = [self]
        while folders:
            folder = folders.pop()
            inside: list[Path] = []
            for entry in self.site.call(self.site.files.entries(folder.as_posix())):
                path = self._of(PurePosixPath(entry.path))
                if path == folder:
                    continue
                yield path, entry.kind
                name = str(path.relative_to(self))
                if entry.kind == "directory" and globs.may_keep_below(name):
                    inside.append(path)
            folders += reversed(inside)


@functools.cache
def connected() -> FileSite:
    """The site of `lading.connect()`, one for the process."""
    # Imported here: paths are made without a connection.
    from lading.client.site import connect

    return connect()


def _default_site() -> FileSite:
    # Of several threads one connects.
    with _connecting:
        return connected()
