"""Rules with `script:` and `notebook:`: what their containers run, without Snakemake in the image.

A Python script or notebook gets its job from `job_runner`, which is mounted beside it. For R, Julia
and bash the beginning that Snakemake itself writes before a script suffices. Of the configuration,
the resources and the threads a script gets only what its text mentions, so that others may change
without a new computation.
"""

from __future__ import annotations

import inspect
import io
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snakemake import script as languages
from snakemake.iocontainers import ResourceList
from snakemake_interface_common.exceptions import WorkflowError

from .containers import OUT

_RUNNER = Path(__file__).with_name("job_runner.py")
_PLACE = "/lading"
"""The directory of the container that has the scripts, one directory for each step of a group."""
_PYTHON = "$(command -v python || echo python3)"
# Language -> its class in Snakemake, the name of the file, and the command.
_OTHERS = {
    "r": ("RScript", "script.R", "Rscript --vanilla"),
    "julia": ("JuliaScript", "script.jl", "julia"),
    "bash": ("BashScript", "script.sh", "bash"),
}
_MACHINE = ("_cores", "_nodes", "tmpdir")
"""Resources that tell of the machine here."""


@dataclass(frozen=True)
class Step:
    """Work of a container for a job: the line of the shell, and the mounts that it needs."""

    line: str
    mounts: Mapping[str, Mapping[str, Any]]


def step_of(job: Any, workflow: Any, number: int) -> Step:
    """The script or notebook of a job. Raises WorkflowError for a language that no container of
    Lading gets, and for a parameter that is no plain value.
    """
    rule = job.rule
    try:
        found, source, language, _, _ = languages.get_source(
            str(rule.script or rule.notebook),
            workflow.sourcecache,
            rule.basedir,
            job.wildcards,
            job.params,
        )
    except OSError as error:
        raise WorkflowError(f"rule {rule.name}: {error}") from error
    path = _below(str(found.get_path_or_uri(secret_free=True)))
    folder = f"{_PLACE}/{number}"
    if language in ("python", "jupyter_python"):
        name = f"script{Path(path).suffix}"
        line = f"{_PYTHON} {folder}/job_runner.py {folder}"
        texts = {"job_runner.py": _RUNNER.read_text(), name: source}
        told = {"kind": "json", "content": _told(job, workflow, source, path, name)}
        return Step(line, {f"{folder}/job.json": told, **_mounts(folder, texts)})
    if language not in _OTHERS:
        raise WorkflowError(
            f"rule {rule.name}: {path}: scripts in Python, R, Julia and bash and notebooks in "
            "Python run in containers of Lading; name the rule in localrules:"
        )
    kind, name, program = _OTHERS[language]
    text = _with_preamble(getattr(languages, kind), job, workflow, source, path)
    return Step(f"{program} {folder}/{name}", _mounts(folder, {name: text}))


def _mounts(folder: str, texts: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
    return {f"{folder}/{name}": {"kind": "text", "content": text} for name, text in texts.items()}


def _below(path: str) -> str:
    """The path of a script from the working directory, or its name if it is not below that."""
    try:
        return str(Path(path).resolve().relative_to(Path.cwd()))
    except ValueError:
        return posixpath.basename(path)


def _directory(path: str) -> str:
    """The directory of a script in the container."""
    return posixpath.normpath(posixpath.join(OUT, posixpath.dirname(path)))


def _resources(job: Any, source: str) -> dict[str, Any]:
    if "resources" not in source:
        return {}
    kept = {name: value for name, value in job.resources.items() if name not in _MACHINE}
    return {**kept, "tmpdir": "/tmp"}  # noqa: S108 (the container's own)


def _told(job: Any, workflow: Any, source: str, path: str, name: str) -> dict[str, Any]:
    """The content of `job.json`."""
    resources = _resources(job, source)
    lists = {
        "input": _named(job.input),
        "output": _named(job.output),
        "params": _named(job.params),
        "wildcards": _named(job.wildcards),
        "log": _named(job.log),
        "resources": ([*resources.values()], {one: place for place, one in enumerate(resources)}),
    }
    values = {
        "threads": job.threads if "threads" in source else 1,
        "config": workflow.config if "config" in source else {},
        "rule": job.rule.name,
        "bench_iteration": None,
        "scriptdir": _directory(path),
    }
    told = {"lists": lists, "values": values, "file": name, "path": path}
    return {
        key: _plain(value, f"rule {job.rule.name}: {key}")
        for key, value in {**told, "notebook": job.log.get("notebook")}.items()
    }


def _named(given: Any) -> tuple[list[Any], dict[str, Any]]:
    """The items of a list of Snakemake, and the place or the range of each name."""
    names = {
        name: first if end is None else [first, end] for name, (first, end) in given._get_names()
    }
    return [*given], names


def _plain(value: Any, where: str) -> Any:
    """A value as JSON has it. Raises WorkflowError naming one that JSON has not."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str | Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one, f"{where}.{key}") for key, one in value.items()}
    if isinstance(value, Iterable):
        return [_plain(one, where) for one in value]
    # Numbers of numpy.
    if callable(item := getattr(value, "item", None)):
        return _plain(item(), where)
    raise WorkflowError(
        f"{where}: a {type(value).__name__} is no plain value, which a script in a container needs"
    )


class _Place:
    """The path of a script, as the classes of Snakemake ask for it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def get_basedir(self) -> _Place:
        return _Place(_directory(self._path))

    def get_path_or_uri(self, secret_free: bool) -> str:
        return self._path


def _with_preamble(kind: Any, job: Any, workflow: Any, source: str, path: str) -> str:
    """The script with the beginning that Snakemake writes, with nothing of this machine in it."""
    resources = _resources(job, source)
    given = {
        "path": _Place(path),
        "source": source,
        "basedir": OUT,
        "input_": job.input._plainstrings(),
        "output": job.output._plainstrings(),
        "params": job.params,
        "wildcards": job.wildcards,
        "threads": job.threads if "threads" in source else 1,
        "resources": ResourceList(fromdict=resources),
        "log": job.log._plainstrings(),
        "config": workflow.config if "config" in source else {},
        "rulename": job.rule.name,
        "jobid": 0,
        "cleanup_scripts": True,
        "is_local": False,
    }
    # Releases of Snakemake differ in further arguments, which tell of environments of its own.
    names = [name for name in inspect.signature(kind).parameters if name != "self"]
    made = kind(**{name: given.get(name) for name in names})
    written = io.BytesIO()
    made.write_script(made.get_preamble(), written)
    return written.getvalue().decode()
