"""Kinds of the subjects of quotas, in the words of people: user, project, role or request."""

from __future__ import annotations

from collections.abc import Sequence

from lading.client.api import ApiClient, Record
from lading.core.policy.descriptions import is_of_group, kind_text

# Uuids in one call.
_BATCH = 200


async def subject_kinds(api: ApiClient, quotas: Sequence[Record]) -> list[str]:
    """The kind of the subject of each quota; "project or role" for one that this token may not
    read.
    """
    uuids = sorted({one["subject_uuid"] for one in quotas if is_of_group(one)})
    classes: dict[str, str] = {}
    for start in range(0, len(uuids), _BATCH):
        batch = uuids[start : start + _BATCH]
        select = ["uuid", "group_class"]
        found = await api.list(
            "groups", filters=[["uuid", "in", batch]], select=select, limit=_BATCH
        )
        classes |= {one["uuid"]: str(one["group_class"] or "") for one in found}
    return [kind_text(one, classes.get(one["subject_uuid"], "")) for one in quotas]
