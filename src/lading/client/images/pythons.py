"""Python environments of this machine, for images: what belongs to one, and its modules compiled
beforehand.

A virtual environment brings its packages and the standard library of the interpreter below it,
without what only that interpreter's own packages are (unless the environment says that it sees
them) and without the library's own tests.

Modules in an image are compiled once, here: nothing that a container compiles is kept, so that each
would do it again. The compiled files do not depend on times, and are made in one process without
random hashes: the same modules give the same bytes.
"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from lading.client.images.selection import Selection

_NAME = re.compile(r"python(3(\.\d+)?)?")
_LIBRARY = re.compile(r"python3\.\d+")
_TESTS = r"/(test|idlelib|turtledemo|lib2to3/tests|ensurepip|config-[^/]*)(/|$)"
_SYSTEM_SITE = re.compile(
    r"^include-system-site-packages\s*=\s*true\s*$", re.MULTILINE | re.IGNORECASE
)
_TIMEOUT = 300.0


def is_python(path: str) -> bool:
    """Whether a program is called as Python interpreters are."""
    return _NAME.fullmatch(posixpath.basename(path)) is not None


def add_environment(selection: Selection, path: str, real: str, *, is_packaged: bool) -> list[str]:
    """Select what the interpreter `path` needs that no package brings; answers the directories of
    its modules.

    `real` is the interpreter without links; `is_packaged` tells that a package brings its standard
    library.
    """
    prefix = posixpath.dirname(posixpath.dirname(path))
    configuration = selection.host(f"{prefix}/pyvenv.cfg")
    trees = []
    shares = True
    if configuration.exists():
        shares = _SYSTEM_SITE.search(configuration.read_text(errors="replace")) is not None
        selection.add(f"{prefix}/pyvenv.cfg")
        selection.add_tree(f"{prefix}/lib")
        trees.append(f"{prefix}/lib")
    home = posixpath.dirname(posixpath.dirname(real))
    for library in _libraries(selection, home):
        trees.append(library)
        if not is_packaged:
            own = "" if shares else r"|/site-packages(/|$)"
            selection.add_tree(library, without=re.compile(re.escape(library) + f"({_TESTS}{own})"))
    return trees


def compile_modules(
    interpreter: Path, files: Sequence[str], folder: Path
) -> Iterator[tuple[str, Path]]:
    """Compile the modules `files` of this machine below the directory `folder`.

    Answers the path beside its module, and the file. A module that is not of this interpreter's
    language is left out.
    """
    options = (
        "-X",
        f"pycache_prefix={folder}",
        "-m",
        "compileall",
        "-q",
        "--invalidation-mode",
        "unchecked-hash",
    )
    subprocess.run(
        [str(interpreter), *options, "-i", "-"],
        input="".join(f"{file}\n" for file in files),
        env={**os.environ, "PYTHONHASHSEED": "0"},
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_TIMEOUT,
        check=False,
    )
    for compiled in sorted(folder.rglob("*.pyc")):
        beside = "/" / compiled.parent.relative_to(folder) / "__pycache__" / compiled.name
        yield str(beside), compiled


def _libraries(selection: Selection, home: str) -> list[str]:
    found = sorted(selection.host(f"{home}/lib").glob("python3.*"))
    return [f"{home}/lib/{one.name}" for one in found if _LIBRARY.fullmatch(one.name)]
