"""Parts of record types."""

from __future__ import annotations

from lading.core.records import schema as parts
from lading.core.records.schema import Type


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
