from __future__ import annotations

from lading.core.remarks import MAX_NAMED, RemarkList


def test_a_list_names_the_first_entries_and_counts_all() -> None:
    entries = RemarkList()
    for number in range(MAX_NAMED + 3):
        entries.add(f"f{number}")
    remarks = entries.remarks()
    assert remarks.count == MAX_NAMED + 3
    assert remarks.lines() == (*(f"f{number}" for number in range(MAX_NAMED)), "and 3 more")
