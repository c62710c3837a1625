"""Requests of runs."""

from __future__ import annotations

from typing import Any

from lading.core.values import JsonObject
from lading.core.wes.document import RunDocument
from lading.core.wes.mapping import encode, make_request, resolve, sent_params, tags_of

WORKFLOW, INPUTS = "a" * 32 + "+10", "b" * 32 + "+10"


def request(**changes: Any) -> dict[str, Any]:
    fields = {
        "params": {"t": {"class": "File", "path": "x y"}},
        "type_version": "v1.2",
        "url": "./w/main.cwl",
        "tags": {"a": "b"},
        "engine_parameters": {},
    }
    run = RunDocument(**{"sent_params": fields["params"], **fields, **changes})
    return make_request(run, workflow=WORKFLOW, inputs=INPUTS, image="image:1")


def test_the_smallest_run() -> None:
    made = request()
    assert made["command"][0] == "arvados-cwl-runner"
    assert made["command"][-3:] == [
        "--enable-reuse",
        f"keep:{WORKFLOW}/w/main.cwl",
        "/var/lib/cwl/cwl.input.json",
    ]
    mounts = made["mounts"]
    resolved = {"t": {"class": "File", "location": f"keep:{INPUTS}/x%20y"}}
    assert mounts["/var/lib/cwl/cwl.input.json"]["content"] == resolved
    assert sent_params(mounts) == {"t": {"class": "File", "path": "x y"}}
    assert made["properties"]["wes"]["workflow_url"] == "./w/main.cwl"
    assert "workflow_engine" not in made["properties"]["wes"]
    assert tags_of(made["properties"]) == {"a": "b"}
    assert (made["name"], made["use_existing"]) == ("main.cwl", False)
    assert "owner_uuid" not in made
    assert "internet" not in made["runtime_constraints"]


def test_options() -> None:
    made = request(
        url="https://host/w.cwl",
        fragment="main",
        tags={"lading.project": "zzzzz-j7d0g-000000000000000"},
        engine_parameters={"reuse": "no", "max_run_time": "60"},
    )
    assert made["command"][-4:-1] == [
        "--disable-reuse",
        "--project-uuid=zzzzz-j7d0g-000000000000000",
        "https://host/w.cwl#main",
    ]
    assert made["runtime_constraints"]["internet"] is True
    assert made["owner_uuid"] == "zzzzz-j7d0g-000000000000000"
    assert made["scheduling_parameters"] == {"max_run_time": 60}
    assert made["properties"]["wes"]["workflow_url"] == "https://host/w.cwl#main"


def test_resolution() -> None:
    other: JsonObject = {"class": "File", "location": "keep:x/y", "secondaryFiles": [
        {"class": "Directory", "location": "d/"}, 1,
    ]}  # fmt: skip
    assert resolve({"a": other, "b": {"location": "x"}}, INPUTS) == {
        "a": {
            "class": "File",
            "location": "keep:x/y",
            "secondaryFiles": [{"class": "Directory", "location": f"keep:{INPUTS}/d"}, 1],
        },
        "b": {"location": "x"},
    }


def test_what_is_not_there() -> None:
    assert sent_params({}) == {}
    assert tags_of({"wes.tag.n": 1, "tes.tag.a": "b"}) == {}
    assert encode("é#?") == "%C3%A9%23%3F"
