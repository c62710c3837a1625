"""Packages the daemon as one file for any Python 3.11: an image needs nothing else.

It is a zip archive of the source of the modules that the daemon imports. The same sources give the
same bytes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib.resources import files
from typing import IO

_INTERPRETER = b"#!/usr/bin/env python3\n"
_MAIN = "import sys\n\nfrom lading.hpc.daemon import main\n\nsys.exit(main())\n"
_MODULES = (
    "__init__.py",
    "process/__init__.py",
    "process/cancellation.py",
    "process/confined.py",
    "process/portable.py",
    "process/tree_removal.py",
    "core/__init__.py",
    "core/errors.py",
    "core/protocols/__init__.py",
    "core/protocols/connection_limits.py",
    "core/protocols/daemon_http.py",
    "core/protocols/http_head.py",
    "net/__init__.py",
    "net/acceptor.py",
    "net/http_bodies.py",
    "net/urls.py",
)
_OF_HPC = (
    "__init__.py", "code.py", "daemon.py", "daemon_memory.py", "delivery.py", "endpoints.py",
    "layout.py", "notices.py", "processes.py", "progress.py", "service.py",
)  # fmt: skip
# The earliest time of a zip, so that the same code gives the same bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_package(file: IO[bytes]) -> None:
    """Write the archive. Raises OSError."""
    file.write(_INTERPRETER)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in sorted(_members()):
            member = zipfile.ZipInfo(name, _EPOCH)
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, source)


def _members() -> Iterator[tuple[str, str]]:
    top = files("lading")
    yield "__main__.py", _MAIN
    for name in (*_MODULES, *(f"hpc/{name}" for name in _OF_HPC)):
        yield f"lading/{name}", (top / name).read_text()
    for module in (top / "core" / "hpc").iterdir():
        if module.name.endswith(".py"):
            yield f"lading/core/hpc/{module.name}", module.read_text()
