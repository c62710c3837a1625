"""Installed Debian packages, read from dpkg's files: owner of a path, files and dependencies of a
package.

dpkg lists paths as they were before /bin, /lib and others became links into /usr; both spellings
find the owner.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_FIELD = re.compile(r"^([A-Z][A-Za-z-]*): *(.*)$", re.MULTILINE)
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
            for one in self._lists_of(name)
            for line in one.read_text(errors="surrogateescape").splitlines()
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
            # Of several alternatives the first installed one.
            found = next((one for one in map(self._resolve, group) if one is not None), None)
            if found is not None and found.name not in _NOT_FOLLOWED:
                yield found

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
        text = status.read_text(errors="replace") if status.exists() else ""
        packages = (_parse(one) for one in text.split("\n\n"))
        return {package.name: package for package in packages if package is not None}

    @cached_property
    def _virtual(self) -> Mapping[str, str]:
        return {given: one.name for one in self._packages.values() for given in one.provides}


def closure(packages: DebianPackages, name: str, scripted: Callable[[str], bool]) -> list[str]:
    """The package and the packages that it needs to run, in order of discovery.

    Packages of plain libraries are left out, as the loader names the libraries used; except below a
    package for which `scripted` is true, as they may contain modules of a language.
    """
    # `found` is a list: packages may depend on each other in a circle, and the order is kept.
    found, waiting, whole = [name], [name], set[str]()
    while waiting:
        current = waiting.pop(0)
        if scripted(current):
            whole.add(current)
        for package in packages.requires(current):
            if package.name in found or (package.is_library and current not in whole):
                continue
            found.append(package.name)
            waiting.append(package.name)
            if current in whole:
                whole.add(package.name)
    return found


def _parse(text: str) -> Package | None:
    fields = dict(_FIELD.findall(text))
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
