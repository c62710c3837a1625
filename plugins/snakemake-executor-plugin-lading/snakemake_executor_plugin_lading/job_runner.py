"""Runs a Python script or notebook of a rule in its container: `python job_runner.py DIRECTORY`.

The plugin does not import this file but mounts it in containers, beside `job.json` with the values
of the job and the script itself. It needs Python 3.7 or newer and nothing else; for notebooks also
nbclient and a kernel. `snakemake` is what a script of Snakemake expects, without Snakemake.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import linecache
import os
import sys
import tempfile
import traceback
import types
from pathlib import Path
from typing import Any

_TAG = "snakemake-job-properties"
"""The tag of the first cell, by which Snakemake knows it."""


class NamedList(list):  # type: ignore[type-arg]
    """A list whose items, or ranges of them, have names: attributes, and keys."""

    def __init__(self, items: Any, names: Any = None) -> None:
        super().__init__(items)
        self._names: dict[str, Any] = {}
        for name, place in (names or {}).items():
            is_one = isinstance(place, int)
            self._names[name] = self[place] if is_one else NamedList(self[place[0] : place[1]])
            setattr(self, name, self._names[name])

    def __getitem__(self, key: Any) -> Any:
        return self._names[key] if isinstance(key, str) else super().__getitem__(key)

    def __str__(self) -> str:
        return " ".join(map(str, self))

    def keys(self) -> Any:
        """The names."""
        return self._names.keys()

    def items(self) -> Any:
        """The names, each with its value."""
        return self._names.items()

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name, or another one."""
        return self._names.get(name, default)


class Snakemake:
    """The job, as its script sees it."""

    log: NamedList
    scriptdir: str

    def __init__(self, told: Any) -> None:
        for name, (items, names) in told["lists"].items():
            setattr(self, name, NamedList(items, names))
        for name, value in told["values"].items():
            setattr(self, name, value)

    def log_fmt_shell(self, stdout: bool = True, stderr: bool = True, append: bool = False) -> str:
        """The redirection of a shell command into the log file; "" without one."""
        if not (self.log and (stdout or stderr)):
            return ""
        sign = ">>" if append else ">"
        if not stdout:
            return f" 2{sign} {self.log}"
        return f" {sign} {self.log}{' 2>&1' if stderr else ''}"


def main(directory: str) -> None:
    """Run the script or notebook of a directory."""
    told = json.loads(Path(directory, "job.json").read_text())
    source = Path(directory, told["file"]).read_text()
    if told["file"].endswith(".ipynb"):
        run_notebook(source, told, directory)
    else:
        run_script(source, told)


def run_script(source: str, told: Any) -> None:
    """Run a script as the main module; its faults show its own lines."""
    snakemake = Snakemake(told)
    path = told["path"]
    # Modules beside the script are found if they are among the inputs of the rule.
    sys.path[0] = snakemake.scriptdir
    sys.argv = [path]
    offer(snakemake, source)
    # The script is not at its path here.
    linecache.cache[path] = (len(source), None, source.splitlines(True), path)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, snakemake=snakemake)
    sys.modules["__main__"] = module
    sys.excepthook = show_fault
    exec(compile(source, path, "exec"), module.__dict__)  # noqa: S102 (its purpose)


def show_fault(kind: Any, error: BaseException, trace: Any) -> None:
    """Print an uncaught exception without the frames of this file."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)


def offer(snakemake: Snakemake, source: str) -> None:
    """Let `from snakemake.script import snakemake` give the job, as linters like it."""
    if "snakemake.script" not in source:
        return
    if importlib.util.find_spec("snakemake") is None:
        for name in ("snakemake", "snakemake.script"):
            sys.modules[name] = types.ModuleType(name)
    vars(importlib.import_module("snakemake.script"))["snakemake"] = snakemake


def run_notebook(source: str, told: Any, directory: str) -> None:
    """Execute a notebook; the executed one becomes the log file called `notebook`."""
    # Of the image.
    nbformat = importlib.import_module("nbformat")
    nbclient = importlib.import_module("nbclient")
    notebook = nbformat.reads(source, as_version=4)
    first = nbformat.v4.new_code_cell(
        "import json, sys\n"
        "sys.path[:0] = {!r}\n"
        "from job_runner import Snakemake\n"
        "snakemake = Snakemake(json.load(open({!r})))".format(
            [told["values"]["scriptdir"], directory], f"{directory}/job.json"
        )
    )
    first["metadata"]["tags"] = [_TAG]
    others = [one for one in notebook["cells"] if _TAG not in one["metadata"].get("tags", [])]
    notebook["cells"] = [first, *others]
    # Kernels keep files below the home directory, which an image need not have.
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(HOME=home, IPYTHONDIR=home, JUPYTER_RUNTIME_DIR=home)
        place = {"metadata": {"path": str(Path.cwd())}}
        try:
            nbclient.NotebookClient(notebook, timeout=None, resources=place).execute()
        finally:
            if told["notebook"]:
                nbformat.write(notebook, told["notebook"])


if __name__ == "__main__":
    main(sys.argv[1])
