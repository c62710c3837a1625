"""Task documents of TES 1.1: their shape, and all faults of one at once.

* Null counts as absent everywhere; unknown properties are ignored.
* Each fault has the JSON pointer (RFC 6901) of the value at fault.
* The checked document has the names that the standard knows, as the client sent them, and the
`type` of each input and output, which clients of TES 1.0 require.

Source: GA4GH Task Execution Service 1.1.0, schemas of tesTask; docs/tes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from lading.core.errors import Malformed
from lading.core.ids import Infix, is_pdh, is_uuid
from lading.core.tes.document_shapes import (
    MOST_FAULTS,
    DocumentFault,
    Shape,
    amount_shape,
    array,
    array_shape,
    flag_shape,
    mapping,
    object_shape,
    objects,
    pointer,
    string,
    text_shape,
    texts_shape,
)
from lading.core.tes.locations import DIRECTORIES, WRITABLE, LocationScheme, parse_location
from lading.core.values import Json, JsonObject, printable

MAX_CONTENT = 1 << 20
"""Bytes of the content of one input."""
MAX_CONTENTS = 8 << 20
"""Bytes of all contents of one task."""
_MOST_WORDS = 1 << 20
FILE, DIRECTORY = "FILE", "DIRECTORY"
KEEP = "keep:"
_STREAMS = ("workdir", "stdin", "stdout", "stderr")
# The name of an environment variable: environ(7) forbids nothing else.
_VARIABLE = re.compile(r"[^=\0]+")


class InvalidTask(Malformed):
    """A task was refused; `faults` are the first ones that were found."""

    def __init__(self, faults: list[DocumentFault]) -> None:
        super().__init__("; ".join(f"{fault.pointer or '/'}: {fault.message}" for fault in faults))
        self.faults = faults


def read_task(
    sent: Json, rules: Callable[[JsonObject], Iterable[DocumentFault]] = lambda _: ()
) -> JsonObject:
    """The checked document of a create; `rules` are those of the server beside those of the
    standard. Raises InvalidTask naming the first faults, `MOST_FAULTS` at most.
    """
    faults: list[DocumentFault] = []
    task = _TASK(sent, "", faults)
    # Rules between values need values of the right types.
    if not faults and isinstance(task, dict):
        faults += islice(_faults_of_rules(task), MOST_FAULTS)
        # The rules of the server need valid paths.
        faults += [] if faults else islice(rules(task), MOST_FAULTS)
    if faults or not isinstance(task, dict):
        raise InvalidTask(faults[:MOST_FAULTS])
    return task


def _type(value: Json, at: str, faults: list[DocumentFault]) -> Json:
    if value not in (FILE, DIRECTORY):
        faults.append(DocumentFault(at, "must be FILE or DIRECTORY"))
    return value


def _typed(shape: Shape) -> Shape:
    """An input or output, whose type is filled in."""

    def check(value: Json, at: str, faults: list[DocumentFault]) -> Json:
        found = shape(value, at, faults)
        if isinstance(found, dict):
            found.setdefault("type", FILE)
        return found

    return check


_INPUT = _typed(
    object_shape(
        {
            "name": text_shape,
            "description": text_shape,
            "url": text_shape,
            "path": text_shape,
            "type": _type,
            "content": text_shape,
            "streamable": flag_shape,
        },
        "path",
    )
)
_OUTPUT = _typed(
    object_shape(
        {
            "name": text_shape,
            "description": text_shape,
            "url": text_shape,
            "path": text_shape,
            "path_prefix": text_shape,
            "type": _type,
        },
        "url",
        "path",
    )
)
_RESOURCES = object_shape(
    {
        "cpu_cores": amount_shape(is_whole=True),
        "preemptible": flag_shape,
        "ram_gb": amount_shape(is_whole=False),
        "disk_gb": amount_shape(is_whole=False),
        "zones": array_shape(text_shape),
        "backend_parameters": texts_shape,
        "backend_parameters_strict": flag_shape,
    }
)
_EXECUTOR = object_shape(
    {
        "image": text_shape,
        "command": array_shape(text_shape, least=1, most=_MOST_WORDS),
        "workdir": text_shape,
        "stdin": text_shape,
        "stdout": text_shape,
        "stderr": text_shape,
        "env": texts_shape,
        "ignore_error": flag_shape,
    },
    "image",
    "command",
)
_TASK = object_shape(
    {
        "name": text_shape,
        "description": text_shape,
        "inputs": array_shape(_INPUT),
        "outputs": array_shape(_OUTPUT),
        "resources": _RESOURCES,
        "executors": array_shape(_EXECUTOR, least=1),
        "volumes": array_shape(text_shape),
        "tags": texts_shape,
    },
    "executors",
)


def _faults_of_rules(task: Mapping[str, Json]) -> Iterator[DocumentFault]:
    """Faults of a document whose values have the right types."""
    yield from _faults_of_inputs(objects(task, "inputs"))
    for number, output in enumerate(objects(task, "outputs")):
        yield from _faults_of_output(number, output)
    for number, executor in enumerate(objects(task, "executors")):
        yield from _faults_of_executor(number, executor)
    paths: set[str] = set()
    for number, path in enumerate(str(volume) for volume in array(task, "volumes")):
        at = pointer("volumes", number)
        yield from _faults_of_path(at, path)
        if path in paths:
            yield DocumentFault(at, "is named twice")
        paths.add(path)


def _faults_of_inputs(inputs: list[JsonObject]) -> Iterator[DocumentFault]:
    paths: set[str] = set()
    total = 0
    for number, task_input in enumerate(inputs):
        at = pointer("inputs", number)
        path = string(task_input, "path")
        yield from _faults_of_path(f"{at}/path", path)
        if (plain := path.rstrip("/")) in paths:
            yield DocumentFault(f"{at}/path", f"{printable(plain)} is the path of an earlier input")
        paths.add(plain)
        if "content" in task_input:
            size = len(string(task_input, "content").encode("utf-8", "surrogatepass"))
            total += size
            yield from _faults_of_content(at, task_input, size)
        elif "url" in task_input:
            yield from _faults_of_input_url(at, task_input)
        else:
            yield DocumentFault(at, "needs url or content")
    if total > MAX_CONTENTS:
        text = f"contents have {total} bytes; at most {MAX_CONTENTS} are possible"
        yield DocumentFault("/inputs", text)


def _faults_of_content(
    at: str, task_input: Mapping[str, Json], size: int
) -> Iterator[DocumentFault]:
    if size > MAX_CONTENT:
        text = f"has {size} bytes; at most {MAX_CONTENT} are possible"
        yield DocumentFault(f"{at}/content", text)
    if task_input["type"] == DIRECTORY:
        yield DocumentFault(f"{at}/type", "must be FILE for an input with content")


def _faults_of_input_url(at: str, task_input: Mapping[str, Json]) -> Iterator[DocumentFault]:
    try:
        location = parse_location(string(task_input, "url"))
    except Malformed as error:
        yield DocumentFault(f"{at}/url", error.message)
        return
    if location.scheme is LocationScheme.KEEP:
        yield from _faults_of_keep(f"{at}/url", string(task_input, "url"))
    elif task_input["type"] == DIRECTORY and location.scheme not in DIRECTORIES:
        yield DocumentFault(f"{at}/type", f"must be FILE for a URL of {location.scheme}")
    elif location.scheme is LocationScheme.S3 and task_input["type"] == FILE and not location.name:
        yield DocumentFault(f"{at}/url", "must name an object: s3://BUCKET/KEY")


def _faults_of_keep(at: str, url: str) -> Iterator[DocumentFault]:
    name, path = parse_keep(url)
    if not is_pdh(name) and not is_uuid(name, Infix.COLLECTION):
        yield DocumentFault(at, "must be keep:HASH+SIZE/PATH or keep:UUID/PATH")
    elif ".." in path.split("/"):
        yield DocumentFault(at, "the path must not contain '..'")


def parse_keep(url: str) -> tuple[str, str]:
    """Collection and path of a `keep:` URL."""
    name, _, path = url.removeprefix(KEEP).lstrip("/").partition("/")
    return name, path.strip("/")


def _faults_of_output(number: int, output: Mapping[str, Json]) -> Iterator[DocumentFault]:
    at = pointer("outputs", number)
    path, prefix = string(output, "path"), string(output, "path_prefix")
    yield from _faults_of_path(f"{at}/path", path)
    if path.endswith("/") and output["type"] == FILE:
        yield DocumentFault(f"{at}/path", "must not end in '/' for a FILE")
    if prefix and is_pattern(path, prefix) and not _is_prefix(path, prefix):
        text = f"{printable(prefix)} is not a directory above {printable(path)}"
        yield DocumentFault(f"{at}/path_prefix", text)
    # Without path_prefix brackets are part of the name: some clients escape nothing.
    if not prefix and ("*" in path or "?" in path):
        yield DocumentFault(f"{at}/path_prefix", "is missing for a path with wildcards")
    yield from _faults_of_output_url(f"{at}/url", output)


def _faults_of_output_url(at: str, output: Mapping[str, Json]) -> Iterator[DocumentFault]:
    url = string(output, "url")
    try:
        location = parse_location(url)
    except Malformed as error:
        yield DocumentFault(at, error.message)
        return
    is_several = output["type"] == DIRECTORY or bool(string(output, "path_prefix"))
    if location.scheme not in WRITABLE:
        yield DocumentFault(at, f"nothing can be written to {location.scheme} URLs")
    elif location.scheme is LocationScheme.KEEP and url != KEEP:
        yield DocumentFault(at, f"must be {KEEP} alone: the files stay in the output collection")
    elif location.query and location.scheme in (LocationScheme.HTTP, LocationScheme.HTTPS):
        if is_several:
            yield DocumentFault(at, "must have no query where it names several files")
    elif location.scheme is LocationScheme.S3 and not location.name and not is_several:
        yield DocumentFault(at, "must name an object: s3://BUCKET/KEY")


def is_pattern(path: str, prefix: str) -> bool:
    """Whether the path of an output has wildcards; `prefix` is its path_prefix."""
    return any(mark in path for mark in ("*?[" if prefix else "*?"))


def _is_prefix(path: str, prefix: str) -> bool:
    return path.startswith(prefix.rstrip("/") + "/") and not any(mark in prefix for mark in "*?[\\")


def _faults_of_executor(number: int, executor: Mapping[str, Json]) -> Iterator[DocumentFault]:
    at = pointer("executors", number)
    if not string(executor, "image").strip():
        yield DocumentFault(f"{at}/image", "must not be empty")
    if not array(executor, "command")[0]:
        yield DocumentFault(f"{at}/command/0", "must not be empty")
    for name in _STREAMS:
        if name in executor:
            yield from _faults_of_path(
                f"{at}/{name}", string(executor, name), root=name == "workdir"
            )
    for name in mapping(executor, "env"):
        if not _VARIABLE.fullmatch(name):
            yield DocumentFault(f"{at}/env{pointer(name)}", "is not the name of a variable")


def _faults_of_path(at: str, path: str, *, root: bool = False) -> Iterator[DocumentFault]:
    """Faults of a path in the container; one slash may end it. `root`: "/" is allowed."""
    plain = path.removesuffix("/") or path
    if not plain.startswith("/"):
        yield DocumentFault(at, "must be an absolute path in the container")
    elif plain == "/":
        if not root:
            yield DocumentFault(at, "must not be the root directory")
    elif posixpath.normpath(plain) != plain or plain.startswith("//"):
        yield DocumentFault(at, "must have no '.', '..' or empty element")
