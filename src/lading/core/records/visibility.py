"""Conditions on rows that express access rights: leaves of `filters.Expression` that clients cannot
write.

Their meaning is defined in `permissions` and `access`; the store translates them to joins with its
permission tables.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requested:
    """A container of a request that the user can read, outside the trash at the time `now`."""

    user_uuid: str
    now: str


@dataclass(frozen=True, slots=True)
class About:
    """A log row about a readable object: a record, or the container of a request."""

    user_uuid: str
    now: str


@dataclass(frozen=True, slots=True)
class Reachable:
    """The user has at least this level on the user or group in a column, or with `owning` on its
    owner.
    """

    user_uuid: str
    column: str
    level: int = 1
    owning: bool = False


@dataclass(frozen=True, slots=True)
class Accessible:
    """The user has a level on the record: through its owner, or because it was shared itself.

    `owners` and `shared` are the possible owners and records, None when there are too many to name;
    `dense`: so many rows match that scanning them in the order of the list is faster.
    """

    user_uuid: str
    owners: tuple[str, ...] | None = None
    shared: tuple[str, ...] | None = None
    dense: bool = False


@dataclass(frozen=True, slots=True)
class ManagedHead:
    """A link to a record that the user can manage: itself, or through its owner."""

    user_uuid: str


@dataclass(frozen=True, slots=True)
class Untrashed:
    """The group or owner in a column is not in the trash at the time `now`; with `frozen`, not
    trashed and frozen.
    """

    column: str
    now: str
    frozen: bool = False


@dataclass(frozen=True, slots=True)
class Present:
    """The collection is no past version."""


@dataclass(frozen=True, slots=True)
class Inside:
    """The uuid in a column is one of an owner or, with `deep`, of a group below it."""

    column: str
    owner_uuid: str
    deep: bool = False
