"""Builds an image from programs of this machine, so that no registry is needed.

The content of the image is found as follows:

- the program itself; its path and each symbolic link on it are kept
- a program of a Debian package brings the files of the package and of the packages it depends on;
  plain library packages are left out unless scripts are involved, whose modules are named nowhere
  else
- a script brings its interpreter; a script of a virtual environment brings that environment,
  compiled (`python_environments`)
- names are looked for on PATH of the user, those of interpreters of packages and of the usual small
  programs on PATH of the image first: an environment that is active has nothing to do with them
- a program outside of PATH of the image can be called by its name there, too
- each ELF file brings the libraries that its own loader finds for it
- links of Debian's alternatives to what is in the image, such as `java`, are included: no package
  has them
- a shell with the usual small programs, the user names of the system, /tmp and a UTF-8 locale are
  always included

Documentation and files that only root may read are left out. Owners are root, times are zero: the
same programs on the same machine give the same image.
"""

from __future__ import annotations

import os
import platform
import posixpath
import re
import shlex
import stat
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lading.client.images import host_files, linkage
from lading.client.images.archive import PATH, ImageParts, make_config
from lading.client.images.host_files import DebianPackages, Selection, closure
from lading.client.images.layer_writing import LayerEntry, write_layer
from lading.client.images.python_environments import (
    Compiler,
    add_environment,
    compile_modules,
    is_python,
)
from lading.client.images.steps import UNWATCHED, ImageSteps, dropping_unstarted
from lading.core.errors import Invalid
from lading.core.images import goarch

