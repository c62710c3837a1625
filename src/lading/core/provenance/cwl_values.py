"""Values of CWL parameters: the files in them, and the same values with files of a bag.

Source: https://www.commonwl.org/v1.2/CommandLineTool.html, types File and Directory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

_OF_A_MACHINE: Final = frozenset({"path", "dirname", "contents"})
_KEEP: Final = "keep:"
_FILE: Final = "File"
_DIRECTORY: Final = "Directory"


class StoredFile(NamedTuple):
    """A file of a bag: SHA-1 of its content in hex digits, size in bytes."""

    sha1: str
    size: int


Stored = Mapping[str, StoredFile | Mapping[str, StoredFile]]
"""Content at a location: a file, or the files of a directory by their paths."""


def data_path(sha1: str) -> str:
    """Path in the bag of a content."""
    return f"data/{sha1[:2]}/{sha1}"


def located(value: Any, base: str) -> Any:
    """The value with locations relative to `base`, as `cwl.output.json` has them, made whole."""
    if isinstance(value, list):
        return [located(item, base) for item in value]
    if not isinstance(value, Mapping):
        return value
    resolved = {name: located(member, base) for name, member in value.items()}
    location = value.get("location")
    if (
        value.get("class") in (_FILE, _DIRECTORY)
        and isinstance(location, str)
        and ":" not in location
    ):
        resolved["location"] = f"{base}/{location}"
    return resolved


def locations(value: Any) -> Iterator[str]:
    """The locations in collections of files and directories."""
    for entry in _files(value):
        location = entry.get("location")
        if isinstance(location, str) and location.startswith(_KEEP):
            # The listing of a directory names files in the same collection.
            yield location


def literals(value: Any) -> Iterator[bytes]:
    """The contents of files that the value has in itself."""
    for entry in _files(value):
        if _is_literal(entry):
            yield _contents(entry)


def placed(value: Any, stored: Stored) -> Any:
    """The value with the files of the bag, relative to its directory `workflow`. A file that is not
    stored keeps its location.
    """
    if isinstance(value, list):
        return [placed(item, stored) for item in value]
    if not isinstance(value, Mapping):
        return value
    if value.get("class") not in (_FILE, _DIRECTORY):
        return {name: placed(member, stored) for name, member in value.items()}
    return _placed_entry(value, stored)


def _placed_entry(value: Mapping[str, Any], stored: Stored) -> dict[str, Any]:
    """`placed` for a value of class File or Directory."""
    portable = {name: member for name, member in value.items() if name not in _OF_A_MACHINE}
    if "secondaryFiles" in portable:
        portable["secondaryFiles"] = placed(portable["secondaryFiles"], stored)
    content = stored.get(str(value.get("location")))
    if value["class"] == _FILE:
        content = _literal_file(value) if _is_literal(value) else content
        return portable | (_file(content) if isinstance(content, StoredFile) else {})
    if isinstance(content, Mapping):
        portable.pop("location", None)
        return {**portable, "listing": _listing(content)}
    return (
        {**portable, "listing": placed(portable["listing"], stored)}
        if "listing" in portable
        else portable
    )


def _literal_file(value: Mapping[str, Any]) -> StoredFile:
    """The file of the bag with the content that a value has in itself."""
    text = _contents(value)
    return StoredFile(hashlib.sha1(text, usedforsecurity=False).hexdigest(), len(text))


def _files(value: Any) -> Iterator[Mapping[str, Any]]:
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, Mapping):
            if node.get("class") in (_FILE, _DIRECTORY):
                yield node
            waiting += node.values()


def _is_literal(file: Mapping[str, Any]) -> bool:
    told = file.get("location")
    has_place = isinstance(told, str) and not told.startswith("_:")
    return file.get("class") == _FILE and isinstance(file.get("contents"), str) and not has_place


def _contents(file: Mapping[str, Any]) -> bytes:
    return str(file["contents"]).encode("utf-8", "surrogatepass")


def _file(file: StoredFile) -> dict[str, Any]:
    return {
        "location": f"../{data_path(file.sha1)}",
        "checksum": f"sha1${file.sha1}",
        "size": file.size,
    }


def _listing(files: Mapping[str, StoredFile]) -> list[dict[str, Any]]:
    """The files and directories of a directory, with all that is in them."""
    listing: list[dict[str, Any]] = []
    below: dict[str, dict[str, StoredFile]] = {}
    for path, file in sorted(files.items()):
        name, _, remainder = path.partition("/")
        if remainder:
            below.setdefault(name, {})[remainder] = file
        else:
            listing.append({"class": _FILE, "basename": name, **_file(file)})
    listing += [
        {"class": _DIRECTORY, "basename": name, "listing": _listing(some)}
        for name, some in below.items()
    ]
    return listing
