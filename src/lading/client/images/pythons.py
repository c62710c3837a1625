"""Python environments of this machine, for images: their files, and their compiled modules.

A virtual environment brings its packages and the standard library of its interpreter, without the
interpreter's own site-packages (unless the environment includes them) and without the library's
tests.

Modules in an image are compiled once, here: files that a container compiles are not kept, so that
each container would compile them again. The compiled files do not depend on times and are made
without hash randomisation: the same modules give the same bytes.
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
# Parts of the standard library that programs do not import: tests, IDLE, demos, build files.
_TESTS = r"/(test|idlelib|turtledemo|lib2to3/tests|ensurepip|config-[^/]*)(/|$)"
_SYSTEM_SITE = re.compile(
    r"^include-system-site-packages\s*=\s*true\s*$", re.MULTILINE | re.IGNORECASE
)
# Seconds for compiling one environment; after that TimeoutExpired is raised.
_TIMEOUT = 300.0


def is_python(path: str) -> bool:
    """Whether the name is that of a Python interpreter."""
    return _NAME.fullmatch(posixpath.basename(path)) is not None


def add_environment(selection: Selection, path: str, real: str, *, is_packaged: bool) -> list[str]:
    """Select the parts of the interpreter `path` that no package brings; return the directories of
    its modules.

    `real` is the interpreter without links; `is_packaged`: a package brings its standard library.
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

    Yields the path in the image, beside the module, and the compiled file. A module in another
    version's syntax is left out.
    """
    # unchecked-hash: the compiled file depends on the content of the module, not on its time, and
    # is used without a check (PEP 552).
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
        # Sets of constants are written in the order of their hashes.
        env={**os.environ, "PYTHONHASHSEED": "0"},
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_TIMEOUT,
        # compileall fails for modules in another version's syntax; the others are compiled.
        check=False,
    )
    for compiled in sorted(folder.rglob("*.pyc")):
        beside = "/" / compiled.parent.relative_to(folder) / "__pycache__" / compiled.name
        yield str(beside), compiled


def _libraries(selection: Selection, home: str) -> list[str]:
    found = sorted(selection.host(f"{home}/lib").glob("python3.*"))
    return [f"{home}/lib/{one.name}" for one in found if _LIBRARY.fullmatch(one.name)]
