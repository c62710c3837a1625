"""Types of log rows are names in the types of events, and each says one thing."""

from __future__ import annotations

import re

from lading.core.containers.container import DecisionKind
from lading.core.records.log_rows import LogRowType


def test_types_are_words() -> None:
    assert all(re.fullmatch("[a-z_]+", one) for one in LogRowType)


def test_no_type_is_that_of_a_decision() -> None:
    assert not {*LogRowType} & {*DecisionKind}
