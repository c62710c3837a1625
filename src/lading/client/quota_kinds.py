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
    uuids = sorted({quota["subject_uuid"] for quota in quotas if is_of_group(quota)})
    classes: dict[str, str] = {}
    for start in range(0, len(uuids), _BATCH):
        batch = uuids[start : start + _BATCH]
        select = ["uuid", "group_class"]
        groups = await api.list(
            "groups", filters=[["uuid", "in", batch]], select=select, limit=_BATCH
        )
        classes |= {group["uuid"]: str(group["group_class"] or "") for group in groups}
    return [kind_text(quota, classes.get(quota["subject_uuid"], "")) for quota in quotas]
