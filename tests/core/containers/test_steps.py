"""Steps of containers: their checks."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from lading.core.containers import recipe
from lading.core.containers.steps import (
    MAX_STEPS,
    check_steps,
    image_names,
    read_steps,
    validate_steps,
    with_images,
)
from lading.core.errors import Invalid
from tests.records import make_recipe

ONE: Any = {"container_image": "a", "command": ["x"]}
MOUNTS: Any = {"/tmp/a": {"kind": "tmp"}, "/in": {"kind": "text"}}


def record(*steps: Any, **changes: Any) -> Any:
    stored = check_steps("steps", list(steps))
    return {
        "steps": stored,
        "command": ["x"],
        "container_image": "a",
        "service": False,
        **changes,
    }


def test_steps_are_stored_with_every_key() -> None:
    checked: Any = check_steps("steps", [ONE])
    [stored] = checked
    assert set(stored) == {
        "container_image", "command", "cwd", "environment", "stdin", "stdout", "stderr",
        "ignore_error",
    }  # fmt: skip
    [found] = read_steps([stored])
    assert (found.command, found.cwd) == (["x"], ".")


@pytest.mark.parametrize(
    "wrong",
    [
        "x",
        [1],
        [{}],
        [{**ONE, "odd": 1}],
        [{**ONE, "command": []}],
        [{**ONE, "command": ["\0"]}],
        [{**ONE, "container_image": " "}],
        [ONE] * (MAX_STEPS + 1),
    ],
)
def test_what_is_refused(wrong: Any) -> None:
    with pytest.raises(Invalid, match="Steps"):
        check_steps("steps", wrong)


def test_rules_of_a_record() -> None:
    validate_steps(record(), {}, nodes=2)
    validate_steps(record() | {"steps": None}, {}, nodes=2)
    streams = {"stdin": "/in", "stdout": "/tmp/a/b/c"}
    validate_steps(record(ONE, {**ONE, **streams}), MOUNTS, nodes=1)


@pytest.mark.parametrize(
    ("wrong", "nodes"),
    [
        (record(ONE, command=["y"]), 1),
        (record(ONE, container_image="b"), 1),
        (record(ONE, service=True), 1),
        (record(ONE), 2),
        (record({**ONE, "stdin": "/x"}), 1),
        (record({**ONE, "stdout": "/in"}), 1),
        (record({**ONE, "stdout": "/tmp/a"}), 1),
        (record({**ONE, "stderr": "/tmp/a/../b"}), 1),
    ],
)
def test_records_that_are_refused(wrong: Any, nodes: int) -> None:
    with pytest.raises(Invalid, match="Steps"):
        validate_steps(wrong, MOUNTS, nodes=nodes)


def test_images() -> None:
    stored: Any = check_steps("steps", [ONE, {**ONE, "container_image": "b"}, ONE])
    assert image_names(stored) == ("a", "b")
    made = with_images(stored, {"a": "A", "b": "B"})
    assert [one["container_image"] for one in made] == ["A", "B", "A"]


def test_steps_are_part_of_the_recipe() -> None:
    stored: Any = check_steps("steps", [ONE])
    plain = make_recipe()
    stepped = structs.replace(plain, steps=stored)
    assert recipe.key(plain) != recipe.key(stepped)
    assert recipe.key(structs.replace(plain, steps=[])) == recipe.key(plain)
    with pytest.raises(KeyError):
        make_recipe(steps=stored)
