"""Conditions on requests and containers while cancellations are under way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.expressions import (
    All,
    Among,
    AmongFound,
    Column,
    Compare,
    Constant,
    Either,
    Expression,
    Like,
    Not,
    OfContainer,
    Outside,
)
from lading.core.records.pending_cancellations import (
    COMMITTED,
    QUEUED,
    PendingCancellation,
    View,
    before,
    show,
)
from lading.core.records.record_types import COLLECTIONS
from lading.core.records.schema import Record, RecordType, Type

STATE = Column("state", Type.STRING)
PRIORITY = Column("priority", Type.INTEGER)
NAMED = Compare(Column("name", Type.STRING), "=", "a")
ALL = View((PendingCancellation((), ("2025", "u"), ("2026", ""), ()),))
SOME = View((PendingCancellation((NAMED,), ("2025", "u"), ("2026", "")),))
POSITIVE = Compare(PRIORITY, ">", 0)


def covered(kind: RecordType) -> Expression:
    found = SOME.covered(kind)
    assert found is not None
    return found


def test_only_requests_and_containers_are_covered() -> None:
    assert SOME.covered(COLLECTIONS) is None
    assert SOME.heed(COLLECTIONS, (COMMITTED,)) == (COMMITTED,)


@pytest.mark.parametrize(
    ("part", "holds"),
    [
        (Compare(STATE, "=", "Final"), True),
        (Compare(STATE, "!=", "Committed"), True),
        (Compare(STATE, "=", None), False),
        (Compare(STATE, "!=", None), True),
        (Compare(PRIORITY, "<", 1), True),
        (Compare(PRIORITY, "<=", 0), True),
        (Compare(PRIORITY, ">=", 1), False),
        (POSITIVE, False),
        (Among(STATE, ("Final", "x")), True),
        (Among(STATE, ("Committed",)), False),
        (Among(STATE, ("Committed",), negated=True), True),
        (Like((STATE,), "Fin%"), False),
    ],
)
def test_conditions_on_shown_attributes_hold_for_what_is_shown(
    part: Expression, holds: bool
) -> None:
    (found,) = SOME.heed(REQUESTS, (part,))
    outside = Outside(covered(REQUESTS))
    assert found == (Either((part, covered(REQUESTS))) if holds else All((part, outside)))


def test_other_conditions_mean_what_is_stored() -> None:
    assert SOME.heed(REQUESTS, (NAMED,)) == (NAMED,)


def test_conditions_within_others_are_found() -> None:
    final = Compare(STATE, "=", "Final")
    (heeded,) = SOME.heed(REQUESTS, (final,))
    for wrap in (lambda one: Either((one, NAMED)), lambda one: All((one, NAMED)), Not):
        assert SOME.heed(REQUESTS, (wrap(final),)) == (wrap(heeded),)
    (of_container,) = SOME.heed(REQUESTS, (OfContainer(QUEUED),))
    assert of_container == OfContainer(All((QUEUED, Outside(covered(CONTAINERS)))))


def test_a_list_of_what_a_cancellation_means_uses_indexes() -> None:
    (found, *others) = SOME.heed(REQUESTS, (COMMITTED, NAMED))
    assert isinstance(found, AmongFound)
    assert others == [Outside(Outside(NAMED))]
    (found, *others) = ALL.heed(CONTAINERS, (QUEUED, POSITIVE))
    assert isinstance(found, AmongFound)
    assert others == [Outside(Outside(POSITIVE))]


@pytest.mark.parametrize(
    ("view", "kind", "where"),
    [
        (SOME, CONTAINERS, (QUEUED,)),
        (SOME, REQUESTS, (COMMITTED,)),
        (SOME, REQUESTS, (NAMED,)),
        (View((*ALL.pending, *ALL.pending)), REQUESTS, (COMMITTED,)),
        (ALL, CONTAINERS, (QUEUED,)),
    ],
)
def test_other_lists_do_not(view: View, kind: RecordType, where: tuple[Expression, ...]) -> None:
    assert not any(isinstance(one, AmongFound) for one in view.heed(kind, where))


def test_few_exceptions_are_found_by_their_uuids() -> None:
    view = View((replace(SOME.pending[0], exceptions=("x",)),))
    for kind, where in ((REQUESTS, (COMMITTED,)), (CONTAINERS, (QUEUED, POSITIVE))):
        (found, *_) = view.heed(kind, where)
        assert isinstance(found, AmongFound)
        exceptions = All((COMMITTED, Among(Column("uuid", Type.STRING), ("x",))))
        assert exceptions in found.parts


def test_the_queue_is_found_by_the_requests_that_are_left() -> None:
    (found, *_) = SOME.heed(CONTAINERS, (QUEUED, POSITIVE))
    others = All((COMMITTED, Outside(SOME.pending[0].meant)))
    assert found == AmongFound("uuid", "container_requests", "container_uuid", (others,))


def test_exceptions_are_those_that_do_not_meet_the_conditions() -> None:
    assert Outside(All((NAMED,))) in SOME.pending[0].excepted
    assert Constant(False) in ALL.pending[0].excepted


def test_a_position_divides_requests() -> None:
    assert len(before(("2026", "u"))) == 2


def test_a_covered_record_is_shown_as_it_will_be() -> None:
    row: Record = {"uuid": "u", "state": "Committed", "priority": 5}
    show(REQUESTS, row)
    assert row == {"uuid": "u", "state": "Final", "priority": 0}
    row = {"uuid": "u"}
    show(CONTAINERS, row)
    assert row == {"uuid": "u"}
