from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.gpu_architectures import (
    NVIDIA_ARCHITECTURES,
    capability,
    default_stack,
    suits,
)

VERSIONS = st.tuples(st.integers(3, 13), st.integers(0, 9))


def word(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


@pytest.mark.parametrize(
    ("asked", "offered", "suited"),
    [
        ((), (), True),
        ((), ("8.0",), True),
        (("8.0",), (), False),
        (("8.0",), ("8.6",), True),
        (("8.0",), ("10.0",), True),
        (("9.0",), ("8.9",), False),
        (("8.0",), ("ampere",), True),
        (("8.6",), ("ampere",), False),
        (("ampere",), ("7.5",), False),
        (("ampere",), ("8.0",), True),
        (("Ampere",), ("8.7",), True),
        (("ampere",), ("8.9",), False),
        (("ampere",), ("Ampere",), True),
        (("ada", "hopper"), ("8.9",), True),
        (("ada", "hopper"), ("8.6",), False),
        (("7.0", "8.0"), ("8.0",), True),
        (("7.0", "7.5"), ("8.0",), False),
        (("gfx90a",), ("gfx942", "GFX90A"), True),
        (("gfx90a",), ("gfx942",), False),
        (("a100",), ("A100",), True),
        (("a100",), ("8.0",), False),
    ],
)
def test_kinds_of_gpus(asked: tuple[str, ...], offered: tuple[str, ...], suited: bool) -> None:
    assert suits(asked, offered) is suited


@given(VERSIONS, VERSIONS)
def test_one_capability_is_the_least(asked: tuple[int, int], own: tuple[int, int]) -> None:
    assert suits([word(asked)], [word(own)]) is (own >= asked)


@given(VERSIONS)
def test_no_capability_is_of_two_architectures(version: tuple[int, int]) -> None:
    assert sum(suits([name], [word(version)]) for name in NVIDIA_ARCHITECTURES) <= 1


@given(st.text(max_size=8))
def test_a_word_that_is_no_capability_has_no_order(name: str) -> None:
    if capability(name) is None and name.casefold() not in NVIDIA_ARCHITECTURES:
        assert not suits([name], ["8.0", "9.0", "gfx90a"]) or name.casefold() == "gfx90a"


def test_the_stack_of_who_names_none() -> None:
    assert default_stack([]) == default_stack(["8.0"]) == default_stack(["gfx90a", "x"]) == "cuda"
    assert default_stack(["gfx90a", "gfx942"]) == "rocm"
