"""Limits as people write them."""

from __future__ import annotations

import pytest

from lading.core.errors import Invalid
from lading.core.policy.limit_texts import read_limit
from lading.core.policy.quotas import Limit
from lading.core.records.schema import Record


@pytest.mark.parametrize(
    ("limit", "text", "expected"),
    [
        (Limit.VCPUS, "16", {"vcpus": 16}),
        (Limit.VCPUS, "none", {"vcpus": None}),
        (Limit.RAM, "2GiB", {"ram": 2 << 30}),
        (Limit.BYTES, "10", {"bytes_stored": 10}),
        (Limit.MONEY, "$7.5/week", {"money": 7.5, "period": "week"}),
        (Limit.MONEY, "200", {"money": 200.0}),
        (Limit.BUDGET, "9", {"budget": 9.0}),
    ],
)
def test_texts(limit: Limit, text: str, expected: Record) -> None:
    assert read_limit(limit, text) == expected


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (Limit.VCPUS, "-1"), (Limit.VCPUS, "many"), (Limit.VCPUS, ""), (Limit.RAM, "much"),
        (Limit.MONEY, "5/year"), (Limit.BUDGET, "5/week"), (Limit.MONEY, "nan"),
    ],
)  # fmt: skip
def test_faults(limit: Limit, text: str) -> None:
    with pytest.raises(Invalid):
        read_limit(limit, text)
