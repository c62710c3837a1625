"""SQL of permissions: the join of a user's memberships with the grants of these subjects.

`permissions` maintains the tables. Conditions have one placeholder, the user.
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from typing import Final

from lading.core.records.permissions import NAMES

# Both conditions of the join are indexed: memberships by user, grants by subject and target.
JOINED: Final = "memberships m JOIN grants g ON g.subject_uuid = m.subject_uuid"
# A user reaches a target with the lesser of the levels of the two steps.
LESSER: Final = "CASE WHEN m.level < g.level THEN m.level ELSE g.level END"
_NAMED: Final = " ".join(f"WHEN {int(level)} THEN '{name}'" for level, name in NAMES.items())
COMPUTED: Final = (
    f"(SELECT m.user_uuid, g.target_uuid, CASE max({LESSER}) {_NAMED} END AS perm_level"
    f" FROM {JOINED} GROUP BY m.user_uuid, g.target_uuid) computed_permissions"
)
"""SQL table of the levels of all users on users, groups and shared records."""


def reaches(column: str, level: int, *, owning: bool = False) -> str:
    """SQL condition: the user has a level on the uuid in `column`, or on the records that it
    owns.
    """
    passing = " AND g.owning = 1" if owning else ""
    return (
        f"EXISTS (SELECT 1 FROM {JOINED} WHERE m.user_uuid = ? AND g.target_uuid = {column}"
        f" AND m.level >= {level} AND g.level >= {level}{passing})"
    )


def reached(*, owning: bool) -> str:
    """SQL query of the uuids on which the user has a level; with `owning`, only those that include
    owned records.
    """
    passing = " AND g.owning = 1" if owning else ""
    return f"SELECT g.target_uuid FROM {JOINED} WHERE m.user_uuid = ?{passing}"
