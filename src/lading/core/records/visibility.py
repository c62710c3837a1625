"""Conditions on rows that say who may see them: the leaves of `filters.Expression` that clients
cannot write.

What they mean stands in `permissions` and `access`; the store writes them down as joins with what
it keeps ready.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requested:
    """A container that a request points at which the user can read, outside the trash at the time
    `now`.
    """

    user_uuid: str
    now: str


@dataclass(frozen=True, slots=True)
class About:
    """A log row about something that the user can read: the object, or the container of a
    request.
    """

    user_uuid: str
    now: str


@dataclass(frozen=True, slots=True)
class Reachable:
    """The user has at least this level on the user or group in a column, or with `owning` on what
    that owns.
    """

    user_uuid: str
    column: str
    level: int = 1
    owning: bool = False


@dataclass(frozen=True, slots=True)
class Accessible:
    """The user has a level on the record: through its owner, or because it was shared itself.

    `owners` and `shared` are the owners and records that come into question, None where there are
    too many to name; `dense`: so many rows meet it that it is better to look at them in the order
    of the list.
    """

    user_uuid: str
    owners: tuple[str, ...] | None = None
    shared: tuple[str, ...] | None = None
    dense: bool = False


@dataclass(frozen=True, slots=True)
class ManagedHead:
    """A link to something that the user can manage: itself, or through its owner."""

    user_uuid: str


@dataclass(frozen=True, slots=True)
class Untrashed:
    """The group or owner in a column is not in the trash at the time `now`; with `frozen`, not
    there and frozen.
    """

    column: str
    now: str
    frozen: bool = False


@dataclass(frozen=True, slots=True)
class Present:
    """The collection is no past version of another one."""


@dataclass(frozen=True, slots=True)
class Inside:
    """The uuid in a column is that of an owner or, with `deep`, of a group below it."""

    column: str
    owner_uuid: str
    deep: bool = False
