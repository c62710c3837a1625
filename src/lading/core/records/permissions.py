"""Permissions: levels of access, rules of groups, and conditions on rows that express access.

Levels follow from the graph of ownership and of permission links. Its nodes are users, groups, and
the heads of permission links; edges lead from a holder of access to its target:

    owner -> owned group          MANAGE
    tail  -> head of a link       can_read (can_login) READ, can_write WRITE, can_manage MANAGE

- The level of a path is the least level along it; the best path counts. A user has MANAGE on
  themselves.
- A path continues behind a group at any level, behind a user only with MANAGE.
- Tails of links are users and roles, so a path is: users and roles linked to each other
  (`subjects`), then one link or ownership, then down a tree of projects, where the level stays
  (`inherit`). The level of a user on a target is the best, over subjects, of the lesser of the two;
  the store keeps it in this form, which stays small.
- A project in the trash includes everything below it; so does a frozen one (`stand`).

Groups: projects own records, roles have members, filter groups show matching records.

- `group_class` is required and cannot change. Only projects own; roles belong to the system user.
- The name defaults to the uuid; names of projects and filter groups appear in paths, so `/`, `.`
  and `..` are refused, and so are control characters.
- A manager freezes a project by writing their own uuid into `frozen_by_uuid`, and thaws it by null.
  Nobody can write in a frozen project or below it; neither it nor a project above it can be
  trashed.
- Roles have no trash: they are deleted at once.

Conditions on rows are leaves of `filters.Expression` that clients cannot write. The store
translates them to joins with its permission tables.

Source: docs/spec/api, sections Records, Collections, Groups, Links and Permissions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final

from lading.core.errors import Forbidden, Invalid
from lading.core.ids import Infix, infix_of, is_group, is_user
from lading.core.records.schema import JSON, Record

CONTAINER_ACCESS: Final = "container_access"
"""Class of the links by which the user of a container lets the user at the tail into the containers
of the request, or into the container, at the head.
"""
CAN_ENTER: Final = "can_enter"
"""Name of such a link."""
HEADS: frozenset[str] = frozenset(
    {
        Infix.USER, Infix.GROUP, Infix.COLLECTION, Infix.REQUEST, Infix.WORKFLOW,
        Infix.CREDENTIAL, Infix.REPOSITORY, Infix.VIRTUAL_MACHINE,
    }
)  # fmt: skip
"""Infixes of records that can be shared by a link. Containers follow their requests, logs their
objects; tokens cannot be shared.
"""
# A filter is [attribute, operator, operand].
_PARTS: Final = 3
# Control characters, surrogates, and line and paragraph separators.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")


class Level(IntEnum):
    """Levels of access; each includes those below it."""

    NONE = 0
    READ = 1
    WRITE = 2
    MANAGE = 3


LEVELS: Mapping[str, Level] = MappingProxyType(
    {
        "can_read": Level.READ,
        "can_login": Level.READ,
        "can_write": Level.WRITE,
        "can_manage": Level.MANAGE,
    }
)
"""Level of a permission link by its name."""
NAMES: Mapping[int, str] = MappingProxyType(
    {Level.READ: "can_read", Level.WRITE: "can_write", Level.MANAGE: "can_manage"}
)
"""The name of each level."""


@dataclass(frozen=True, slots=True)
class GroupFlags:
    """Properties of a group from itself and from the projects above it: time of trashing, and
    whether it is frozen.
    """

    trash_at: str | None = None
    frozen: bool = False


def subjects(user: str, links: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """All users and roles on whose behalf a user has access, with the level that is left on the way
    there.

    `links` are the levels of links by tail and head; heads that are tails of nothing are harmless.
    """
    best: dict[str, int] = {user: Level.MANAGE}
    waiting = [user]
    # A node is visited again when a better level is found; levels are at most 3, so this ends.
    while waiting:
        tail = waiting.pop()
        for head, granted in links.get(tail, {}).items():
            # The weakest link of the way counts.
            level = min(granted, best[tail])
            # A user stands for another one only with can_manage.
            if level > best.get(head, Level.NONE) and (level == Level.MANAGE or not is_user(head)):
                best[head] = level
                waiting.append(head)
    return best


def inherit(
    nodes: Iterable[tuple[str, str]],
    links: Mapping[str, Mapping[str, int]],
    above: Mapping[str, Mapping[str, int]],
) -> dict[str, dict[str, int]]:
    """Levels of each subject on each group, by links and through its owners.

    `nodes` are (group, owner), owners first; `links` the levels of links by head and tail; `above`
    the levels of owners that are not among the nodes. An owning user has MANAGE.
    """
    inherited: dict[str, dict[str, int]] = {}
    for node, owner in nodes:
        levels = (
            {owner: int(Level.MANAGE)}
            if is_user(owner)
            # A copy, to which the links of this group are added.
            else dict(inherited.get(owner) or above.get(owner, {}))
        )
        for tail, level in links.get(node, {}).items():
            # A link adds to what is inherited, and never takes from it.
            levels[tail] = max(level, levels.get(tail, Level.NONE))
        inherited[node] = levels
    return inherited


def stand(own: GroupFlags, above: GroupFlags) -> GroupFlags:
    """Properties of a group from its own and its owner's."""
    # The earlier one: a project in the trash takes all below it along.
    times = [flags.trash_at for flags in (own, above) if flags.trash_at is not None]
    return GroupFlags(min(times, default=None), own.frozen or above.frozen)


