"""Task documents of TES 1.1: their shape, and all faults of one at once.

* Null counts as absent everywhere; unknown properties are ignored.
* Each fault has the JSON pointer (RFC 6901) of the value at fault.
* The checked document has the names that the standard knows, as the client sent them, and the
`type` of each input and output, which clients of TES 1.0 require.

Source: GA4GH Task Execution Service 1.1.0, schemas of tesTask; docs/tes.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from lading.core.errors import Malformed
from lading.core.ids import Infix, is_pdh, is_uuid
from lading.core.tes.locations import DIRECTORIES, WRITABLE, LocationScheme, parse_location
from lading.core.values import Json, JsonObject, printable

MAX_CONTENT = 1 << 20
"""Bytes of the content of one input."""
MAX_CONTENTS = 8 << 20
"""Bytes of all contents of one task."""
MOST_ENTRIES = 10_000
"""Entries of an array of a task, but for those of a command."""
_MOST_WORDS = 1 << 20
FILE, DIRECTORY = "FILE", "DIRECTORY"
KEEP = "keep:"
MOST_FAULTS = 100
"""Faults that a refusal names; a document may have millions."""
_STREAMS = ("workdir", "stdin", "stdout", "stderr")
# The name of an environment variable: environ(7) forbids nothing else.
_VARIABLE = re.compile(r"[^=\0]+")


@dataclass(frozen=True, slots=True)
class DocumentFault:
    """One fault: the JSON pointer of the value, and what is wrong with it."""

    pointer: str
    text: str


class InvalidTask(Malformed):
    """A task was refused; `faults` are the first ones that were found."""

    def __init__(self, faults: list[DocumentFault]) -> None:
        super().__init__("; ".join(f"{one.pointer or '/'}: {one.text}" for one in faults))
        self.faults = faults


Shape: TypeAlias = Callable[[Json, str, list[DocumentFault]], Json]
"""Checks a value that is not null: appends faults, returns the value to keep."""


def read_task(
    sent: Json, rules: Callable[[JsonObject], Iterable[DocumentFault]] = lambda _: ()
) -> JsonObject:
    """The checked document of a create; `rules` are those of the server beside those of the
    standard. Raises InvalidTask naming the first faults, `MOST_FAULTS` at most.
    """
    faults: list[DocumentFault] = []
    found = _TASK(sent, "", faults)
    # Rules between values need values of the right types.
    if not faults and isinstance(found, dict):
        faults += islice(_faults_of_rules(found), MOST_FAULTS)
        # The rules of the server need valid paths.
        faults += [] if faults else islice(rules(found), MOST_FAULTS)
    if faults or not isinstance(found, dict):
        raise InvalidTask(faults[:MOST_FAULTS])
    return found


def pointer(*names: str | int) -> str:
    """The JSON pointer of a path of names."""
    return "".join("/" + str(one).replace("~", "~0").replace("/", "~1") for one in names)


def objects(document: Mapping[str, Json], name: str) -> list[JsonObject]:
    """The objects of an array of a checked document; none if it is absent."""
    return [one for one in array(document, name) if isinstance(one, dict)]


def array(document: Mapping[str, Json], name: str) -> list[Json]:
    """An array of a checked document; empty if it is absent."""
    value = document.get(name)
    return value if isinstance(value, list) else []


def mapping(document: Mapping[str, Json], name: str) -> JsonObject:
    """An object of a checked document; empty if it is absent."""
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def string(document: Mapping[str, Json], name: str) -> str:
    """A text of a checked document; "" if it is absent."""
    value = document.get(name)
    return value if isinstance(value, str) else ""


def _text(value: Json, at: str, faults: list[DocumentFault]) -> Json:
    if not isinstance(value, str):
        faults.append(DocumentFault(at, "must be a string"))
    elif "\0" in value:
        faults.append(DocumentFault(at, "must not contain NUL"))
    return value


def _flag(value: Json, at: str, faults: list[DocumentFault]) -> Json:
    if not isinstance(value, bool):
        faults.append(DocumentFault(at, "must be true or false"))
    return value


def _amount(*, whole: bool) -> Shape:
    def check(value: Json, at: str, faults: list[DocumentFault]) -> Json:
        # bool is a subclass of int.
        if isinstance(value, int | float) and not isinstance(value, bool):
            number: float = value
        else:
            number = math.nan
        # Far below a 64-bit number of bytes. NaN and infinity are not in the range. Clients in Go
        # and in Java send 0 for a number that nobody has set.
        if not 0 <= number < 1 << 31 or (whole and not isinstance(number, int)):
            what = "whole number" if whole else "number"
            faults.append(DocumentFault(at, f"must be a {what} above 0, or 0 for the default"))
        return value

    return check


def _texts(value: Json, at: str, faults: list[DocumentFault]) -> Json:
    """An object of texts; entries that are null are left out."""
    if not isinstance(value, dict):
        faults.append(DocumentFault(at, "must be an object of strings"))
        return value
    found: JsonObject = {}
    for name, one in value.items():
        if one is not None:
            found[name] = _text(one, at + pointer(name), faults)
        if len(faults) >= MOST_FAULTS:
            break
    return found


def _several(shape: Shape, *, least: int = 0, most: int = MOST_ENTRIES) -> Shape:
    def check(value: Json, at: str, faults: list[DocumentFault]) -> Json:
        if not isinstance(value, list):
            faults.append(DocumentFault(at, "must be an array"))
            return value
        if len(value) < least:
            faults.append(DocumentFault(at, "must not be empty"))
        if len(value) > most:
            faults.append(
                DocumentFault(at, f"has {len(value)} entries; at most {most} are possible")
            )
            return value
        found: list[Json] = []
        for number, one in enumerate(value):
            found.append(shape(one, f"{at}/{number}", faults))
            if len(faults) >= MOST_FAULTS:
                break
        return found

    return check


def _record(shapes: Mapping[str, Shape], *required: str) -> Shape:
    def check(value: Json, at: str, faults: list[DocumentFault]) -> Json:
        if not isinstance(value, dict):
            faults.append(DocumentFault(at, "must be an object"))
            return value
        found: JsonObject = {}
        for name, shape in shapes.items():
            one = value.get(name)
            if one is not None:
                found[name] = shape(one, f"{at}/{name}", faults)
        for name in required:
            if found.get(name, "") == "":
                faults.append(DocumentFault(f"{at}/{name}", "is missing"))
        return found

    return check


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
    _record(
        {
            "name": _text,
            "description": _text,
            "url": _text,
            "path": _text,
            "type": _type,
            "content": _text,
            "streamable": _flag,
        },
        "path",
    )
)
_OUTPUT = _typed(
    _record(
        {
            "name": _text,
            "description": _text,
            "url": _text,
            "path": _text,
            "path_prefix": _text,
            "type": _type,
        },
        "url",
        "path",
    )
)
_RESOURCES = _record(
    {
        "cpu_cores": _amount(whole=True),
        "preemptible": _flag,
        "ram_gb": _amount(whole=False),
        "disk_gb": _amount(whole=False),
        "zones": _several(_text),
        "backend_parameters": _texts,
        "backend_parameters_strict": _flag,
    }
)
_EXECUTOR = _record(
    {
        "image": _text,
        "command": _several(_text, least=1, most=_MOST_WORDS),
        "workdir": _text,
        "stdin": _text,
        "stdout": _text,
        "stderr": _text,
        "env": _texts,
        "ignore_error": _flag,
    },
    "image",
    "command",
)
_TASK = _record(
    {
        "name": _text,
        "description": _text,
        "inputs": _several(_INPUT),
        "outputs": _several(_OUTPUT),
        "resources": _RESOURCES,
        "executors": _several(_EXECUTOR, least=1),
        "volumes": _several(_text),
        "tags": _texts,
    },
    "executors",
)


def _faults_of_rules(task: Mapping[str, Json]) -> Iterator[DocumentFault]:
    """Faults of a document whose values have the right types."""
    yield from _faults_of_inputs(objects(task, "inputs"))
    for number, one in enumerate(objects(task, "outputs")):
        yield from _faults_of_output(number, one)
    for number, one in enumerate(objects(task, "executors")):
        yield from _faults_of_executor(number, one)
    seen: set[str] = set()
    for number, path in enumerate(str(one) for one in array(task, "volumes")):
        at = pointer("volumes", number)
        yield from _faults_of_path(at, path)
        if path in seen:
            yield DocumentFault(at, "is named twice")
        seen.add(path)


def _faults_of_inputs(inputs: list[JsonObject]) -> Iterator[DocumentFault]:
    seen: set[str] = set()
    total = 0
    for number, one in enumerate(inputs):
        at = pointer("inputs", number)
        path = string(one, "path")
        yield from _faults_of_path(f"{at}/path", path)
        if (plain := path.rstrip("/")) in seen:
            yield DocumentFault(f"{at}/path", f"{printable(plain)} is the path of an earlier input")
        seen.add(plain)
        if "content" in one:
            size = len(string(one, "content").encode("utf-8", "surrogatepass"))
            total += size
            yield from _faults_of_content(at, one, size)
        elif "url" in one:
            yield from _faults_of_input_url(at, one)
        else:
            yield DocumentFault(at, "needs url or content")
    if total > MAX_CONTENTS:
        text = f"contents have {total} bytes; at most {MAX_CONTENTS} are possible"
        yield DocumentFault("/inputs", text)


def _faults_of_content(at: str, one: Mapping[str, Json], size: int) -> Iterator[DocumentFault]:
    if size > MAX_CONTENT:
        text = f"has {size} bytes; at most {MAX_CONTENT} are possible"
        yield DocumentFault(f"{at}/content", text)
    if one["type"] == DIRECTORY:
        yield DocumentFault(f"{at}/type", "must be FILE for an input with content")


def _faults_of_input_url(at: str, one: Mapping[str, Json]) -> Iterator[DocumentFault]:
    try:
        location = parse_location(string(one, "url"))
    except Malformed as error:
        yield DocumentFault(f"{at}/url", error.message)
        return
    if location.scheme is LocationScheme.KEEP:
        yield from _faults_of_keep(f"{at}/url", string(one, "url"))
    elif one["type"] == DIRECTORY and location.scheme not in DIRECTORIES:
        yield DocumentFault(f"{at}/type", f"must be FILE for a URL of {location.scheme}")
    elif location.scheme is LocationScheme.S3 and one["type"] == FILE and not location.name:
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


def _faults_of_output(number: int, one: Mapping[str, Json]) -> Iterator[DocumentFault]:
    at = pointer("outputs", number)
    path, prefix = string(one, "path"), string(one, "path_prefix")
    yield from _faults_of_path(f"{at}/path", path)
    if path.endswith("/") and one["type"] == FILE:
        yield DocumentFault(f"{at}/path", "must not end in '/' for a FILE")
    if prefix and is_pattern(path, prefix) and not _is_prefix(path, prefix):
        text = f"{printable(prefix)} is not a directory above {printable(path)}"
        yield DocumentFault(f"{at}/path_prefix", text)
    # Without path_prefix brackets are part of the name: some clients escape nothing.
    if not prefix and ("*" in path or "?" in path):
        yield DocumentFault(f"{at}/path_prefix", "is missing for a path with wildcards")
    yield from _faults_of_output_url(f"{at}/url", one)


def _faults_of_output_url(at: str, one: Mapping[str, Json]) -> Iterator[DocumentFault]:
    url = string(one, "url")
    try:
        location = parse_location(url)
    except Malformed as error:
        yield DocumentFault(at, error.message)
        return
    is_several = one["type"] == DIRECTORY or bool(string(one, "path_prefix"))
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


def _faults_of_executor(number: int, one: Mapping[str, Json]) -> Iterator[DocumentFault]:
    at = pointer("executors", number)
    if not string(one, "image").strip():
        yield DocumentFault(f"{at}/image", "must not be empty")
    if not array(one, "command")[0]:
        yield DocumentFault(f"{at}/command/0", "must not be empty")
    for name in _STREAMS:
        if name in one:
            yield from _faults_of_path(f"{at}/{name}", string(one, name), root=name == "workdir")
    for name in mapping(one, "env"):
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
