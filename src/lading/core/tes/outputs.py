"""The files of an output collection that the outputs of a task name.

Wildcards are those of the POSIX shell: `*`, `?` and `[...]` within one element of a path; a leading
dot must be written. A match is taken with everything below it.

Source: GA4GH Task Execution Service 1.1.0, tesOutput; docs/tes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree, Node
from lading.core.data.globs import compile_globs
from lading.core.tes.document import KEEP, is_pattern, objects, string
from lading.core.tes.locations import LocationScheme, join_url, parse_location
from lading.core.tes.mapping import ignores_missing, output_path
from lading.core.values import JsonObject


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file of an output: its path in the container, the same in the collection, its size in
    bytes, and the URL that it is delivered to, "" if it stays in the collection.
    """

    path: str
    stored: str
    size: int
    url: str = ""


@dataclass(frozen=True, slots=True)
class TaskOutputs:
    """The files of all outputs, and the container paths of outputs that the task did not make:
    required ones in `missing`, wildcards and optional ones in `unmatched`. `directories` are the
    `file` URLs of empty directories, which other servers do not have.
    """

    files: tuple[OutputFile, ...] = ()
    missing: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()


def find_outputs(task: JsonObject, tree: FileTree) -> TaskOutputs:
    """The outputs of a checked task in the collection with the content of its output path."""
    root = output_path(task)
    files: dict[str, OutputFile] = {}
    missing: list[str] = []
    unmatched: list[str] = []
    directories: dict[str, None] = {}
    lenient = ignores_missing(task)
    for one in objects(task, "outputs"):
        path = string(one, "path").removesuffix("/")
        wild = is_pattern(path, string(one, "path_prefix"))
        matches = list(_matches(tree, path[len(root) + 1 :], wild=wild))
        if not matches:
            (unmatched if wild or lenient else missing).append(path)
        for stored, node in matches:
            for file in _files(root, stored, node):
                url = _url_of(one, path, file.path)
                # Two outputs may name one file, each with its own URL.
                files[f"{file.path}\0{url}"] = replace(file, url=url)
            urls = (_url_of(one, path, empty) for empty in _empty(root, stored, node))
            directories |= dict.fromkeys(url for url in urls if _is_directory_url(url))
    return TaskOutputs(tuple(files.values()), tuple(missing), tuple(unmatched), tuple(directories))


def _is_directory_url(url: str) -> bool:
    """Whether a URL can name a directory without files: only those of `file` can."""
    return bool(url) and parse_location(url).scheme is LocationScheme.FILE


def _url_of(one: JsonObject, path: str, file: str) -> str:
    """URL for a file of the output `one`, whose path without a final slash is `path`."""
    url = string(one, "url")
    if url == KEEP:
        return ""
    prefix = string(one, "path_prefix").rstrip("/")
    top = prefix if is_pattern(path, prefix) else path
    return url if file == top else join_url(url, file[len(top) + 1 :])


def _matches(tree: FileTree, path: str, *, wild: bool) -> Iterator[tuple[str, Node]]:
    if not wild:
        node = filetree.find(tree, path)
        if node is not None:
            yield path, node
        return
    # `**` is no wildcard of its own here, as it is in globs.
    elements = ["*" if set(one) == {"*"} else one for one in path.split("/")]
    globs = compile_globs(["/".join(elements)])
    for stored, node in filetree.walk(tree):
        names = stored.split("/")
        if len(names) != len(elements) or _hides(names, elements):
            continue
        keeps = globs.keeps_file if isinstance(node, File) else globs.keeps_directory
        if keeps(stored):
            yield stored, node


def _hides(names: Sequence[str], elements: Sequence[str]) -> bool:
    """Whether a name begins with a dot that its pattern does not have, as in a shell."""
    return any(
        name.startswith(".") and not element.startswith(".")
        for name, element in zip(names, elements, strict=True)
    )


def _files(root: str, stored: str, node: Node) -> Iterator[OutputFile]:
    if isinstance(node, File):
        yield OutputFile(f"{root}/{stored}", stored, node.size)
        return
    for below, file in filetree.files(node):
        yield OutputFile(f"{root}/{stored}/{below}", f"{stored}/{below}", file.size)


def _empty(root: str, stored: str, node: Node) -> Iterator[str]:
    """The container paths of the empty directories at a node and below it."""
    if isinstance(node, File):
        return
    if not node.entries:
        yield f"{root}/{stored}"
    for below, one in filetree.walk(node):
        if isinstance(one, FileTree) and not one.entries:
            yield f"{root}/{stored}/{below}"
