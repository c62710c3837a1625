"""Types of log rows are names in the types of events, and each says one thing."""

from __future__ import annotations

import re

import pytest

from lading.core.containers.container import DecisionKind
from lading.core.errors import Forbidden
from lading.core.records.log_rows import RUN_TYPES, LogRowType, check_outsider


def test_types_are_words() -> None:
    assert all(re.fullmatch("[a-z_]+", one) for one in LogRowType)


def test_no_type_is_that_of_a_decision() -> None:
    assert not {*LogRowType} & {*DecisionKind}


def test_a_reader_writes_undated_rows_of_its_own_types() -> None:
    check_outsider("note", None)
    check_outsider(None, None)
    for event_type in RUN_TYPES:
        with pytest.raises(Forbidden, match="by who holds the container"):
            check_outsider(event_type, None)
    with pytest.raises(Forbidden, match="leave it out"):
        check_outsider("note", "2001-01-01T00:00:00Z")
