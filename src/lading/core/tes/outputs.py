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
from lading.core.data.globs import element_matcher
from lading.core.errors import TooLarge
from lading.core.tes.document import KEEP, is_pattern
from lading.core.tes.document_shapes import objects, string
from lading.core.tes.locations import LocationScheme, join_url, parse_location
from lading.core.tes.mapping import ignores_missing, output_path
from lading.core.values import JsonObject

MOST_COMPARED = 3_000_000
"""Names that the wildcards of a task are compared with: a second or two of work."""
MOST_FILES = 300_000
"""Files of all outputs of a task together, where outputs that share a file count it each."""


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
    `file` URLs of empty directories, which other servers do not have. `excess` says that they are
    too many to be looked for.
    """

    files: tuple[OutputFile, ...] = ()
    missing: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    excess: str = ""


def find_outputs(task: JsonObject, tree: FileTree) -> TaskOutputs:
    """The outputs of a checked task in the collection with the content of its output path.

    Raises TooLarge beyond the two limits: a task may name many outputs, and its command make many
    files, so that their product is beyond any server.
    """
    root = output_path(task)
    files: dict[str, OutputFile] = {}
    missing: list[str] = []
    unmatched: list[str] = []
    directories: dict[str, None] = {}
    lenient = ignores_missing(task)
    budget = _Budget()
    for output in objects(task, "outputs"):
        path = string(output, "path").removesuffix("/")
        wild = is_pattern(path, string(output, "path_prefix"))
        matches = list(_matches(tree, path[len(root) + 1 :], budget, wild=wild))
        if not matches:
            (unmatched if wild or lenient else missing).append(path)
        for stored, node in matches:
            for file in _files(root, stored, node):
                budget.take_file()
                url = _url_of(output, path, file.path)
                # Two outputs may name one file, each with its own URL.
                files[f"{file.path}\0{url}"] = replace(file, url=url)
            urls = (_url_of(output, path, empty) for empty in _empty(root, stored, node, budget))
            directories |= dict.fromkeys(url for url in urls if _is_directory_url(url))
    return TaskOutputs(tuple(files.values()), tuple(missing), tuple(unmatched), tuple(directories))


class _Budget:
    """Work left for the outputs of one task."""

    def __init__(self) -> None:
        self._names, self._files = MOST_COMPARED, MOST_FILES

    def take_names(self, number: int) -> None:
        """Count names that a wildcard is compared with. Raises TooLarge."""
        self._names -= number
        if self._names < 0:
            raise TooLarge(
                "outputs: its wildcards and files are too many to compare; name directories, or "
                "fewer wildcards"
            )

    def take_file(self) -> None:
        """Count a file of an output. Raises TooLarge."""
        self._files -= 1
        if self._files < 0:
            raise TooLarge(f"outputs: they name more than {MOST_FILES} files and directories")


def _is_directory_url(url: str) -> bool:
    """Whether a URL can name a directory without files: only those of `file` can."""
    return bool(url) and parse_location(url).scheme is LocationScheme.FILE


def _url_of(output: JsonObject, path: str, file: str) -> str:
    """URL for a file of the output `output`, whose path without a final slash is `path`."""
    url = string(output, "url")
    if url == KEEP:
        return ""
    prefix = string(output, "path_prefix").rstrip("/")
    top = prefix if is_pattern(path, prefix) else path
    return url if file == top else join_url(url, file[len(top) + 1 :])


def _matches(
    tree: FileTree, path: str, budget: _Budget, *, wild: bool
) -> Iterator[tuple[str, Node]]:
    if not wild:
        node = filetree.find(tree, path)
        if node is not None:
            yield path, node
        return
    yield from _descend(tree, "", path.split("/"), budget)


def _descend(
    tree: FileTree, above: str, elements: Sequence[str], budget: _Budget
) -> Iterator[tuple[str, Node]]:
    """The nodes below a directory that the elements of a pattern match, one level for each."""
    first, remaining = elements[0], elements[1:]
    for name, node in _named(tree, first, budget):
        path = f"{above}{name}"
        if not remaining:
            yield path, node
        elif isinstance(node, FileTree):
            yield from _descend(node, f"{path}/", remaining, budget)


def _named(tree: FileTree, element: str, budget: _Budget) -> Iterator[tuple[str, Node]]:
    """The entries of a directory that one element matches, in the order of their names."""
    budget.take_names(len(tree.entries))
    matches = element_matcher(element)
    # A leading dot must be written, as in a shell.
    takes_hidden = element.startswith(".")
    for name in sorted(filter(matches, tree.entries)):
        if takes_hidden or not name.startswith("."):
            yield name, tree.entries[name]


def _files(root: str, stored: str, node: Node) -> Iterator[OutputFile]:
    if isinstance(node, File):
        yield OutputFile(f"{root}/{stored}", stored, node.size)
        return
    for below, file in filetree.files(node):
        yield OutputFile(f"{root}/{stored}/{below}", f"{stored}/{below}", file.size)


def _empty(root: str, stored: str, node: Node, budget: _Budget) -> Iterator[str]:
    """The container paths of the empty directories at a node and below it."""
    if isinstance(node, File):
        return
    if not node.entries:
        yield f"{root}/{stored}"
    for below, member in filetree.walk(node):
        budget.take_file()
        if isinstance(member, FileTree) and not member.entries:
            yield f"{root}/{stored}/{below}"