def level_of(name: object) -> Level:
    """Level of a link of this name. Raises Invalid."""
    level = LEVELS.get(name) if isinstance(name, str) else None
    if level is None:
        raise Invalid("name: a permission link is called can_read, can_write or can_manage")
    return level


def check_ends(tail: object, head: object, *, tail_class: str | None) -> None:
    """Check the ends of a permission link from `tail`, of `tail_class` if it is a group, to `head`.
    Raises Invalid.
    """
    if not isinstance(tail, str) or not (
        is_user(tail) or (is_group(tail) and tail_class == "role")
    ):
        raise Invalid("tail_uuid: permissions are given to a user or to a role group")
    if not isinstance(head, str) or infix_of(head) not in HEADS:
        raise Invalid(
            "head_uuid: must be a user, a group, or a record with an owner; containers follow"
            " requests"
        )
    if tail == head:
        raise Invalid("head_uuid: is the tail as well")


def check_acyclic(uuid: str, owners: Iterable[str]) -> None:
    """Check that a group may be owned by the first of `owners`, which lists the new owner and those
    above it. Raises Invalid.
    """
    if uuid in owners:
        raise Invalid(f"owner_uuid: {uuid} would own itself, directly or through its contents")


class GroupClass(StrEnum):
    """The classes of groups."""

    PROJECT = "project"
    ROLE = "role"
    FILTER = "filter"


def check_group(new: Record, old: Record | None, *, slashes: bool) -> None:
    """Check the values of a group before they are stored. `slashes`: names may contain them. Raises
    Invalid.
    """
    group_class = new["group_class"]
    if group_class not in list(GroupClass):
        raise Invalid("group_class: must be project, role or filter")
    if old is not None and group_class != old["group_class"]:
        raise Invalid(f"group_class: cannot be changed; it is {old['group_class']}")
    new["name"] = new["name"] or new["uuid"]
    if group_class == GroupClass.ROLE:
        if new["trash_at"] is not None:
            raise Invalid("trash_at: a role has no trash; delete it")
    else:
        check_group_name(new["name"], slashes=slashes)
    if group_class == GroupClass.FILTER:
        _check_shape(new["properties"].get("filters"))


def check_group_name(name: str | None, *, slashes: bool) -> None:
    """Check that a name can be part of a path. Raises Invalid."""
    if name in (".", ".."):
        raise Invalid("name: cannot be '.' or '..'")
    if name and "/" in name and not slashes:
        raise Invalid("name: cannot contain a '/' character")
    if name and _CONTROL.search(name):
        raise Invalid(f"name: {name[:80]!r} contains a control character; take it out")


def check_freezing(
    new: Record, old: Record | None, *, user_uuid: str, level: int, frozen_above: bool
) -> None:
    """Check a write for the rules of frozen projects, including freezing and thawing.

    `level` is the writer's; `frozen_above`: a project above the group is frozen. Raises Forbidden,
    Invalid.
    """
    if frozen_above:
        raise frozen_refusal(new["uuid"])
    before, after = (old or {}).get("frozen_by_uuid"), new["frozen_by_uuid"] or None
    # "" means null.
    new["frozen_by_uuid"] = after
    if before == after:
        if before is not None:
            raise frozen_refusal(new["uuid"])
        return
    # Freezing and thawing are the only writes to a frozen project itself.
    if level < Level.MANAGE:
        raise Forbidden("Forbidden: frozen_by_uuid: needs can_manage of the project")
    if after is None:
        return
    if new["group_class"] != GroupClass.PROJECT:
        raise Invalid("frozen_by_uuid: only projects can be frozen")
    if after != user_uuid:
        raise Invalid(f"frozen_by_uuid: can only be set to your own uuid, {user_uuid}, or to null")
    if new["trash_at"] is not None:
        raise Invalid("frozen_by_uuid: a project on its way to the trash cannot be frozen")


def frozen_refusal(uuid: str) -> Forbidden:
    """The error for a write in a frozen project."""
    return Forbidden(f"Forbidden: {uuid} is in a frozen project; clear its frozen_by_uuid first")


def _check_shape(filters: JSON) -> None:
    fits = isinstance(filters, list) and all(
        isinstance(entry, list) and len(entry) == _PARTS for entry in filters
    )
    if not fits:
        raise Invalid(
            "properties.filters: a filter group needs a list of [attribute, operator, operand]"
        )


@dataclass(frozen=True, slots=True)
class Requested:
    """A container of a request that the user can read, outside the trash at the time `now`."""

    user_uuid: str
    now: str


@dataclass(frozen=True, slots=True)
class About:
    """A log row that the user can read: of the user's own doing, about the user, of a record that
    was then in a place whose records the user can read now, of a record that had been shared with
    the user by itself then, or about the container of a readable request.

    So a record that is moved or shared does not show its past to new readers. Rows about webhooks
    are for managers of the place, those about tokens for their user, as the records are.
    """

    user_uuid: str
    now: str


@dataclass(frozen=True, slots=True)
class FormerPlace:
    """A log row that tells of no former owner of its record, or of one whose records the user can
    read.
    """

    user_uuid: str


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
class NamesImage:
    """A link that names an image whose collection the user can read. The maker of the link can
    change that collection, or is an admin: nobody names the images of others for others.
    """

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
class Unfrozen:
    """The group or owner in a column is in no frozen project, and is none."""

    column: str


@dataclass(frozen=True, slots=True)
class Present:
    """The collection is no past version."""


@dataclass(frozen=True, slots=True)
class Inside:
    """The uuid in a column is one of an owner or, with `deep`, of a group below it."""

    column: str
    owner_uuid: str
    deep: bool = False
