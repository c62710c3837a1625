"""Parts of record types."""

from __future__ import annotations

from lading.core.records import schema as parts
from lading.core.records.schema import Scope, Type


def test_fields_of_each_kind() -> None:
    assert [
        one.type for one in (parts.text("a"), parts.flag("a"), parts.number("a"), parts.money("a"))
    ] == [
        Type.STRING,
        Type.BOOLEAN,
        Type.INTEGER,
        Type.FLOAT,
    ]
    assert (parts.number("a").null, parts.number("a", default=None).null) == (False, True)
    assert parts.sequence("a").default == []
    assert parts.sequence("a", default=["b"]).default == ["b"]
    sealed = parts.mapping("a", sealed=True)
    assert (sealed.sealed, sealed.hidden) == (True, True)
    assert (parts.derived("a").stored, parts.moment("a").type) == (False, Type.TIME)


def test_actions_on_one_and_on_all() -> None:
    one = parts.member("trash")
    assert (one.scope, one.path, one.method, len(one.parameters)) == (
        Scope.MEMBER,
        "trash",
        "POST",
        1,
    )
    told = parts.member("why", "GET", answer="object", path="x")
    assert (told.path, told.parameters) == ("x", ())
    assert parts.general("current", "GET", "This one.").scope is Scope.COLLECTION


def test_satisfy_is_for_create_and_update() -> None:
    wider = {
        one.name: [made.name for made in one.parameters] for one in parts.satisfiable(parts.CRUD)
    }
    assert [name for name, given in wider.items() if "satisfy" in given] == ["create", "update"]
