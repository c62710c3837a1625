"""Levels of access, from the graph of ownership and of permission links.

Nodes are users, groups, and the heads of permission links. Edges lead from a holder of access to
its target:

    owner -> owned group          MANAGE
    tail  -> head of a link       can_read (can_login) READ, can_write WRITE, can_manage MANAGE

* The level of a path is the least level along it; the best path counts. A user has MANAGE on
themselves.
* A path continues behind a group at any level, behind a user only with MANAGE.
* Tails of links are users and roles, so a path is: users and roles linked to each other
(`subjects`), then one link or ownership, then down a tree of projects, where the level stays
(`inherit`). The level of a user on a target is the best, over subjects, of the lesser of the two;
the store keeps it in this form, which stays small.
* A project in the trash includes everything below it; so does a frozen one (`stand`).

Source: docs/spec/api, sections Records, Groups, Links and Permissions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

from lading.core.errors import Invalid
from lading.core.ids import Infix, infix_of


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
HEADS: frozenset[str] = frozenset(
    {
        Infix.USER, Infix.GROUP, Infix.COLLECTION, Infix.REQUEST, Infix.WORKFLOW,
        Infix.CREDENTIAL, Infix.REPOSITORY, Infix.VIRTUAL_MACHINE,
    }
)  # fmt: skip
"""Infixes of records that can be shared by a link. Containers follow their requests, logs their
objects; tokens cannot be shared.
"""


@dataclass(frozen=True, slots=True)
class GroupFlags:
    """Properties of a group from itself and from the projects above it: time of trashing, and
    whether it is frozen.
    """

    trash_at: str | None = None
    frozen: bool = False


def is_user(uuid: str) -> bool:
    """Whether a uuid is one of a user."""
    return infix_of(uuid) == Infix.USER


def is_group(uuid: str) -> bool:
    """Whether a uuid is one of a group."""
    return infix_of(uuid) == Infix.GROUP


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
        for head, given in links.get(tail, {}).items():
            level = min(given, best[tail])
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
    found: dict[str, dict[str, int]] = {}
    for node, owner in nodes:
        levels = (
            {owner: int(Level.MANAGE)}
            if is_user(owner)
            else dict(found.get(owner) or above.get(owner, {}))
        )
        for tail, level in links.get(node, {}).items():
            levels[tail] = max(level, levels.get(tail, Level.NONE))
        found[node] = levels
    return found


def stand(own: GroupFlags, above: GroupFlags) -> GroupFlags:
    """Properties of a group from its own and its owner's."""
    times = [one.trash_at for one in (own, above) if one.trash_at is not None]
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
            "head_uuid: must be a user, a group, or a record that somebody owns; "
            "containers follow requests"
        )
    if tail == head:
        raise Invalid("head_uuid: is the tail as well")


def check_acyclic(uuid: str, owners: Iterable[str]) -> None:
    """Check that a group may be owned by the first of `owners`, which lists the new owner and those
    above it. Raises Invalid.
    """
    if uuid in owners:
        raise Invalid(f"owner_uuid: {uuid} would own itself, directly or through what it owns")
