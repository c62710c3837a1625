from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.security.__main__ import read_table


@pytest.mark.parametrize(
    ("outcomes", "worst"),
    [
        (("passed",), "passed"),
        (("failed",), "failed"),
        (("passed", "failed"), "failed"),
        (("failed", "passed"), "failed"),
        (("skipped",), "skipped"),
    ],
)
def test_an_attack_has_its_worst_outcome(
    tmp_path: Path, outcomes: tuple[str, ...], worst: str
) -> None:
    table = tmp_path / "table"
    rows = [json.dumps({"attack": "a", "test": "t", "outcome": one}) for one in outcomes]
    table.write_text("\n".join(rows))
    assert [row["outcome"] for row in read_table(table)] == [worst]
