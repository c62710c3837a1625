"""Levels: what the pieces amount to, against a search of every path; and what may be linked to
what.
"""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import Invalid
from lading.core.records import permissions
from lading.core.records.permissions import GroupFlags, Level, inherit, stand, subjects
from tests.permission_levels import search

USERS = [f"zzzzz-tpzed-{number:015}" for number in range(4)]
ROLES = [f"zzzzz-j7d0g-00000000000role{number}" for number in range(3)]
PROJECTS = [f"zzzzz-j7d0g-0000000project{number}" for number in range(5)]
Links = dict[tuple[str, str], int]
Levels = dict[str, int]

links_between = st.dictionaries(
    st.tuples(st.sampled_from(USERS + ROLES), st.sampled_from(USERS + ROLES + PROJECTS)).filter(
        lambda e: e[0] != e[1]
    ),
    st.sampled_from([1, 2, 3]),
    max_size=12,
)


@st.composite
def owners_of(draw: st.DrawFn) -> dict[str, str]:
    """Each project below a user or an earlier project."""
    return {
        project: draw(st.sampled_from(USERS + PROJECTS[:number]))
        for number, project in enumerate(PROJECTS)
    }


def composed(user: str, owners: dict[str, str], links: Links) -> Levels:
    """The level of a user on everything, from the pieces as the store keeps them."""
    by_tail: dict[str, Levels] = defaultdict(dict)
    by_head: dict[str, Levels] = defaultdict(dict)
    for (tail, head), level in links.items():
        by_head[head][tail] = level
        if head not in PROJECTS:
            by_tail[tail][head] = level
    granted = inherit(owners.items(), by_head, {}) | {node: by_head[node] for node in USERS + ROLES}
    reached = subjects(user, by_tail)
    found: Levels = {user: 3}
    for node, levels in granted.items():
        best = max(
            (min(reached[tail], level) for tail, level in levels.items() if tail in reached),
            default=0,
        )
        if best:
            found[node] = max(best, found.get(node, 0))
    return found


@given(owners_of(), links_between)
def test_the_pieces_find_what_a_search_finds(owners: dict[str, str], links: Links) -> None:
    for user in USERS:
        assert composed(user, owners, links) == search(user, owners, links)


@given(
    owners_of(),
    links_between,
    st.sampled_from(USERS + ROLES),
    st.sampled_from(USERS + ROLES + PROJECTS),
)
def test_another_link_takes_nothing_away(
    owners: dict[str, str], links: Links, tail: str, head: str
) -> None:
    more = {**links, (tail, head): 3} if tail != head else links
    for user in USERS:
        before, after = composed(user, owners, links), composed(user, owners, more)
        assert all(after[node] >= level for node, level in before.items())


@given(owners_of(), links_between)
def test_users_manage_themselves_and_what_they_own(owners: dict[str, str], links: Links) -> None:
    for user in USERS:
        found = composed(user, owners, links)
        assert found[user] == 3
        assert all(found[owned] == 3 for owned, owner in owners.items() if owner == user)


@given(owners_of(), st.sets(st.sampled_from(PROJECTS)), st.sets(st.sampled_from(PROJECTS)))
def test_trash_and_frost_reach_down(
    owners: dict[str, str], trashed: set[str], frozen: set[str]
) -> None:
    standing: dict[str, GroupFlags] = {}
    for node, owner in owners.items():
        own = GroupFlags(f"t{PROJECTS.index(node)}" if node in trashed else None, node in frozen)
        standing[node] = stand(own, standing.get(owner, GroupFlags()))
    for node in PROJECTS:
        above = [node]
        while owners[above[-1]] in owners:
            above.append(owners[above[-1]])
        assert standing[node].frozen is bool(frozen & set(above))
        assert standing[node].trash_at == min(
            (f"t{PROJECTS.index(one)}" for one in trashed & set(above)), default=None
        )


def test_behind_a_user_only_managers_go_on() -> None:
    alice, bob, _, _ = USERS
    role = ROLES[0]
    for level, expected in ((3, {alice: 3, bob: 3, role: 2}), (2, {alice: 3})):
        assert subjects(alice, {alice: {bob: level}, bob: {role: 2}}) == expected


@pytest.mark.parametrize(
    ("name", "level"), [("can_read", 1), ("can_login", 1), ("can_write", 2), ("can_manage", 3)]
)
def test_names_of_levels(name: str, level: int) -> None:
    assert permissions.level_of(name) is Level(level)


@pytest.mark.parametrize("name", ["", None, 3, "can_fly"])
def test_other_names_are_refused(name: object) -> None:
    with pytest.raises(Invalid, match="name: a permission link"):
        permissions.level_of(name)


def test_ends_of_links() -> None:
    user, role, project = USERS[0], ROLES[0], PROJECTS[0]
    for tail, tail_class in ((user, None), (role, "role")):
        permissions.check_ends(tail, project, tail_class=tail_class)
    for bad, bad_class in (
        (project, "project"),
        (project, None),
        (None, None),
        ("zzzzz-4zz18-x", None),
    ):
        with pytest.raises(Invalid, match="tail_uuid"):
            permissions.check_ends(bad, user, tail_class=bad_class)
    for head in (None, "zzzzz-dz642-000000000000000", "zzzzz-o0j2j-000000000000000", user):
        with pytest.raises(Invalid, match="head_uuid"):
            permissions.check_ends(user, head, tail_class=None)


def test_nothing_owns_itself() -> None:
    permissions.check_acyclic("a", ["b", "c"])
    with pytest.raises(Invalid, match="would own itself"):
        permissions.check_acyclic("a", ["b", "a"])
