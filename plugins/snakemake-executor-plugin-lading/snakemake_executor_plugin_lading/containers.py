"""Container requests for jobs of Snakemake: their commands, needs and files.

Nothing of Snakemake is imported here.
"""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from lading.core.containers.gpu_words import (
    gpu_constraint,
    parse_count,
    parse_kinds,
    parse_version,
)
from lading.core.errors import Invalid
from lading.core.secrets import parse_option, read_content

OUT = "/out"
"""The working directory of the container, whose files are kept."""
_MEGABYTE = 1_000_000
_STACKS = {"nvidia": "cuda", "amd": "rocm"}
_GPUS_OF = {"nvidia_gpu": "nvidia", "amd_gpu": "amd"}
_Value = TypeVar("_Value")
_LEAST_RAM = 64 << 20
_OPTIONS = {"bash": "-euo pipefail", "zsh": "-euo pipefail"}


def command(shell: str, scripts: Sequence[str], made: Iterable[str]) -> list[str]:
    """The command of the container: the shell commands, after the directories of the files that
    they make.
    """
    folders = sorted({posixpath.dirname(path) for path in made} - {""})
    quoted = " ".join("'" + one.replace("'", "'\\''") + "'" for one in folders)
    lines = [f"set {_OPTIONS.get(posixpath.basename(shell), '-eu')}"]
    lines += [f"mkdir -p {quoted}"] if folders else []
    return [shell, "-c", "\n".join([*lines, *(one.strip() for one in scripts)])]


def read_secrets(given: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The contents of secrets, by name, from NAME[=VALUE|@FILE]; of NAME alone its value in the
    environment. Raises Invalid, OSError.
    """
    found = {}
    for text in given:
        name, value, path = parse_option(text)
        if path is not None:
            value = read_content(name, Path(path).read_bytes())
        elif value is None and name not in environment:
            raise Invalid(f"{name}: is not set here; give {name}=@FILE")
        found[name] = environment[name] if value is None else value
    return found


def needs(threads: int, resources: Mapping[str, Any]) -> dict[str, Any]:
    """Constraints, scheduling parameters and working directory by the resources of a job: mem_mb,
    disk_mb, runtime (minutes), gpu and what it has to be, lading_partition, lading_priority. Raises
    Invalid for GPUs that cannot be meant.
    """

    def number(name: str) -> int:
        value = resources.get(name)
        return value if isinstance(value, int) else 0

    constraints: dict[str, Any] = {"vcpus": max(threads, 1)}
    constraints["ram"] = max(number("mem_mb") * _MEGABYTE, _LEAST_RAM)
    if gpu := _gpus(resources):
        constraints["gpu"] = gpu
    scheduling: dict[str, Any] = {}
    if minutes := number("runtime"):
        scheduling["max_run_time"] = minutes * 60
    if partition := resources.get("lading_partition"):
        scheduling["partitions"] = str(partition).split(",")
    working: dict[str, Any] = {"kind": "tmp"}
    if disk := number("disk_mb"):
        working["capacity"] = disk * _MEGABYTE
    found: dict[str, Any] = {
        "runtime_constraints": constraints,
        "scheduling_parameters": scheduling,
        "mounts": {OUT: working},
    }
    if priority := number("lading_priority"):
        found["priority"] = priority
    return found


def _gpus(resources: Mapping[str, Any]) -> dict[str, Any] | None:
    """The GPU constraint: `gpu`, or `nvidia_gpu` and `amd_gpu` for those of one maker; None without
    any. Raises Invalid naming the resource.
    """

    def read(name: str, parse: Callable[[Any], _Value]) -> _Value | None:
        value = resources.get(name)
        try:
            return None if value is None or value == "" else parse(value)
        except Invalid as error:
            raise Invalid(f"{name}: {error.message}") from None

    counts = {name: read(name, parse_count) or 0 for name in ("gpu", *_GPUS_OF)}
    if not any(counts.values()):
        return None
    makers = {str(resources.get("gpu_manufacturer") or "").lower()} - {""}
    makers |= {maker for name, maker in _GPUS_OF.items() if counts[name]}
    # A machine can have models of several makers, a container has GPUs of one.
    if not makers <= _STACKS.keys() or len(makers) > 1:
        raise Invalid(f"gpu_manufacturer: {', '.join(sorted(makers))}: write nvidia or amd")
    kinds = [read(name, parse_kinds) or () for name in ("gpu_model", "gpu_hardware_target")]
    return gpu_constraint(
        max(counts.values()),
        kinds=sorted({*kinds[0], *kinds[1]}),
        version=read("gpu_driver_version", parse_version) or "",
        stack=_STACKS[makers.pop()] if makers else "",
    )


def target(path: str) -> str:
    """Mount path of an input: a relative path is below the working directory. Raises ValueError for
    one outside of it.
    """
    if path.startswith("/"):
        return posixpath.normpath(path)
    return f"{OUT}/{relative(path)}"


def relative(path: str) -> str:
    """The normal form of a path below the working directory. Raises ValueError for another."""
    found = posixpath.normpath(path)
    if found.startswith(("/", "../")) or found in ("..", "."):
        raise ValueError(f"{path}: not below the working directory")
    return found


class KnownFiles:
    """Files here whose content is known to be a part of a stored collection: outputs of jobs.

    They are inputs of other jobs without being read. A file that has changed is not known. Kept in
    a file, for the next run.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, list[Any]] = {}
        try:
            self._found = json.loads(path.read_text())
        except (OSError, ValueError):
            # None yet, or damaged: the files are read again.
            self._found = {}

    def add(self, path: str, collection: str, place: str) -> None:
        """The file is that at `place` of the collection with this portable data hash."""
        if Path(path).is_file():
            self._found[path] = [collection, place, *_stamp(path)]

    def mount(self, path: str) -> dict[str, Any] | None:
        """The mount that shows it, or None."""
        entry = self._found.get(path)
        if entry is None or not Path(path).is_file() or entry[2:] != _stamp(path):
            return None
        return {"kind": "collection", "portable_data_hash": entry[0], "path": entry[1]}

    def save(self) -> None:
        """Write them to disk."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(self._found))
        new.replace(self._path)


def _stamp(path: str) -> list[int]:
    # As Snakemake does: the time is set when a file is written.
    found = Path(path).stat()
    return [found.st_size, found.st_mtime_ns, found.st_ino]


def take(place: Path, made: Iterable[str], directory: Path) -> list[str]:
    """Move the files and directories that a job has made from `place` below `directory`; those
    that were there.
    """
    taken = []
    for path in made:
        source = place / path
        if not source.exists():
            continue
        goal = directory / path
        goal.parent.mkdir(parents=True, exist_ok=True)
        # Snakemake has removed what was there before it ran the job, but for log files.
        if goal.is_dir() and not source.is_dir():
            raise ValueError(f"{path}: a directory is in the place of this file")
        source.replace(goal)
        os.utime(goal)
        taken.append(path)
    return taken
