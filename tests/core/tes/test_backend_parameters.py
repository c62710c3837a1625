"""Backend parameters and tags of tasks."""

from __future__ import annotations

import pytest

from lading.core.tes.backend_parameters import (
    BACKEND,
    effective_parameters,
    read_flag,
    read_seconds,
    read_whole,
    tag_warnings,
    unsupported,
)


@pytest.mark.parametrize(
    ("value", "number"), [("12", 12), ("0", 0), ("", None), ("-1", None), ("1" * 10, None)]
)
def test_whole_numbers_have_at_most_nine_digits(value: str, number: int | None) -> None:
    assert read_whole(value) == number


@pytest.mark.parametrize(
    ("value", "flag"), [(" Yes", True), ("1", True), ("no", False), ("FALSE", False), ("on", None)]
)
def test_words_for_a_flag(value: str, flag: bool | None) -> None:
    assert read_flag(value) is flag


def test_a_flag_stands_for_no_seconds() -> None:
    assert [read_seconds(value) for value in ("90", "yes", "no", "soon")] == [90, 0, 0, None]


def test_names_of_parameters_are_taken_in_any_case() -> None:
    effective, warnings = effective_parameters({"GPU_Count": "2", "Network": "no"})
    assert effective == {"gpu_count": 2, "network": False}
    assert warnings == []


def test_a_parameter_without_effect_is_told() -> None:
    effective, warnings = effective_parameters({"queue": "long", "reuse": "perhaps"})
    assert effective == {}
    assert warnings == [
        "warning: backend parameter queue is not supported; these are: "
        f"{', '.join(BACKEND)}; it is ignored",
        "warning: backend parameter reuse has no value 'perhaps'; it is ignored",
    ]
    assert unsupported("internal_path_prefix", "x") is None


def test_sizes_of_memory() -> None:
    sizes = [BACKEND["gpu_ram_gb"](value) for value in ("1.5", "0", "-1", "much", "nan")]
    assert sizes == [15 * 10**8, 0, None, None, None]


def test_tags_of_other_programs_are_left_alone() -> None:
    assert list(tag_warnings({"project": "x", "lading.reuse": "no"})) == []
    (warning,) = tag_warnings({"lading.reuse": "maybe"})
    assert warning == "warning: tag lading.reuse is 'maybe', not yes or no; it is ignored"
