"""Python environments in images: the parts that belong to them, compiled once.

A virtual environment brings its packages and the standard library of its interpreter, without the
interpreter's own site-packages (unless the environment includes them), without the library's tests,
and without pip, which installs nothing in a container, unless a program is called pip or another
package requires it. Modules in an image are compiled once, here: files that a container compiles
are not kept, so that each container would compile them again. The compiled files do not depend on
times and are made without hash randomisation: the same modules give the same bytes.
"""

from __future__ import annotations

import os
import posixpath
import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryFile

from lading.client.images.host_files import Selection
from lading.client.images.steps import UNWATCHED, ImageSteps, dropping_unstarted
from lading.core.errors import Unavailable

Compiler = Callable[[Path, Sequence[str], Path, ImageSteps], Iterable[tuple[str, Path]]]
# A Python interpreter of the machine: `python`, `python3`, `python3.11`.
_NAME = re.compile(r"python(3(\.\d+)?)?")
# The directory of the standard library below `lib`.
_LIBRARY = re.compile(r"python3\.\d+")
# Parts of the standard library that programs do not import: tests, IDLE, demos, build files.
_TESTS = (
    r"/(test|idlelib|turtledemo|ensurepip|config-[^/]*"
    r"|(ctypes|distutils|lib2to3|sqlite3|tkinter|unittest)/tests?)(/|$)"
)
# pip below a library, and its requirement in the metadata of a package.
_PIP = r".*/site-packages/pip(-[^/]*\.dist-info)?(/|$)"
_REQUIRES_PIP = re.compile(
    # Not a requirement of an extra.
    r"^Requires-Dist:\s*pip(?![\w.-])(?!.*\bextra\b)",
    re.MULTILINE | re.IGNORECASE,
)
# The key in `pyvenv.cfg` of a virtual environment that also uses packages of the machine.
_SYSTEM_SITE = re.compile(
    r"^include-system-site-packages\s*=\s*true\s*$", re.MULTILINE | re.IGNORECASE
)
# Modules that one process compiles: some 2 s of work.
_BATCH = 200
# Seconds for these; after that Unavailable is raised.
_TIMEOUT = 300.0


def is_python(path: str) -> bool:
    """Whether the name is that of a Python interpreter."""
    return _NAME.fullmatch(posixpath.basename(path)) is not None


def add_environment(
    selection: Selection, path: str, real: str, *, is_packaged: bool, with_pip: bool = False
) -> list[str]:
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
        own_packages = f"{prefix}/lib"
        pip = "" if with_pip or _requires_pip(selection.host(own_packages)) else _PIP
        selection.add_tree(own_packages, without=re.compile(pip) if pip else None)
        trees.append(f"{prefix}/lib")
    home = posixpath.dirname(posixpath.dirname(real))
    for library in _libraries(selection, home):
        trees.append(library)
        if not is_packaged:
            if not shares:
                left_out = rf"{_TESTS}|/site-packages(/|$)"
            elif with_pip or _requires_pip(selection.host(posixpath.dirname(library))):
                left_out = _TESTS
            else:
                left_out = f"{_TESTS}|{_PIP}"
            selection.add_tree(library, without=re.compile(f"{re.escape(library)}({left_out})"))
    return trees


def _requires_pip(library: Path) -> bool:
    """Whether a package below `lib` of an environment says that it requires pip."""
    listed = library.glob("python3.*/site-packages/*.dist-info/METADATA")
    return any(_REQUIRES_PIP.search(metadata.read_text(errors="replace")) for metadata in listed)


def compile_modules(
    interpreter: Path, files: Sequence[str], folder: Path, steps: ImageSteps = UNWATCHED
) -> Iterator[tuple[str, Path]]:
    """Compile the modules `files` of this machine below the directory `folder`.

    Yields the path in the image, beside the module, and the compiled file. A module in another
    version's syntax is left out.
    """
    batches = [files[start : start + _BATCH] for start in range(0, len(files), _BATCH)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        done = pool.map(lambda batch: _compile(interpreter, batch, folder, steps), batches)
        with dropping_unstarted(pool):
            for number, _ in enumerate(done):
                steps.at("compiling module", number * _BATCH, len(files))
    for compiled in sorted(folder.rglob("*.pyc")):
        beside = "/" / compiled.parent.relative_to(folder) / "__pycache__" / compiled.name
        yield str(beside), compiled


def _compile(interpreter: Path, files: Sequence[str], folder: Path, steps: ImageSteps) -> None:
    # unchecked-hash: the compiled file depends on the content of the module, not on its time, and
    # is used without a check (PEP 552).
    # -B: modules that compileall itself imports are not stored there with the time of their source.
    command = [
        str(interpreter),
        *("-B", "-X", f"pycache_prefix={folder}", "-m", "compileall", "-q"),
        *("--invalidation-mode", "unchecked-hash", "-i", "-"),
    ]
    with TemporaryFile("w+") as listed:
        listed.writelines(f"{file}\n" for file in files)
        listed.seek(0)
        process = subprocess.Popen(
            command,
            stdin=listed,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Sets of constants are written in the order of their hashes.
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        with steps.ending(process, limit=_TIMEOUT):
            # compileall fails for modules in another version's syntax; the others are compiled.
            code = process.wait()
    if code == -signal.SIGTERM:
        raise Unavailable(
            f"{interpreter}: takes over {_TIMEOUT:.0f} s to compile {len(files)} modules, from "
            f"{files[0]}; try again when this machine has less to do"
        )


def _libraries(selection: Selection, home: str) -> list[str]:
    libraries = sorted(selection.host(f"{home}/lib").glob("python3.*"))
    return [
        f"{home}/lib/{library.name}" for library in libraries if _LIBRARY.fullmatch(library.name)
    ]
