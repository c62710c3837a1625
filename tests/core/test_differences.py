"""Where values differ, in words."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.values import differing


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (1, 1, []),
        (1, 1.5, ["f differs (1 is asked for, it has 1.5)"]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3, 4]}},
         ["f.a.b[1] differs (2 is asked for, it has 3)",
          "f.a.b[2] differs (nothing is asked for, it has 4)"]),
        ([1], [], ["f[0] differs (1 is asked for, it has nothing)"]),
        ({"a": 1}, {}, ["f.a differs (1 is asked for, it has nothing)"]),
        ("x" * 99, "y", [f'f differs ("{"x" * 56}... is asked for, it has "y")']),
    ],
)  # fmt: skip
def test_in_words(ours: Any, theirs: Any, expected: list[str]) -> None:
    assert [str(one) for one in differing("f", ours, theirs)] == expected


def test_secrets_are_not_told() -> None:
    (one,) = differing("secret_mounts_md5", "a", "b")
    assert (one.field, one.ours, one.theirs) == ("secret_mounts", "(secret)", "(another secret)")
