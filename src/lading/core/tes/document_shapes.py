"""Shapes of documents: types of values, with the JSON pointer (RFC 6901) of each fault."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from lading.core.values import Json, JsonObject

MOST_ENTRIES = 10_000
"""Entries of an array of a task, but for those of a command."""
MOST_FAULTS = 100
"""Faults that a refusal names; a document may have millions."""


@dataclass(frozen=True, slots=True)
class DocumentFault:
    """One fault: the JSON pointer of the value, and what is wrong with it."""

    pointer: str
    message: str


Shape: TypeAlias = Callable[[Json, str, list[DocumentFault]], Json]
"""Checks a value that is not null: appends faults, returns the value to keep."""


def pointer(*names: str | int) -> str:
    """The JSON pointer of a path of names."""
    return "".join("/" + str(name).replace("~", "~0").replace("/", "~1") for name in names)


def objects(document: Mapping[str, Json], name: str) -> list[JsonObject]:
    """The objects of an array of a checked document; none if it is absent."""
    return [item for item in array(document, name) if isinstance(item, dict)]


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


def text_shape(value: Json, at: str, faults: list[DocumentFault]) -> Json:
    """A text without NUL."""
    if not isinstance(value, str):
        faults.append(DocumentFault(at, "must be a string"))
    elif "\0" in value:
        faults.append(DocumentFault(at, "must not contain NUL"))
    return value


def flag_shape(value: Json, at: str, faults: list[DocumentFault]) -> Json:
    """True or false."""
    if not isinstance(value, bool):
        faults.append(DocumentFault(at, "must be true or false"))
    return value


def amount_shape(*, is_whole: bool) -> Shape:
    """A number from 0 to below 2^31, a `is_whole` one or not."""

    def check(value: Json, at: str, faults: list[DocumentFault]) -> Json:
        # bool is a subclass of int.
        if isinstance(value, int | float) and not isinstance(value, bool):
            number: float = value
        else:
            number = math.nan
        # Far below a 64-bit number of bytes. NaN and infinity are not in the range. Clients in Go
        # and in Java send 0 for a number that nobody has set.
        if not 0 <= number < 1 << 31 or (is_whole and not isinstance(number, int)):
            what = "whole number" if is_whole else "number"
            faults.append(DocumentFault(at, f"must be a {what} above 0, or 0 for the default"))
        return value

    return check


def texts_shape(value: Json, at: str, faults: list[DocumentFault]) -> Json:
    """An object of texts; entries that are null are left out."""
    if not isinstance(value, dict):
        faults.append(DocumentFault(at, "must be an object of strings"))
        return value
    texts: JsonObject = {}
    for name, member in value.items():
        if member is not None:
            texts[name] = text_shape(member, at + pointer(name), faults)
        if len(faults) >= MOST_FAULTS:
            break
    return texts


def array_shape(shape: Shape, *, least: int = 0, most: int = MOST_ENTRIES) -> Shape:
    """An array of `least` to `most` values of a shape."""

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
        for number, item in enumerate(value):
            found.append(shape(item, f"{at}/{number}", faults))
            if len(faults) >= MOST_FAULTS:
                break
        return found

    return check


def object_shape(shapes: Mapping[str, Shape], *required: str) -> Shape:
    """An object with values of these shapes; further ones are left out. A `required` value
    that is absent or empty is a fault.
    """

    def check(value: Json, at: str, faults: list[DocumentFault]) -> Json:
        if not isinstance(value, dict):
            faults.append(DocumentFault(at, "must be an object"))
            return value
        members: JsonObject = {}
        for name, shape in shapes.items():
            member = value.get(name)
            if member is not None:
                members[name] = shape(member, f"{at}/{name}", faults)
        for name in required:
            if members.get(name, "") == "":
                faults.append(DocumentFault(f"{at}/{name}", "is missing"))
        return members

    return check
