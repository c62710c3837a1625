"""Mounts of inputs: copies of the task's own, which its commands may change, move and delete.

Below a volume, or the directory of all outputs, an input is an ordinary file there. Any other has a
directory of the task in the place of its parent directory, unless the image has files in that: then
it is mounted by itself, can be changed and read, but not moved. Changes of an input by the command
never go back to the URL.

Inputs among the outputs are saved with these only if an output is such a file: the patterns of the
request name the outputs then.

Source: GA4GH Task Execution Service 1.1.0, tesInput; docs/tes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping

from lading.core.containers.mounting.mounts import covering
from lading.core.data.globs import check_globs
from lading.core.errors import Invalid
from lading.core.tes.document import is_pattern
from lading.core.tes.document_shapes import objects, string
from lading.core.values import Json, JsonObject

_SPECIAL = re.compile(r"([*?\[\]\\])")


def as_copy(mount: JsonObject) -> JsonObject:
    """The mount of an input as a copy."""
    return {**mount, "writable": True}


def own_directories(paths: Iterable[str], others: Collection[str]) -> list[str]:
    """The directories that a task gets for inputs at `paths`: the parents of those that are in no
    other mount, the outermost ones.
    """
    directories: dict[str, None] = {}
    for path in sorted(paths, key=lambda input_path: input_path.count("/")):
        parent = posixpath.dirname(path)
        above = covering(frozenset(others), parent) or covering(directories, parent)
        if parent != "/" and above is None:
            directories[parent] = None
    return list(directories)


def output_globs(task: Mapping[str, Json], output_path: str, inputs: Iterable[str]) -> list[str]:
    """The patterns of the request that keep what the outputs name; none, for everything, where no
    input lies among them, and for more outputs than a request may have patterns.
    """
    if not any(path.startswith(f"{output_path}/") for path in inputs):
        return []
    patterns: list[str] = []
    for output in objects(task, "outputs"):
        path = string(output, "path").rstrip("/").removeprefix(f"{output_path}/")
        plain = is_pattern(string(output, "path"), string(output, "path_prefix"))
        pattern = path if plain else _SPECIAL.sub(r"\\\1", path)
        # A file, or a directory with everything below it.
        patterns += [pattern, f"{pattern}/**"]
    try:
        check_globs(patterns)
    except Invalid:
        return []
    return patterns
