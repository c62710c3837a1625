"""Places of parameters in requests."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.errors import Invalid
from lading.core.templates.bindings import (
    BindingKind,
    ParameterBinding,
    find_bindings,
    label,
    named_bindings,
    put,
    read_binding,
    value_at,
)

PDH = "d41d8cd98f00b204e9800998ecf8427e+0"
OTHER = "0" * 32 + "+5"
INPUTS = "/var/lib/cwl/cwl.input.json"


def request(*command: str, name: str = "align", **more: Any) -> dict[str, Any]:
    return {"name": name, "command": list(command), "environment": {}, "mounts": {}, **more}


def labels(name: str, value: Any, *requests: dict[str, Any]) -> list[str]:
    return [
        label(binding, requests[binding.step])
        for binding in find_bindings(name, value, requests).bindings
    ]


def test_an_argument_with_the_value_is_a_place_in_each_step() -> None:
    steps = [request("a", "25"), request("b", "x", "25", name="count")]
    assert labels("k", 25, *steps) == ["align:1", "count:2"]
    assert labels("k", 25, request("a", "--kmer=25")) == ["align:1"]
    assert labels("flag", True, request("a", "true")) == ["align:1"]


def test_places_with_the_name_count_alone() -> None:
    step = request("a", "-k", "25", "25", environment={"THREADS": "25"})
    found = find_bindings("k", 25, [step])
    assert [label(binding, step) for binding in found.bindings] == ["align:2"]
    assert [label(binding, step) for binding in found.others] == ["align:3", "align:env.THREADS"]
    assert labels("k", 25, request("a", "--k=25", "25")) == ["align:1"]
    assert labels("threads", 4, request("a", "4", environment={"THREADS": "4"})) == [
        "align:env.THREADS"
    ]
    assert labels("min-k", 4, request("a", "--min_k", "4", "4")) == ["align:2"]


def test_several_places_of_a_step_are_refused() -> None:
    with pytest.raises(Invalid, match=r"several places of a step: align:1, align:2; choose"):
        find_bindings("k", 25, [request("a", "25", "25")])


def test_a_script_is_no_binding() -> None:
    script = request("sh", "-c", "align -k 25")
    with pytest.raises(Invalid, match="only in a script of align"):
        find_bindings("k", 25, [script])
    others = [request("sh", "-c", "ls", environment={"K": "1"}), script]
    with pytest.raises(Invalid, match="only in a script of align"):
        find_bindings("k", 25, others)
    for command in (("sh", "-c", "25"), ("python3", "-c", "25"), ("awk", "25"), ("25", "x")):
        with pytest.raises(Invalid):
            find_bindings("k", 25, [request(*command)])
    assert labels("k", 25, request("sh", "-c", 'align -k "$1"', "sh", "25")) == ["align:4"]


def test_a_value_that_is_nowhere_is_refused() -> None:
    with pytest.raises(Invalid, match="k: '26' is no argument, variable or input"):
        find_bindings("k", 26, [request("a", "25")])


def test_an_input_is_named_by_its_target_its_content_or_its_name() -> None:
    mount = {"kind": "collection", "portable_data_hash": PDH, "path": "a.fq"}
    steps = [
        request("a", mounts={"/in/reads.fq": mount, "/out": {"kind": "tmp"}}),
        request("b", mounts={"/data": mount, "/ref": {**mount, "path": "ref"}}),
    ]
    for value in ("/in/reads.fq", f"{PDH}/a.fq", None):
        assert labels("reads", value, *steps) == ["align:/in/reads.fq", "align:/data"]
    writable = request("a", mounts={"/in": {**mount, "writable": True}})
    with pytest.raises(Invalid):
        find_bindings("in", "/in", [writable])


def test_an_input_of_a_workflow_is_a_member_of_its_object() -> None:
    content = {"kind": "json", "content": {"k": 25, "x": 1}}
    sent = "/var/lib/cwl/workflow_params.json"
    runner = request("arvados-cwl-runner", mounts={INPUTS: content, sent: content})
    assert labels("k", 25, runner) == ["align:input.k", "align:input.k"]
    binding = find_bindings("k", 25, [runner]).bindings[0]
    changed = put(runner, binding, "k", 31)
    assert changed["mounts"][sent]["content"] == {"k": 31, "x": 1}
    assert runner["mounts"][sent]["content"]["k"] == 25
    assert value_at(binding, changed) == 31


def test_values_are_put_into_words_and_never_into_a_shell() -> None:
    step = request("a", "--k=25", "x", environment={"K": "25"})
    evil = "31; rm -rf / $(id) `id`"
    first = put(
        step, ParameterBinding(step=0, kind=BindingKind.COMMAND, index=1, prefix="--k="), "k", evil
    )
    assert first["command"] == ["a", f"--k={evil}", "x"]
    second = put(first, ParameterBinding(step=0, kind=BindingKind.ENVIRONMENT, name="K"), "k", 31)
    assert second["environment"] == {"K": "31"}
    variable = ParameterBinding(step=0, kind=BindingKind.ENVIRONMENT, name="K")
    assert value_at(variable, second) == "31"
    assert step["command"] == ["a", "--k=25", "x"]


def test_an_input_is_put_by_content_or_by_uuid() -> None:
    mount = {"kind": "collection", "portable_data_hash": PDH, "exclude_from_output": True}
    step = request("a", mounts={"/in": mount})
    binding = ParameterBinding(step=0, kind=BindingKind.MOUNT, name="/in")
    changed = put(step, binding, "reads", f"{OTHER}/b.fq")
    assert changed["mounts"]["/in"] == {
        "kind": "collection", "portable_data_hash": OTHER, "path": "b.fq",
        "exclude_from_output": True,
    }  # fmt: skip
    uuid = "zzzzz-4zz18-0123456789abcde"
    assert put(request("a", mounts={"/in": {}}), binding, "reads", uuid)["mounts"]["/in"] == {
        "kind": "collection", "uuid": uuid,
    }  # fmt: skip
    assert value_at(binding, step) == PDH


def test_places_are_named_by_step_and_binding() -> None:
    steps = [
        request("a", "--k=25", environment={"K": "1"}, properties={"lading_step": "map"}),
        request("a", "--k=26", name="other", properties={"lading_step": "map"}),
    ]
    assert [binding.prefix for binding in named_bindings("map:1", steps)] == ["--k=", "--k="]
    assert named_bindings("align:env.K", steps)[0].kind is BindingKind.ENVIRONMENT
    assert [
        value_at(binding, steps[binding.step]) for binding in named_bindings("map:1", steps)
    ] == [
        "25",
        "26",
    ]
    for wrong in ("align", "align:", "none:1", "align:0", "align:9", "align:env.X", "align:/in"):
        with pytest.raises(Invalid):
            named_bindings(wrong, steps)


def test_a_place_of_another_kind_of_mount_is_refused() -> None:
    step = request("a", mounts={INPUTS: {"kind": "json", "content": {"k": 1}}})
    with pytest.raises(Invalid, match="mount of another kind"):
        named_bindings(f"align:{INPUTS}", [step])


@pytest.mark.parametrize(
    "document",
    [
        None, {}, {"step": 0}, {"step": 0, "at": "x"}, {"step": 9, "at": "command", "index": 1},
        {"step": True, "at": "command"}, {"step": -1, "at": "command", "index": 1},
        {"step": 0, "at": "command", "index": 0}, {"step": 0, "at": "command", "index": 2},
        {"step": 0, "at": "command", "index": 3, "prefix": "--x="},
        {"step": 0, "at": "command", "index": 3, "prefix": 3},
        {"step": 0, "at": "environment", "name": "X"}, {"step": 0, "at": "mount", "target": "/in"},
    ],
)  # fmt: skip
def test_places_of_strangers_are_checked(document: Any) -> None:
    with pytest.raises(Invalid):
        read_binding(document, [request("sh", "-c", "x", "--k=25")])


def test_a_place_is_read_as_it_was_written() -> None:
    step = request("a", "--k=25", environment={"K": "1"}, mounts={"/in": {"kind": "collection"},
                   INPUTS: {"kind": "json", "content": {}}})  # fmt: skip
    for binding in (
        ParameterBinding(step=0, kind=BindingKind.COMMAND, index=1, prefix="--k="),
        ParameterBinding(step=0, kind=BindingKind.ENVIRONMENT, name="K"),
        ParameterBinding(step=0, kind=BindingKind.MOUNT, name="/in"),
        ParameterBinding(step=0, kind=BindingKind.CONTENT, name=INPUTS, key="k"),
    ):
        assert read_binding(binding.document(), [step]) == binding
