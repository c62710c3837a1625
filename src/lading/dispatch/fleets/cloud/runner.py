"""The runner: a tar archive with everything that a VM needs to supervise containers.

It is named by its hash. It contains the Python interpreter of this process with its standard
library, the shared libraries besides the C library, this package, and the packages that a
supervisor needs. The VM needs the same architecture and a C library at least as new. Owners and
times are left out, so that the same files give the same hash.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import io
import os
import platform
import re
import subprocess
import sys
import sysconfig
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from lading.core.errors import Invalid

PROGRAMS = (
    "lading.supervisor.__main__",
    "lading.supervisor.process.forkserver",
    "lading.hpc.conductor",
    "lading.client.mount.__main__",
)
"""The modules that are started on a VM. Their imports, the engines included, are the content of the
runner.
"""
_LEFT_OUT = {
    "test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "site-packages",
    "dist-packages", "__pycache__", "testing", "pydoc_data", "distutils",
}  # fmt: skip
# Files of metadata that packages read when they run; OpenTelemetry finds its parts by them.
_METADATA = ("entry_points.txt", "METADATA")
# The name at the begin of a requirement (PEP 508).
_DISTRIBUTION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_OF_LIBC = (
    "libc.so",
    "libm.so",
    "libpthread.so",
    "libdl.so",
    "librt.so",
    "libutil.so",
    "ld-linux",
    "linux-vdso",
)
_LAUNCHER = """#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd -P)
LD_LIBRARY_PATH=$here/lib exec "$here/bin/{name}" "$@"
"""
# Programs started from here must find our libraries and our interpreter by the launcher only. The
# interpreters of distributions look for packages elsewhere.
_START = """import os, site, sys
os.environ.pop("LD_LIBRARY_PATH", None)
sys.executable = sys.prefix + "/bin/python"
site.addsitedir(os.path.join(os.path.dirname(os.__file__), "site-packages"), \
set(map(os.path.normcase, sys.path)))
"""


@dataclass(frozen=True, slots=True)
class RunnerArchive:
    """An archive, its hash, and its requirements of a VM."""

    path: Path
    hash: str
    machine: str
    libc: str


def build(cache: Path) -> RunnerArchive:
    """Make the archive in a directory, or find it there. Blocks for seconds. Raises Invalid when it
    cannot be made.
    """
    cache.mkdir(parents=True, exist_ok=True)
    draft = cache / f"runner.{os.getpid()}.tgz"
    try:
        with draft.open("wb") as raw:
            hashing = _HashedArchive(raw)
            with (
                gzip.GzipFile(
                    # Without name and time, so that equal installations give equal bytes: the hash
                    # is the name under which a VM keeps the archive. Level 1 is fast, and the first
                    # VM waits for it.
                    filename="",
                    fileobj=hashing,
                    mode="wb",
                    compresslevel=1,
                    mtime=0,
                ) as packed,
                tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
            ):
                for name, source in sorted(_members().items()):
                    _add(archive, name, source)
        target = cache / f"runner~{hashing.digest.hexdigest()}.tgz"
        draft.replace(target)
    except (OSError, metadata.PackageNotFoundError, subprocess.SubprocessError) as error:
        raise Invalid(f"the runner for VMs cannot be made of this installation: {error}") from error
    finally:
        draft.unlink(missing_ok=True)
    for old in cache.glob("runner~*.tgz"):
        if old != target:
            old.unlink(missing_ok=True)
    return RunnerArchive(
        target, hashing.digest.hexdigest(), platform.machine(), platform.libc_ver()[1]
    )


class RunnerBuilder:
    """The runner in a directory, made when the first VM needs it."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._alone = threading.Lock()
        self._archive: RunnerArchive | None = None

    def get(self) -> RunnerArchive:
        """Make it or find it; blocks. Raises Invalid."""
        # Several VMs become ready at once, each in a thread of its own; the archive is made once.
        with self._alone:
            if self._archive is None:
                self._archive = build(self._cache)
            return self._archive


class _HashedArchive(io.RawIOBase):
    """Output file that also computes the hash."""

    def __init__(self, file: io.BufferedWriter) -> None:
        super().__init__()
        self.digest = hashlib.sha256()
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.digest.update(data)
        return self._file.write(data)


