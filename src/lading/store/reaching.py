"""The join behind every permission, as text: a user's memberships and what is granted to what the user is a member of.

The rows are kept by `permissions`; conditions have one placeholder, the user.
"""

from __future__ import annotations

from typing import Final

from lading.core.permissions import NAMES

JOINED: Final = "memberships m JOIN grants g ON g.subject_uuid = m.subject_uuid"
LESSER: Final = "CASE WHEN m.level < g.level THEN m.level ELSE g.level END"
_NAMED: Final = " ".join(f"WHEN {int(level)} THEN '{name}'" for level, name in NAMES.items())
COMPUTED: Final = (
    f"(SELECT m.user_uuid, g.target_uuid, CASE max({LESSER}) {_NAMED} END AS perm_level"  # noqa: S608
    f" FROM {JOINED} GROUP BY m.user_uuid, g.target_uuid) computed_permissions"
)
"""The table of everybody's levels on users, groups and shared records."""


def reaches(column: str, level: int, *, owning: bool = False) -> str:
    """The condition that the user has a level on the uuid in `column`, or on what that owns."""
    passing = " AND g.owning = 1" if owning else ""
    return (
        f"EXISTS (SELECT 1 FROM {JOINED} WHERE m.user_uuid = ? AND g.target_uuid = {column}"  # noqa: S608
        f" AND m.level >= {level} AND g.level >= {level}{passing})"
    )


def reached(*, owning: bool) -> str:
    """The query of the uuids that the user has a level on; with `owning`, of those whose records follow."""
    passing = " AND g.owning = 1" if owning else ""
    return f"SELECT g.target_uuid FROM {JOINED} WHERE m.user_uuid = ?{passing}"  # noqa: S608
