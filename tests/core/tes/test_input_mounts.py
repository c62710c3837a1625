"""Mounts of inputs: copies of a task."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.data.globs import MOST_PATTERNS
from lading.core.tes.input_mounts import as_copy, output_globs, own_directories


def test_a_copy_is_writable() -> None:
    assert as_copy({"kind": "text", "content": ""}) == {
        "kind": "text",
        "content": "",
        "writable": True,
    }


@pytest.mark.parametrize(
    ("paths", "others", "directories"),
    [
        (["/data/a", "/data/b"], [], ["/data"]),
        (["/data/sub/a", "/data/b"], [], ["/data"]),
        (["/data/sub/a", "/other/b"], [], ["/data/sub", "/other"]),
        (["/a"], [], []),
        (["/out/a", "/out/b/c", "/v/x", "/w/x"], ["/out", "/v"], ["/w"]),
        (["/live/a/b"], ["/live"], []),
        ([], ["/out"], []),
    ],
)
def test_directories_of_a_task(paths: list[str], others: list[str], directories: list[str]) -> None:
    assert sorted(own_directories(paths, others)) == sorted(directories)


def outputs(*paths: str) -> dict[str, Any]:
    found = []
    for path in paths:
        wildcard = {"path_prefix": "/out"} if "*" in path else {}
        found.append({"path": path, "url": "keep:", **wildcard})
    return {"outputs": found}


def test_outputs_among_inputs_are_named() -> None:
    task = outputs("/out/a", "/out/d/", "/out/*.txt", "/out/b[1]")
    assert output_globs(task, "/out", ["/out/in"]) == [
        "a", "a/**", "d", "d/**", "*.txt", "*.txt/**", r"b\[1\]", r"b\[1\]/**",
    ]  # fmt: skip


@pytest.mark.parametrize("inputs", [[], ["/in/a"], ["/output/a"]])
def test_all_is_kept_where_no_input_lies_among_the_outputs(inputs: list[str]) -> None:
    assert output_globs(outputs("/out/a"), "/out", inputs) == []


def test_all_is_kept_of_too_many_outputs() -> None:
    many = outputs(*(f"/out/{number}" for number in range(MOST_PATTERNS)))
    assert output_globs(many, "/out", ["/out/in"]) == []