def _members() -> dict[str, Path | bytes]:
    """The archive: name and source."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    members: dict[str, Path | bytes] = {f"bin/{version}": Path(sys.executable).resolve()}
    members["bin/python"] = _LAUNCHER.format(name=version).encode()
    library = f"lib/{version}"
    for name, path in _modules(Path(sysconfig.get_path("stdlib", vars={"base": sys.base_prefix}))):
        members[f"{library}/{name}"] = path
    for name, path in _packages():
        members[f"{library}/site-packages/{name}"] = path
    members[f"{library}/sitecustomize.py"] = _START.encode()
    entries = metadata.distribution("lading").read_text("entry_points.txt") or ""
    # Engines are found by entry points, which need the metadata of the distribution.
    info = f"{library}/site-packages/lading-{metadata.version('lading')}.dist-info"
    members[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: lading\nVersion: {metadata.version('lading')}\n".encode()
    )
    members[f"{info}/entry_points.txt"] = entries.encode()
    # Extension modules need libraries that the VM may not have.
    binaries = [
        source for source in members.values() if isinstance(source, Path) and _is_binary(source)
    ]
    members.update({f"lib/{path.name}": path for path in _libraries(binaries)})
    return members


def _modules(root: Path) -> Iterator[tuple[str, Path]]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            subfolder
            for subfolder in folders
            if subfolder not in _LEFT_OUT and not subfolder.startswith("config-")
        )
        for name in sorted(names):
            path = Path(folder, name)
            if path.suffix in (".py", ".so", ".pth", ".txt", ".json") or ".so." in name:
                yield str(path.relative_to(root)), path


def imported_packages() -> list[str]:
    """The distributions that the programs of a VM import, directly or through modules of this
    package.
    """
    engines = [entry.module for entry in metadata.entry_points(group="lading.engines")]
    pending, visited, names = [*PROGRAMS, *engines], set[str](), set[str]()
    while pending:
        module = pending.pop()
        path = _source(module)
        # Modules are read, not imported: an import would run code of engines that this machine may
        # lack.
        if module in visited or path is None:
            continue
        visited.add(module)
        for name in _imports(path):
            if name.partition(".")[0] == "lading":
                # An import runs each package above it too, and what is imported from one may be a
                # module of it.
                parts = name.split(".")
                pending += [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
            else:
                names.add(name.partition(".")[0])
    distributions = metadata.packages_distributions()
    return sorted({name for top in names for name in distributions.get(top, ())})


def _source(module: str) -> Path | None:
    """The file of a module or package of Lading; None for an unknown name."""
    base = Path(__file__).parents[4].joinpath(*module.split("."))
    return next(
        (path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None
    )


def _imports(path: Path) -> Iterator[str]:
    """The names of modules that a file imports, in functions too, but not those for type checkers
    alone.

    A string that is the name of a module of ours counts: such modules are imported when they are
    needed.
    """
    nodes: list[ast.AST] = [ast.parse(path.read_bytes())]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant):
            if (
                isinstance(node.value, str)
                and node.value.startswith("lading.")
                and _source(node.value)
            ):
                yield node.value
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            nodes += ast.iter_child_nodes(node)


def _packages() -> Iterator[tuple[str, Path]]:
    wanted, seen = imported_packages(), set[str]()
    while wanted:
        name = wanted.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        found = metadata.distribution(name)
        wanted += _needs(found)
        for file in found.files or []:
            is_used = file.suffix in (".py", ".so", ".pem") or file.name in _METADATA
            if ".." not in file.parts and is_used and "__pycache__" not in file.parts:
                yield str(file), Path(str(found.locate_file(file)))
    package = Path(__file__).parents[3]
    for name, path in _modules(package):
        yield f"lading/{name}", path


def _needs(distribution: metadata.Distribution) -> Iterator[str]:
    for line in distribution.requires or []:
        requirement, _, marker = line.partition(";")
        if "extra" not in marker and _holds(marker):
            match = _DISTRIBUTION.match(requirement.strip())
            if match is not None:
                yield match[0]


def _holds(marker: str) -> bool:
    """Whether a condition on the version of Python holds; others are taken to."""
    words = marker.replace('"', "").replace("'", "").split()
    if len(words) == 3 and words[0] == "python_version" and words[1] == "<":
        return sys.version_info[:2] < tuple(int(number) for number in words[2].split("."))
    return True


def _is_binary(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _libraries(binaries: list[Path]) -> list[Path]:
    """The shared libraries that these need, but for those of the C library."""
    libraries: dict[str, Path] = {}
    listing = subprocess.run(
        ["ldd", *map(str, binaries)], capture_output=True, text=True, timeout=60, check=False
    )
    for line in listing.stdout.splitlines():
        name, arrow, location = line.strip().partition(" => ")
        # The loader and the C library must fit each other and the kernel: those of the VM are used.
        if arrow and location.startswith("/") and not name.startswith(_OF_LIBC):
            libraries[name] = Path(location.split(" (")[0])
    return [Path(path) for path in libraries.values()]


def _add(archive: tarfile.TarFile, name: str, source: Path | bytes) -> None:
    data = source if isinstance(source, bytes) else source.read_bytes()
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    entry.mode = 0o755 if name.startswith("bin/") or ".so" in name else 0o644
    archive.addfile(entry, io.BytesIO(data))
