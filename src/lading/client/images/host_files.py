"""Files of this machine for an image: Debian packages, paths with parents.

- Packages are read from dpkg's files: owner of a path, files and dependencies of a package. dpkg
  lists paths as they were before /bin, /lib and others became links into /usr; both spellings find
  the owner.
- A path brings its parent directories, each symbolic link on the way (so that /bin stays a link if
  it is one) and the targets of the links.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lading.client.images.layer_writing import LayerEntry

# A field of a stanza in dpkg's database (deb-control(5)), without continuation lines.
_FIELD = re.compile(r"^([A-Z][A-Za-z-]*): *(.*)$", re.MULTILINE)
# The name of a package: Debian Policy, section 5.6.1.
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*")
# Sections of packages that contain shared libraries only.
_LIBRARY_SECTIONS = ("libs", "oldlibs")
# Needed to install packages, not to run them; of the C library only used files are added.
_NOT_FOLLOWED = frozenset(
    (
        "dpkg",
        "debconf",
        "cdebconf",
        "install-info",
        "init-system-helpers",
        "libc6",
        "libc-bin",
        "ucf",
        "sensible-utils",
    )
)
# Links followed for one path, as in the kernel (path_resolution(7)).
_MAX_LINKS = 40
_SKIPPED_NAMES = frozenset(("__pycache__", ".git"))
_ANY_EXECUTE, _OTHERS_READ = 0o111, stat.S_IROTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One installed package. `depends` has groups of alternatives."""

    name: str
    section: str
    essential: bool
    depends: tuple[tuple[str, ...], ...]
    provides: tuple[str, ...]

    @property
    def is_library(self) -> bool:
        """Whether it only contains shared libraries, which the loader names anyway."""
        return self.section.rpartition("/")[2] in _LIBRARY_SECTIONS


class DebianPackages:
    """The packages below `root`; empty without dpkg."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._info = root / "var/lib/dpkg/info"

    def owner(self, path: str) -> str | None:
        """The package that owns `path`; None if no package does."""
        return self._owners.get(self._plain(path))

    def files(self, name: str) -> list[str]:
        """All paths of the package, as dpkg lists them."""
        return [
            line
            for list_path in self._lists_of(name)
            for line in list_path.read_text(errors="surrogateescape").splitlines()
        ]

    def get(self, name: str) -> Package | None:
        """The installed package of this name."""
        return self._packages.get(name)

    def requires(self, name: str) -> Iterator[Package]:
        """The installed packages in Depends and Pre-Depends of the package, without installation
        tools.
        """
        package = self._packages.get(name)
        for group in package.depends if package else ():
            # The first installed alternative of several.
            found = next(
                (package for package in map(self._resolve, group) if package is not None), None
            )
            if found is not None and found.name not in _NOT_FOLLOWED:
                yield found

    def alternatives(self) -> Iterator[str]:
        """Links that `update-alternatives` keeps, such as /usr/bin/java; no package owns them."""
        for record in sorted((self._root / "var/lib/dpkg/alternatives").glob("*")):
            lines = record.read_text(errors="surrogateescape").splitlines()
            # The state and the link, then pairs of a further name and its link, up to an empty
            # line.
            yield from lines[1:2]
            for name, link in zip(lines[2::2], lines[3::2], strict=False):
                if not name:
                    break
                yield link

    def _resolve(self, name: str) -> Package | None:
        return self._packages.get(name) or self._packages.get(self._virtual.get(name, ""))

    def _plain(self, path: str) -> str:
        top = path.split("/", 2)[1] if path.count("/") > 1 else ""
        return f"/{self._aliases[top]}{path[len(top) + 1 :]}" if top in self._aliases else path

    def _lists_of(self, name: str) -> list[Path]:
        return sorted(
            path
            # Packages that can be installed for several architectures have the architecture in the
            # file name.
            for path in (self._info / f"{name}.list", *self._info.glob(f"{name}:*.list"))
            if path.exists()
        )

    @cached_property
    def _aliases(self) -> Mapping[str, str]:
        tops = (self._root / name for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"))
        return {top.name: str(top.readlink()).strip("/") for top in tops if top.is_symlink()}

    @cached_property
    def _owners(self) -> Mapping[str, str]:
        owners: dict[str, str] = {}
        for listing in sorted(self._info.glob("*.list")):
            name = listing.stem.partition(":")[0]
            for line in listing.read_text(errors="surrogateescape").splitlines():
                owners[self._plain(line)] = name
        return owners

    @cached_property
    def _packages(self) -> Mapping[str, Package]:
        status = self._root / "var/lib/dpkg/status"
        status_text = status.read_text(errors="replace") if status.exists() else ""
        packages = (_parse(paragraph) for paragraph in status_text.split("\n\n"))
        return {package.name: package for package in packages if package is not None}

    @cached_property
    def _virtual(self) -> Mapping[str, str]:
        return {
            virtual: package.name
            for package in self._packages.values()
            for virtual in package.provides
        }


def working_directory() -> str:
    """The absolute path of the working directory; "/" where it was removed."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        # No relative path exists.
        return "/"


