from __future__ import annotations

from lading.core.records import record_actions
from lading.core.records.schema import Scope


def test_actions_on_one_and_on_all() -> None:
    one = record_actions.member("trash")
    assert (one.scope, one.path, one.method, len(one.parameters)) == (
        Scope.MEMBER,
        "trash",
        "POST",
        1,
    )
    told = record_actions.member("why", "GET", answer="object", path="x")
    assert (told.path, told.parameters) == ("x", ())
    assert record_actions.general("current", "GET", "This one.").scope is Scope.COLLECTION


def test_satisfy_is_for_create_and_update() -> None:
    wider = {
        one.name: [made.name for made in one.parameters]
        for one in record_actions.satisfiable(record_actions.CRUD)
    }
    assert [name for name, given in wider.items() if "satisfy" in given] == ["create", "update"]
