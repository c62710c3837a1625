"""When things are trashed and deleted."""

from __future__ import annotations

import pytest

from lading.core.errors import Invalid
from lading.core.quantities import later
from lading.core.records.collection_rules import Lifetimes, is_trashed, shortened, times
from lading.core.records.schema import Record

NOW = "2026-01-02T00:00:00.000000000Z"
TOMORROW = "2026-01-03T00:00:00.000000000Z"
YESTERDAY = "2026-01-01T00:00:00.000000000Z"
LIVES = Lifetimes(usual=2 * 86400, least=86400)
PRESENT: Record = {"trash_at": None, "delete_at": None, "is_trashed": False}
TRASHED: Record = {"trash_at": YESTERDAY, "delete_at": TOMORROW, "is_trashed": True}


@pytest.mark.parametrize(
    ("old", "given", "expected"),
    [
        (PRESENT, {"name": "x"}, None),
        (PRESENT, {"is_trashed": True}, (NOW, later(NOW, 2 * 86400), True)),
        (PRESENT, {"is_trashed": False}, (None, None, False)),
        (PRESENT, {"trash_at": TOMORROW}, (TOMORROW, later(TOMORROW, 2 * 86400), False)),
        (PRESENT, {"trash_at": YESTERDAY}, (NOW, later(NOW, 2 * 86400), True)),
        (PRESENT, {"trash_at": TOMORROW, "delete_at": TOMORROW}, (TOMORROW, TOMORROW, False)),
        (TRASHED, {"is_trashed": False}, (None, None, False)),
        (TRASHED, {"trash_at": None}, (None, None, False)),
        (TRASHED, {"is_trashed": True}, (YESTERDAY, TOMORROW, True)),
        (TRASHED, {"delete_at": YESTERDAY}, (YESTERDAY, later(YESTERDAY, 86400), True)),
    ],
)
def test_times(
    old: Record, given: Record, expected: tuple[str | None, str | None, bool] | None
) -> None:
    found = times(old, given, now=NOW, lifetimes=LIVES)
    assert found == (dict(zip(PRESENT, expected, strict=True)) if expected else {})


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"delete_at": TOMORROW}, "together with trash_at"),
        ({"trash_at": TOMORROW, "delete_at": NOW}, "must not be before"),
    ],
)
def test_faults(given: Record, fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        times(PRESENT, given, now=NOW, lifetimes=LIVES)


def test_the_time_decides() -> None:
    assert is_trashed({"trash_at": NOW}, NOW)
    assert not is_trashed({"trash_at": TOMORROW}, NOW)
    assert not is_trashed({"trash_at": None}, NOW)


def test_the_time_in_the_trash_can_be_shortened() -> None:
    record = {"trash_at": NOW, "delete_at": later(NOW, 50)}
    assert shortened(record, 20) == {"delete_at": later(NOW, 20)}
    assert shortened(record, 80) == {"delete_at": later(NOW, 50)}