# Documentation, translations, headers and service files of packages; no program reads them in a
# container.
_UNWANTED = re.compile(
    r"/usr/share/(doc|man|info|locale|lintian|doc-base|bug|menu|applications|pixmaps"
    r"|bash-completion|zsh|gtk-doc)(/|$)"
    r"|/usr/include/node/"
    r"|/usr/(lib|share)/.*/?perl/.*\.pod$|/usr/lib/.*/perl/[^/]+/CORE/"
    r"|/(etc/(cron|init\.d|systemd|logrotate\.d)|lib/systemd|usr/lib/systemd)"
)
# The directories in which Debian puts programs.
_BIN = re.compile(r"/(usr/|usr/local/)?s?bin/[^/]+")
# Interpreters whose packages contain modules that scripts load by name.
_LANGUAGE = re.compile(r"(python|perl|ruby|Rscript|node|tclsh|lua)[0-9.]*")
_LOCAL = "/usr/local/bin"
_OWN_PATH = tuple(PATH.split(":"))
# The UTF-8 locale, under its name on Debian and on others.
_ALWAYS = ("/usr/lib/locale/C.utf8", "/usr/lib/locale/C.UTF-8")
_FOLDERS = {
    "/tmp": 0o1777,  # noqa: S108
    "/var/tmp": 0o1777,  # noqa: S108
    "/root": 0o700,
    "/proc": 0o755,
    "/sys": 0o755,
    "/dev": 0o755,
}
# Every engine mounts file systems of its own there, also on /dev/shm.
_OF_KERNEL = ("/dev", "/proc", "/sys")
# Enough for programs that look up user names; packages' own users are not included.
_ACCOUNTS = {
    "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "/etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
# `sh` is required; the others are added if this machine has them.
_BASICS = ("sh", "cat", "grep", "sed", "awk", "find", "gzip", "tar", "which")
# Loaders that run at a time.
_WORKERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceHost:
    """The machine whose programs are taken; tests use a small tree and their own linker."""

    root: Path = Path("/")
    search: tuple[str, ...]
    linker: Callable[[str, Path], linkage.Linkage]
    architecture: str
    compiler: Compiler | None = None
    directory: str = "/"
    """Directory at which relative paths of programs begin."""

    def path(self, name: str) -> str:
        """The absolute path for `name`; a name without a slash is returned unchanged, for a search
        on PATH.
        """
        return posixpath.normpath(posixpath.join(self.directory, name)) if "/" in name else name


def this_host(environ: Mapping[str, str]) -> SourceHost:
    """This machine, with PATH and the linker's variables of `environ`."""
    return SourceHost(
        search=tuple(f"{environ.get('PATH', '')}:{PATH}".split(":")),
        linker=lambda loader, path: linkage.list_libraries(loader, path, environ=environ),
        architecture=goarch(platform.machine()),
        compiler=compile_modules,
        directory=host_files.working_directory(),
    )


def from_host(
    programs: Sequence[str],
    folder: Path,
    *,
    host: SourceHost,
    without: re.Pattern[str] | None = None,
    packages: Sequence[str] = (),
    steps: ImageSteps = UNWATCHED,
) -> ImageParts:
    """The parts of an image that contains `programs`; the layer is written below `folder`.

    `packages`: installed ones are added completely, for files that programs load by names known
    only to themselves. Paths that match `without` are left out of packages and Python environments.
    Raises Invalid for a program that does not exist, or lacks a library.
    """
    if not programs:
        raise Invalid(
            "--from-host: no program is named; write for example --from-host sh awk sort gzip"
        )
    gathering = _Gathering(host, without, steps)
    paths = {host.path(name) for name in programs}
    # Sorted: the order of additions must not depend on the order of the arguments.
    gathering.expect(paths)
    for name in sorted(paths):
        gathering.named(name)
    for name in _basics(host):
        gathering.named(name, own_first=True)
    for name in packages:
        gathering.package(name)
    gathering.furnish()
    gathering.add_alternatives()
    gathering.link()
    gathering.compile(folder / "compiled")
    layer = write_layer(gathering.selection.entries(), folder / "layer.tar", steps=steps)
    environment = [f"PATH={PATH}"]
    if gathering.directories:
        environment.append(f"LD_LIBRARY_PATH={':'.join(sorted(gathering.directories))}")
    config = make_config(
        [layer],
        architecture=host.architecture,
        created_by=f"lading image add --from-host {' '.join(sorted(paths))}",
        environment=environment,
    )
    return ImageParts(config=config, layers=(layer,), notes=tuple(gathering.notes))


class _Gathering:
    def __init__(
        self, host: SourceHost, without: re.Pattern[str] | None, steps: ImageSteps
    ) -> None:
        self.selection = Selection(host.root, without=without, check=steps.check)
        self._steps = steps
        self._without = without
        self.notes: list[str] = []
        self.directories: set[str] = set()
        self._host = host
        self._packages = DebianPackages(host.root)
        self._done: set[str] = set()
        self._named: set[str] = set()
        self._loaders: list[str] = []
        self._pythons: dict[str, list[str]] = {}
        self._has_pip = False

    def expect(self, names: Iterable[str]) -> None:
        """Take note of the programs that will be named, before the first one."""
        self._has_pip = any(posixpath.basename(name).startswith("pip") for name in names)

    def named(self, name: str, *, own_first: bool = False) -> None:
        """Add the program of a name or path with its needs, and make it available by its name.

        `own_first`: PATH of the image comes before that of the user. Raises Invalid where it is
        neither a program nor on PATH.
        """
        path = self._locate(name, own_first=own_first)
        self._program(path)
        self._offer(path)

    def _program(self, path: str, *, is_complete: bool = True) -> None:
        """Add one program with its needs, except for libraries. With `is_complete` an interpreter
        comes with its standard library.
        """
        if path in self._done:
            return
        self._done.add(path)
        self._steps.at(f"collecting files of {posixpath.basename(path)}")
        real = self.selection.add(path)
        if real is None:
            raise Invalid(f"{path}: its symbolic links lead nowhere")
        if hiding := next((top for top in _OF_KERNEL if real.startswith(f"{top}/")), ""):
            raise Invalid(
                f"{path}: a container has a {hiding} of its own, which hides this program;"
                " copy it, or install it, to another directory first"
            )
        self._named.add(real)
        owner = self._packages.owner(path) or self._packages.owner(real)
        if owner is not None:
            self._package(self._whole(owner) if is_complete else owner)
        for interpreter in script_programs(self.selection.host(real)):
            program = self._locate(interpreter, own_first=owner is not None)
            self._program(program)
            if "/" not in interpreter:
                # In a container `env` looks for it on PATH of the image.
                self._offer(program)
        if is_python(path) and self._packages.owner(path) is None:
            is_packaged = self._packages.owner(real) is not None
            self._pythons[path] = add_environment(
                self.selection, path, real, is_packaged=is_packaged, with_pip=self._has_pip
            )

    def package(self, name: str) -> None:
        """Add a complete package, if it is installed."""
        self._package(name)

    def _offer(self, path: str) -> None:
        """Make a program outside of PATH available in a directory of PATH: by a link, or for the
        interpreter of a Python environment, which finds its modules by its path, by a script.
        """
        folder = posixpath.dirname(path)
        if folder in _OWN_PATH:
            return
        is_environment = (
            is_python(path)
            and self.selection.host(f"{posixpath.dirname(folder)}/pyvenv.cfg").exists()
        )
        if not is_environment:
            link = f"{_LOCAL}/{posixpath.basename(path)}"
            self.selection.put(LayerEntry(path=link, mode=stat.S_IFLNK | 0o777, target=path))
            return
        script = f'#!/bin/sh\nexec {shlex.quote(path)} "$@"\n'.encode()
        # An environment has its interpreter under several names: python, python3, python3.11.
        names = (file.name for file in self.selection.host(folder).iterdir())
        for name in sorted(filter(is_python, names)):
            entry = LayerEntry(path=f"{_LOCAL}/{name}", mode=stat.S_IFREG | 0o755, content=script)
            self.selection.put(entry)

    def add_alternatives(self) -> None:
        """Add the links of Debian's alternatives that lead to what was selected."""
        for link in filter(self._is_wanted, self._packages.alternatives()):
            if self.selection.has(self._real(link)):
                self.selection.add(link)

    def furnish(self) -> None:
        """Add the parts that each image has."""
        for path in _ALWAYS:
            self.selection.add_tree(path)
        for path, mode in _FOLDERS.items():
            self.selection.put(LayerEntry(path=path, mode=stat.S_IFDIR | mode))
        for path, content in _ACCOUNTS.items():
            self.selection.put(
                LayerEntry(path=path, mode=stat.S_IFREG | 0o644, content=content.encode())
            )

    def link(self) -> None:
        """Add the libraries of all ELF files selected so far. Raises Invalid when a named program
        lacks one.
        """
        binaries = {
            path: linkage.read_binary(self.selection.host(path)) for path in self.selection.files()
        }
        dynamic = {
            path: binary
            for path, binary in binaries.items()
            if binary is not None and binary.dynamic
        }
        self._loaders = sorted({binary.loader for binary in dynamic.values() if binary.loader})
        for loader in self._loaders:
            self.selection.add(loader)
        # A shared library names no loader; all files of one machine normally have the same.
        jobs = [(path, binary.loader or self._default_loader()) for path, binary in dynamic.items()]
        with ThreadPoolExecutor(_WORKERS) as pool:
            linkages = pool.map(
                lambda job: self._host.linker(job[1], self.selection.host(job[0])), jobs
            )
            with dropping_unstarted(pool):
                for number, ((path, _), needs) in enumerate(zip(jobs, linkages, strict=True)):
                    self._steps.at("looking for libraries of file", number, len(jobs))
                    self._take(path, needs)

    def compile(self, folder: Path) -> None:
        """Add the compiled modules of all Python environments."""
        for number, (interpreter, trees) in enumerate(sorted(self._pythons.items())):
            tops = tuple(f"{tree}/" for tree in trees)
            files = [
                path
                for path in self.selection.files()
                if path.endswith(".py") and path.startswith(tops)
            ]
            if self._host.compiler is None or not files:
                continue
            modules = self._host.compiler(
                self.selection.host(interpreter), files, folder / str(number), self._steps
            )
            for path, compiled in modules:
                self.selection.put(
                    LayerEntry(path=path, mode=stat.S_IFREG | 0o644, source=compiled)
                )

    def _take(self, path: str, linkage: linkage.Linkage) -> None:
        if linkage.missing and path in self._named:
            raise Invalid(
                f"{path}: this machine lacks a library it needs: {', '.join(linkage.missing)}; "
                "install it first"
            )
        # A missing library of a file that was not named is only noted: a package may have programs
        # that are not used and cannot run.
        if linkage.missing:
            self.notes.append(
                f"{path}: cannot run, its library {linkage.missing[0]} is not on this machine"
            )
        self.directories.update(linkage.directories)
        for library in linkage.libraries:
            # The loader returns its search path joined with the name, including "..".
            self.selection.add(posixpath.normpath(library))
            # glibc loads libgcc_s by name when a thread is cancelled or exits; no ELF header names
            # it.
            if posixpath.basename(library) == "libc.so.6":
                self.selection.add(posixpath.join(posixpath.dirname(library), "libgcc_s.so.1"))

    def _default_loader(self) -> str:
        own = linkage.read_binary(Path(sys.executable))
        return self._loaders[0] if self._loaders else own.loader if own else ""

    def _package(self, name: str) -> None:
        for package in closure(self._packages, name, self._is_scripted):
            if f"package {package}" in self._done:
                continue
            self._done.add(f"package {package}")
            for path in filter(self._is_wanted, self._packages.files(package)):
                if self.selection.is_private(path):
                    self.notes.append(f"{path}: left out, only root may read it")
                else:
                    self.selection.add(path)
            for interpreter in self._interpreters(package):
                if self._is_available(interpreter, package):
                    self._program(self._locate(interpreter, own_first=True), is_complete=False)

    def _is_wanted(self, path: str) -> bool:
        """Whether a file of a package belongs in the image."""
        if _UNWANTED.match(path) or not path.startswith("/") or path == "/.":
            return False
        return self._without is None or not self._without.match(path)

    def _whole(self, package: str) -> str:
        """The package with the complete interpreter: Debian separates python3-minimal from python3,
        perl-base from perl.
        """
        name = package.removesuffix("-minimal").removesuffix("-base")
        return (
            name
            if any(required.name == package for required in self._packages.requires(name))
            else package
        )

    def _interpreters(self, package: str) -> set[str]:
        files = (
            self.selection.host(path)
            for path in self._packages.files(package)
            if _BIN.fullmatch(path)
        )
        return {program for file in files for program in script_programs(file)}

    def _is_scripted(self, package: str) -> bool:
        languages = {
            program
            for program in self._interpreters(package)
            if _LANGUAGE.fullmatch(posixpath.basename(program))
        }
        return any(self._owner_of(program) in self._all_required(package) for program in languages)

    def _is_available(self, interpreter: str, package: str) -> bool:
        owner = self._owner_of(interpreter)
        found = self._packages.get(owner) if owner else None
        return found is not None and (found.essential or found.name in self._all_required(package))

    def _owner_of(self, program: str) -> str | None:
        path = _find(self._host, program, own_first=True)
        return (
            self._packages.owner(path) or self._packages.owner(self._real(path)) if path else None
        )

    def _real(self, path: str) -> str:
        return "/" + os.path.relpath(self.selection.host(path).resolve(), self._host.root)

    def _all_required(self, package: str) -> Sequence[str | None]:
        return closure(self._packages, package, lambda _: True)

    def _locate(self, name: str, *, own_first: bool) -> str:
        path = _find(self._host, name, own_first=own_first)
        if path is None:
            where = "is no program" if "/" in name else "is not on PATH"
            raise Invalid(
                f"--from-host {name}: {where} on this machine; install it, or give its full path"
            )
        return path


def _basics(host: SourceHost) -> list[str]:
    return [name for name in _BASICS if name == "sh" or _find(host, name, own_first=True)]


def _find(host: SourceHost, name: str, *, own_first: bool) -> str | None:
    if "/" in name:
        candidates = [posixpath.normpath(name)] if name.startswith("/") else []
    else:
        search = (*_OWN_PATH, *host.search) if own_first else host.search
        candidates = [
            f"{folder}/{name}" for folder in dict.fromkeys(search) if folder.startswith("/")
        ]
    found = [path for path in candidates if _is_program(host.root / path.lstrip("/"))]
    # Version managers put a script with the name of the program first on PATH; it would not work
    # without them.
    return min(found, key=lambda path: "/shims/" in path, default=None)


def script_programs(path: Path) -> list[str]:
    """The programs named by the first line of a script: its interpreter, and the program that `env`
    starts. [] for other files.
    """
    try:
        with path.open("rb") as file:
            # The kernel reads 256 bytes of the line (BINPRM_BUF_SIZE).
            line = file.readline(256)
    except OSError:
        return []
    if not line.startswith(b"#!"):
        return []
    words = line[2:].decode(errors="replace").split()
    if words and posixpath.basename(words[0]) == "env":
        started = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        return [words[0], *started[:1]]
    return words[:1]


def _is_program(path: Path) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and bool(status.st_mode & 0o111)
