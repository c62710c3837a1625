"""The daemon alone, as one file that any Python 3.11 runs: nothing to install into an image but that.

A zip archive of the modules that the daemon imports, each as its source. The same sources give the same bytes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import IO

_INTERPRETER = b"#!/usr/bin/env python3\n"
_MAIN = "import sys\n\nfrom lading.hpc.daemon import main\n\nsys.exit(main())\n"
_OF_CORE = ("__init__.py", "connections.py", "errors.py")
_OF_CLIENT = ("__init__.py", "acceptor.py")
_OF_HPC = (
    "__init__.py", "code.py", "daemon.py", "daemonlogs.py", "delivery.py", "endpoints.py", "filesystems.py",
    "identity.py", "layout.py", "notices.py", "processes.py", "progress.py", "record.py", "service.py", "tracing.py",
)  # fmt: skip
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_package(file: IO[bytes]) -> None:
    """Write the archive. Raises OSError."""
    file.write(_INTERPRETER)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sorted(_members()):
            member = zipfile.ZipInfo(name, _EPOCH)
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, text)


def _members() -> Iterator[tuple[str, str]]:
    top = files("lading")
    yield "__main__.py", _MAIN
    for name in ("__init__.py", "confined.py"):
        yield f"lading/{name}", (top / name).read_text()
    for one in (top / "core").iterdir():
        if one.name in _OF_CORE or _is_ours(one):
            yield f"lading/core/{one.name}", one.read_text()
    for name in _OF_CLIENT:
        yield f"lading/client/{name}", (top / "client" / name).read_text()
    for name in _OF_HPC:
        yield f"lading/hpc/{name}", (top / "hpc" / name).read_text()


def _is_ours(one: Traversable) -> bool:
    return one.name.startswith("hpc_") and one.name.endswith(".py")
