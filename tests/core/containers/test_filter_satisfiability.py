"""Whether a new container could ever meet filters."""

from __future__ import annotations

import pytest

from lading.core.containers import reuse
from lading.core.records.container_types import CONTAINERS
from lading.core.records.filters import check_filters
from lading.core.values import Json
from tests.records import NOW, make_container

FRESH = {**make_container().to_record(), "uuid": ""}
EARLIER, LATER = "2015-07-01T00:00:01Z", "2027-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("triple", "possible"),
    [
        (["created_at", "<", EARLIER], False),
        (["created_at", "<=", LATER], True),
        (["created_at", ">", EARLIER], True),
        (["created_at", ">=", LATER], False),
        (["created_at", "=", NOW], True),
        (["created_at", "<", NOW], False),
        (["uuid", "=", "zzzzz-dz642-000000000000001"], False),
        (["uuid", "!=", "zzzzz-dz642-000000000000001"], True),
        (["uuid", "in", ["zzzzz-dz642-000000000000001"]], False),
        (["uuid", "not in", ["zzzzz-dz642-000000000000001"]], True),
        (["runtime_user_uuid", "in", [None]], False),
        (["state", "=", "Complete"], False),
        (["state", "in", ["Running", "Complete"]], False),
        (["state", "in", ["Queued", "Complete"]], True),
        (["state", "!=", "Cancelled"], True),
        (["state", "like", "Comp%"], True),
        (["exit_code", "=", 0], False),
        (["exit_code", "<", 1], False),
        (["exit_code", "in", [0, 1]], False),
        (["exit_code", "not in", [1]], True),
        (["finished_at", "<", LATER], False),
        (["output", "!=", None], False),
        (["cost", ">=", 0], True),
        (["cost", ">", 0], False),
        (["priority", ">", 500], True),
        (["(started_at < finished_at)", "=", True], False),
        (["(created_at >= created_at)", "=", True], True),
        (["(created_at != finished_at)", "=", True], True),
        (["locked_by_uuid", "is_a", "arvados#apiClientAuthorization"], False),
        (["owner_uuid", "is_a", "arvados#user"], True),
        (["any", "=", "x"], True),
        ([["uuid", "cwd"], "=", "/tmp"], False),
        ([["uuid", "log"], "=", "/tmp"], False),
        (["uuid", "is_a", "arvados#container"], True),
        (["uuid", "is_a", "arvados#user"], False),
        (["environment.A", "=", "x"], True),
    ],
)
def test_prospects(triple: Json, possible: bool) -> None:
    assert reuse.can_meet(check_filters([triple], CONTAINERS), FRESH) is possible


def test_null_is_neither_before_nor_after() -> None:
    without = {**FRESH, "runtime_user_uuid": None}
    assert not reuse.can_meet(check_filters([["runtime_user_uuid", "<", "x"]], CONTAINERS), without)
    assert reuse.can_meet(check_filters([["runtime_user_uuid", "=", None]], CONTAINERS), without)
    assert reuse.can_meet(check_filters([["runtime_user_uuid", "in", [None]]], CONTAINERS), without)
