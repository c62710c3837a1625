"""Mounts of a request: their shape, and how they become the mounts of a container.

* A target is `stdin`, `stdout`, `stderr` or a canonical absolute path: no `.`, `..` or empty element, not `/` itself.
* Kinds: collection, tmp, json, text, file. `keep` and `git_tree` are refused by name (decisions.md has what they become).
* Keys that do not belong to a kind are accepted with a zero value only, since typed clients send every key.
* Resolving changes collections alone: the uuid goes, the portable data hash stays; with only a uuid it is looked up.
  So two spellings of one input are one container (api-contract 3.2). Collections named in either way must be readable.

Source: api-contract 3.1, 3.2; seed 002, "Mount types".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lading.core.jsonvalue import Json, JsonObject


class Kind(StrEnum):
    """The kinds of mount that are offered."""

    COLLECTION = "collection"
    TMP = "tmp"
    FILE = "file"
    JSON = "json"
    TEXT = "text"


STREAMS = ("stdin", "stdout", "stderr")


@dataclass(frozen=True, slots=True)
class Reference:
    """A collection that a mount names: `name` is a portable data hash (no hints, no path) or a uuid."""

    target: str
    name: str
    is_pdh: bool


def validate(mounts: Mapping[str, Json], secret_mounts: Mapping[str, Json], output_path: str) -> None:
    """Check both mount tables and that `output_path` is a mount. Raises Invalid "[target][key]: fault"."""
    raise NotImplementedError


def references(mounts: Mapping[str, Json]) -> tuple[Reference, ...]:
    """The collections to look up before `resolve`. The hash wins over the uuid, which is then not looked up."""
    raise NotImplementedError


def resolve(mounts: Mapping[str, Json], hashes: Mapping[str, str | None]) -> JsonObject:
    """The mounts of the container, keys sorted.

    `hashes` gives for every `Reference.name` the portable data hash of a collection that the user can read, or None.
    Raises Invalid 'cannot mount collection "x": not found'.
    """
    raise NotImplementedError


def same_spelling(old: Mapping[str, Json], new: Mapping[str, Json]) -> bool:
    """Whether `new` is `old` with nothing but additional zero values (ignored on a Committed request, api-contract 1.1)."""
    raise NotImplementedError
