from __future__ import annotations

from datetime import UTC, datetime

from lading.s3.requests import iso_time, quoted, select_parameters


def test_forms() -> None:
    assert quoted("a") == '"a"'
    assert iso_time(datetime(2026, 1, 2, 3, 4, 5, 6999, UTC)) == "2026-01-02T03:04:05.006Z"


def test_parameters_without_those_of_signatures() -> None:
    query = [("a", "1"), ("a", "2"), ("X-Amz-Date", "x")]
    assert select_parameters(query) == {"a": "1"}
