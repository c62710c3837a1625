from __future__ import annotations

import pytest

from lading.core.errors import Invalid
from lading.core.quantities import parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "size"), [(5, 5), ("5", 5), ("1.5KiB", 1536), ("2GB", 2 * 10**9), ("1 MiB", 1 << 20)]
)
def test_sizes(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"), [(5, 5), ("336h", 1209600), ("1m30s", 90), ("250ms", 0.25), (0.5, 0.5)]
)
def test_durations(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


def test_an_empty_duration_is_refused() -> None:
    with pytest.raises(Invalid):
        parse_duration("")


@pytest.mark.parametrize("text", ["", "big", "-1", "1XB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not a size"):
        parse_size(text)
