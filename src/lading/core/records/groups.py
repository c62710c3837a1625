"""Rules of groups: projects own records, roles have members, filter groups show matching records.

* `group_class` is required and cannot change. Only projects own; roles belong to the system user.
* The name defaults to the uuid; names of projects and filter groups appear in paths, so `/`, `.`
and `..` are refused, and so are control characters.
* A manager freezes a project by writing their own uuid into `frozen_by_uuid`, and thaws it by null.
Nobody can write in a frozen project or below it; neither it nor a project above it can be trashed.
* Roles have no trash: they are deleted at once.

Source: docs/spec/api, sections Collections, Groups and Permissions.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from lading.core.errors import Forbidden, Invalid
from lading.core.records.permissions import Level
from lading.core.records.schema import JSON, Record


class GroupClass(StrEnum):
    """The classes of groups."""

    PROJECT = "project"
    ROLE = "role"
    FILTER = "filter"


_PARTS: Final = 3
# Control characters, surrogates, and line and paragraph separators.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")


def check(new: Record, old: Record | None, *, slashes: bool) -> None:
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
        check_name(new["name"], slashes=slashes)
    if group_class == GroupClass.FILTER:
        _check_shape(new["properties"].get("filters"))


def check_name(name: str | None, *, slashes: bool) -> None:
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
        raise frozen(new["uuid"])
    before, after = (old or {}).get("frozen_by_uuid"), new["frozen_by_uuid"] or None
    # "" means null.
    new["frozen_by_uuid"] = after
    if before == after:
        if before is not None:
            raise frozen(new["uuid"])
        return
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


def frozen(uuid: str) -> Forbidden:
    """The error for a write in a frozen project."""
    return Forbidden(f"Forbidden: {uuid} is in a frozen project; clear its frozen_by_uuid first")


def _check_shape(filters: JSON) -> None:
    fits = isinstance(filters, list) and all(
        isinstance(one, list) and len(one) == _PARTS for one in filters
    )
    if not fits:
        raise Invalid(
            "properties.filters: a filter group needs a list of [attribute, operator, operand]"
        )