def closure(packages: DebianPackages, name: str, scripted: Callable[[str], bool]) -> list[str]:
    """The package and the packages that it needs to run, in order of discovery.

    Packages of plain libraries are left out, as the loader names the libraries used; except below a
    package for which `scripted` is true, as they may contain modules of a language.
    """
    # `names` is a list: packages may depend on each other in a circle, and the order is kept.
    names, waiting, complete = [name], [name], set[str]()
    while waiting:
        current = waiting.pop(0)
        if scripted(current):
            complete.add(current)
        for package in packages.requires(current):
            if package.name in names or (package.is_library and current not in complete):
                continue
            names.append(package.name)
            waiting.append(package.name)
            if current in complete:
                complete.add(package.name)
    return names


def _parse(paragraph: str) -> Package | None:
    fields = dict(_FIELD.findall(paragraph))
    if "Package" not in fields or not fields.get("Status", "").endswith(" installed"):
        return None
    groups = ", ".join(fields[key] for key in ("Pre-Depends", "Depends") if fields.get(key))
    return Package(
        name=fields["Package"],
        section=fields.get("Section", ""),
        essential=fields.get("Essential") == "yes",
        depends=tuple(_names(group.split("|")) for group in groups.split(",") if group.strip()),
        provides=_names(fields.get("Provides", "").split(",")),
    )


def _names(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(match[0] for item in items if (match := _NAME.match(item.strip())))


class Selection:
    """A growing set of layer entries below `root`. Paths that match `without` are left out of whole
    trees. `check` is called for each path; its errors end the work.
    """

    def __init__(
        self,
        root: Path,
        *,
        without: re.Pattern[str] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.root = root
        self._check = check
        self._without = without
        self._entries: dict[str, LayerEntry] = {}
        self._folders: dict[str, str | None] = {"/": "/"}

    def entries(self) -> list[LayerEntry]:
        """All entries, by path."""
        return [self._entries[path] for path in sorted(self._entries)]

    def files(self) -> Iterator[str]:
        """The selected regular files."""
        return (path for path, entry in sorted(self._entries.items()) if stat.S_ISREG(entry.mode))

    def has(self, path: str) -> bool:
        """Whether a path, without links, is selected."""
        return path in self._entries

    def host(self, path: str) -> Path:
        """The path on this machine of a (canonical) path of the image."""
        return self.root / path.lstrip("/")

    def add(self, path: str) -> str | None:
        """Select a path; return it without links, or None if there is nothing to select."""
        self._check()
        for _ in range(_MAX_LINKS):
            folder = self._folder(posixpath.dirname(path))
            if folder is None:
                return None
            path = posixpath.join(folder, posixpath.basename(path))
            status = self._status(path)
            if status is None:
                return None
            if not stat.S_ISLNK(status.st_mode):
                return self._select(path, status)
            path = self._link(path)
        return None

    def add_tree(self, path: str, *, without: re.Pattern[str] | None = None) -> None:
        """Select a directory with its content, except for paths that match `without` from their
        start.
        """
        unwanted = [pattern for pattern in (without, self._without) if pattern is not None]
        for folder, names, files in os.walk(self.host(path)):
            inside = "/" + os.path.relpath(folder, self.root)
            paths = {
                name: posixpath.normpath(posixpath.join(inside, name)) for name in (*names, *files)
            }
            selected = {
                name
                for name, path in paths.items()
                if not any(pattern.match(path) for pattern in unwanted)
            }
            # Changed in place: os.walk enters only the directories that are left.
            names[:] = sorted(
                name for name in names if name in selected and name not in _SKIPPED_NAMES
            )
            for name in (*names, *sorted(selected.intersection(files))):
                self.add(paths[name])

    def put(self, entry: LayerEntry) -> None:
        """Add an entry that this machine does not have; its parents are created."""
        parent = posixpath.dirname(entry.path)
        if parent not in self._folders:
            self.put(LayerEntry(path=parent, mode=stat.S_IFDIR | 0o755))
        if stat.S_ISDIR(entry.mode):
            self._folders[entry.path] = entry.path
        self._entries[entry.path] = entry

    def _folder(self, path: str) -> str | None:
        if path not in self._folders:
            found = self.add(path)
            self._folders[path] = found if found in self._folders else None
        return self._folders[path]

    def _link(self, path: str) -> str:
        target = str(self.host(path).readlink())
        self._entries[path] = LayerEntry(path=path, mode=stat.S_IFLNK | 0o777, target=target)
        return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))

    def _select(self, path: str, status: os.stat_result) -> str | None:
        if stat.S_ISDIR(status.st_mode):
            if path not in self._entries and path != "/":
                self._entries[path] = LayerEntry(path=path, mode=stat.S_IFDIR | 0o755)
            self._folders[path] = path
        elif stat.S_ISREG(status.st_mode):
            # Only the execute bit is kept: the image does not depend on the umask of this machine.
            mode = 0o755 if status.st_mode & _ANY_EXECUTE else 0o644
            self._entries[path] = LayerEntry(
                path=path, mode=stat.S_IFREG | mode, source=self.host(path)
            )
        else:
            return None
        return path

    def is_private(self, path: str) -> bool:
        """Whether it is a file that others on this machine may not read."""
        status = self._status(path)
        return (
            status is not None
            and stat.S_ISREG(status.st_mode)
            and not status.st_mode & _OTHERS_READ
        )

    def _status(self, path: str) -> os.stat_result | None:
        try:
            return self.host(path).lstat()
        except OSError:
            return None
