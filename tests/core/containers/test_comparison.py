"""Comparison of two requests."""

from __future__ import annotations

import pytest

from lading.core.containers.comparison import (
    ComparedRequest,
    apart_from,
    changed_inputs,
    compare_requests,
    part_of,
)
from lading.core.values import FieldDifference


def _side(command: str, *, has_container: bool, **result: object) -> ComparedRequest:
    fields = {"command": [command], "environment": {"A": command}, "container_image": "tools:1"}
    held = {"uuid": "c", "command": [command], "container_image": "1" * 32 + "+5", **result}
    return ComparedRequest(
        request={**fields, "name": command}, container=held if has_container else None
    )


def test_containers_are_compared_where_both_have_one() -> None:
    ours, theirs = (
        _side("a", has_container=True, state="Complete", exit_code=0),
        _side("b", has_container=True, state="Complete", exit_code=7),
    )
    found = compare_requests(ours, theirs)
    assert [str(one) for one in found.cause] == [
        'command[0] differs ("a" is asked for, it has "b")'
    ]
    assert [one.field for one in found.further] == ["name"]
    assert [(one.field, one.theirs) for one in found.result] == [("exit_code", 7)]
    assert found.resolved


@pytest.mark.parametrize("first", [True, False])
def test_requests_are_compared_where_one_has_no_container(first: bool) -> None:
    ours = _side("a", has_container=first)
    found = compare_requests(ours, _side("b", has_container=not first))
    assert [one.field for one in found.cause] == ["command[0]", "environment.A"]
    assert not found.resolved


def test_equal_requests_have_no_difference() -> None:
    one = _side("a", has_container=True)
    found = compare_requests(one, one)
    assert (found.cause, found.further, found.result) == ((), (), ())


@pytest.mark.parametrize(
    ("field", "part"),
    [
        ("mounts./in.uuid", "inputs"),
        ("command[0]", "command"),
        ("runtime_constraints.ram", "resources"),
        ("scheduling_parameters.preemptible", "machine"),
        ("exit_code", "exit code"),
    ],
)
def test_parts_of_a_request(field: str, part: str) -> None:
    assert part_of(field) == part


def _reading(**hashes: str) -> ComparedRequest:
    mounts = {
        f"/{target}": {"kind": "collection", "portable_data_hash": pdh}
        for target, pdh in hashes.items()
    }
    return ComparedRequest(request={}, container={"mounts": {"/tmp": {"kind": "tmp"}, **mounts}})


def test_inputs_with_other_content() -> None:
    ours, theirs = _reading(a="1", b="2", c="3"), _reading(a="1", b="5", d="6")
    assert changed_inputs(ours, theirs) == {"/b": ("2", "5")}
    assert changed_inputs(ours, ComparedRequest(request={}, container=None)) == {}


def test_differences_apart_from_some_inputs() -> None:
    names = ("cwd", "mounts./in", "mounts./in.path", "mounts./in[0]", "mounts./in2.path")
    found = tuple(FieldDifference(name, 1, 2) for name in names)
    assert [one.field for one in apart_from(found, ["/in"])] == ["cwd", "mounts./in2.path"]
    assert apart_from(found, []) == found
