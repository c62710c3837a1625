"""Leases of dispatchers' tokens."""

from __future__ import annotations

import pytest

from lading.core.errors import Invalid
from lading.core.quantities import later
from lading.core.scheduling import leases
from lading.core.scheduling.leases import Lease
from tests.records import NOW

FIRST = Lease("a:/x", NOW, "process-1")


def test_what_a_report_asks_for() -> None:
    assert leases.read("a:/x", "process-1", now=NOW) == FIRST
    assert leases.read("a:/x", None, now=NOW) == Lease("a:/x", NOW)
    for holder, id in (("", None), (5, None), ("x" * 5000, None), ("a\0", None), ("a", "b c")):
        with pytest.raises(Invalid):
            leases.read(holder, id, now=NOW)


@pytest.mark.parametrize(
    ("stored", "holder", "id", "seconds", "may"),
    [
        (FIRST, "a:/x", "process-1", 1, True),
        (FIRST, "b:/y", "process-2", 30, False),
        (FIRST, "b:/y", "process-2", 31, True),
        (FIRST, "a:/x", "process-2", 1, True),
        (FIRST, "b:/y", "", 30, False),
        (Lease("a:/x", NOW), "a:/x", "", 1, True),
        (Lease("a:/x", NOW), "b:/y", "process-2", 180, False),
        (Lease("a:/x", NOW), "b:/y", "process-2", 181, True),
    ],
)
def test_who_may_take_a_lease(stored: Lease, holder: str, id: str, seconds: int, may: bool) -> None:
    assert leases.may_take(stored, Lease(holder, later(NOW, seconds), id)) is may


def test_a_process_that_was_replaced_does_not_take_the_lease_back() -> None:
    """Also by another machine of the same name, and when the lease has expired."""
    own, other = Lease("a:/x", NOW, "process-1"), Lease("a:/x", NOW, "process-2")
    for seconds in (1, 31):
        renewed = Lease("a:/x", later(NOW, seconds), "process-1")
        assert leases.may_take(own, renewed, renews=True)
        assert not leases.may_take(other, renewed, renews=True)
        assert leases.may_take(other, renewed)


def test_the_refusal_names_the_other() -> None:
    assert f"this token: a:/x, heard of at {NOW}" in leases.refusal(FIRST)
