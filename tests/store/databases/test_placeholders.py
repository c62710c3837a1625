"""From `?` to `$1`."""

from __future__ import annotations

import pytest

from lading.store.database import Placeholders


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("SELECT 1", "SELECT 1"),
        ("a = ? AND b IN (?, ?)", "a = $1 AND b IN ($2, $3)"),
        ("a = '?' AND b = 'it''s ?' AND c = ?", "a = '?' AND b = 'it''s ?' AND c = $1"),
        ('"odd?" = ?', '"odd?" = $1'),
    ],
)
def test_they_are_numbered(written: str, sent: str) -> None:
    made = Placeholders()
    assert made.number(written) == made.number(written) == sent


def test_what_is_remembered_is_bounded() -> None:
    made = Placeholders(limit=2)
    assert [made.number(f"{number} = ?") for number in range(5)] == [
        f"{number} = $1" for number in range(5)
    ]
    assert len(made.statements) <= 2
