"""Versions of templates, made from requests."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.errors import Invalid
from lading.core.templates.document import bind
from lading.core.templates.making import MadeVersion, ParameterWish, make_version, pin
from lading.core.templates.parameters import CWL_FILE, INPUT, NO_OPTION

PDH = "d41d8cd98f00b204e9800998ecf8427e+0"
OTHER = "0" * 32 + "+5"
COLLECTION = "zzzzz-4zz18-0123456789abcde"
REQUEST = "zzzzz-xvhdp-0123456789abcde"


def step(*command: str, name: str = "align", **more: Any) -> dict[str, Any]:
    known = {"container_image": PDH, "environment": {}, "mounts": {}}
    return {"name": name, "command": list(command), **known, **more}


def make(
    *wishes: ParameterWish, steps: tuple[dict[str, Any], ...], params: dict[str, Any] | None = None
) -> MadeVersion:
    return make_version(steps, wishes, params or {}, origin={"uuid": REQUEST}, note="n")


def wish(name: str, value: Any = None, *bindings: str, **keywords: Any) -> ParameterWish:
    return ParameterWish(name=name, value=value, bindings=bindings, keywords=keywords)


def test_the_image_and_inputs_are_kept_by_content() -> None:
    request = {
        "name": "align", "uuid": REQUEST, "owner_uuid": "o", "container_image": "tools:1",
        "properties": {"lading_attempt": 2, "lading_step": "align"},
        "mounts": {
            "/a": {"kind": "collection", "uuid": COLLECTION, "path": "x"},
            "/b": {"kind": "output", "container_request": REQUEST, "path": "y"},
            "/c": {"kind": "output", "container_request": "#0"},
            "/d": {"kind": "collection", "portable_data_hash": PDH, "uuid": COLLECTION},
            "/out": {"kind": "tmp"},
        },
    }  # fmt: skip
    used = {"kind": "collection", "portable_data_hash": OTHER}
    container = {"container_image": OTHER, "mounts": {"/a": {**used, "path": "x"}, "/b": used}}
    pinned = pin(request, container)
    assert pinned["container_image"] == OTHER
    assert pinned["mounts"] == {
        "/a": {**used, "path": "x"}, "/b": {**used, "path": "y"},
        "/c": {"kind": "output", "container_request": "#0"},
        "/d": {"kind": "collection", "portable_data_hash": PDH}, "/out": {"kind": "tmp"},
    }  # fmt: skip
    assert pinned["properties"] == {"lading_step": "align"}
    assert not {"uuid", "owner_uuid"} & set(pinned)


def test_what_was_never_resolved_is_no_template() -> None:
    with pytest.raises(Invalid, match="align: had no container"):
        pin(step("a", container_image="tools:1"), None)
    mounts = {"/in": {"kind": "collection", "uuid": COLLECTION}}
    with pytest.raises(Invalid, match="align: its input /in is not known"):
        pin(step("a", mounts=mounts), {"mounts": {}})


def test_a_parameter_of_the_run_is_one_of_the_template() -> None:
    made = make(wish("k"), steps=(step("a", "-k", "25", "25"),), params={"k": 25})
    assert made.version.properties == {"k": {"type": "integer", "default": 25}}
    assert made.notes == ("k: at align:2; not at align:3, which has the same value",)
    assert bind(made.version, {"k": 31})[0][0]["command"] == ["a", "-k", "31", "25"]
    assert (made.version.origin, made.version.note) == ({"uuid": REQUEST}, "n")


def test_a_text_is_no_option() -> None:
    made = make(wish("mode", "fast"), steps=(step("a", "fast"),))
    assert made.version.properties["mode"]["pattern"] == NO_OPTION
    with pytest.raises(Invalid, match="take it for an option"):
        bind(made.version, {"mode": "--exec=x"})
    for command in (("a", "--mode=fast"), ("a", "-fast")):
        value = command[1].removeprefix("--mode=")
        assert (
            "pattern" not in make(wish("m", value), steps=(step(*command),)).version.properties["m"]
        )


def test_an_input_is_a_parameter() -> None:
    mounts = {"/in/reads.fq": {"kind": "collection", "portable_data_hash": PDH, "path": "a.fq"}}
    for wanted in (
        wish("reads"),
        wish("reads", "/in/reads.fq"),
        wish("reads", None, "align:/in/reads.fq"),
    ):
        made = make(wanted, steps=(step("a", mounts=mounts),))
        schema = {"type": "string", "format": INPUT, "default": f"{PDH}/a.fq"}
        assert made.version.properties == {"reads": schema}
    # The run may name it by the file that its user had.
    made = make(wish("reads"), steps=(step("a", mounts=mounts),), params={"reads": "sample.fq"})
    assert made.version.properties["reads"]["default"] == f"{PDH}/a.fq"


def test_an_input_of_a_workflow_has_its_type() -> None:
    file = {"class": "File", "location": f"keep:{PDH}/a"}
    mounts = {"/var/lib/cwl/cwl.input.json": {"kind": "json", "content": {"k": 3, "reads": file}}}
    made = make(wish("k"), wish("reads"), steps=(step("arvados-cwl-runner", mounts=mounts),))
    assert made.version.properties["k"] == {"type": "integer", "default": 3}
    assert made.version.properties["reads"]["format"] == CWL_FILE
    assert made.version.is_workflow


def test_places_can_be_chosen() -> None:
    steps = (step("a", "25", "25"), step("b", "25", name="count"))
    made = make(wish("k", 25, "align:2", "count:1", "count:1"), steps=steps)
    requests, _ = bind(made.version, {"k": 31})
    assert [request["command"] for request in requests] == [["a", "25", "31"], ["b", "31"]]
    assert make(wish("k", None, "align:2"), steps=steps).version.properties["k"] == {
        "type": "string", "default": "25", "pattern": NO_OPTION,
    }  # fmt: skip


def test_keywords_of_the_schema() -> None:
    steps = (step("a", "-k", "25"),)
    made = make(wish("k", 25, minimum=11, maximum=63, description="size"), steps=steps)
    with pytest.raises(Invalid, match="above 63"):
        bind(made.version, {"k": 64})
    text = make(wish("k", 25, type="string", enum=["25", "x"]), steps=steps).version
    assert text.properties["k"]["default"] == "25"
    with pytest.raises(Invalid):
        make(wish("k", 25, minimum=26), steps=steps)


def test_faults_of_parameters_are_told() -> None:
    steps = (step("a", "25"), step("b", "26", name="count"))
    with pytest.raises(Invalid, match="the run has no parameter of this name"):
        make(wish("k"), steps=steps)
    with pytest.raises(Invalid, match="k: is named twice"):
        make(wish("k", 25), wish("k", 25), steps=steps)
    with pytest.raises(Invalid, match="j: its place align:1 is that of k"):
        make(wish("k", 25), wish("j", 25), steps=steps)
    # Places with other values would change what the default does.
    with pytest.raises(Invalid, match="k: at count:1 the value is '26'"):
        make(wish("k", 25, "align:1", "count:1"), steps=steps)


def test_a_variable_that_looks_like_a_secret_is_told() -> None:
    made = make(steps=(step("a", environment={"API_TOKEN": "x"}),))
    assert "API_TOKEN: looks like a secret" in made.notes[0]
