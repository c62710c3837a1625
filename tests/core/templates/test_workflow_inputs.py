"""CWL workflows of the site as templates."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lading.core.errors import Invalid
from lading.core.templates import workflow_inputs
from lading.core.templates.document import TemplateVersion, bind
from lading.core.templates.parameters import CWL_FILE
from lading.core.templates.workflow_inputs import is_workflow, workflow_version

INPUTS = "/var/lib/cwl/cwl.input.json"
PDH = "d41d8cd98f00b204e9800998ecf8427e+0"


def version(document: Any) -> TemplateVersion:
    return workflow_version("w", msgspec.json.encode(document).decode(), image="arvados/jobs:1")


def properties(inputs: Any) -> dict[str, Any]:
    return dict(version({"cwlVersion": "v1.2", "inputs": inputs}).properties)


def test_the_inputs_of_the_main_process_are_parameters() -> None:
    main = {
        "id": "#main",
        "class": "Workflow",
        "inputs": [
            {"id": "#main/k", "type": "int", "default": 25, "doc": ["size", "of k-mers"]},
            {"id": "#main/reads", "type": "File", "label": "reads"},
            {"id": 3}, 4,
        ],
    }  # fmt: skip
    made = version({"cwlVersion": "v1.2", "$graph": [{"id": "tool"}, main, 3]})
    assert made.properties == {
        "k": {"type": "integer", "default": 25, "description": "size\nof k-mers"},
        "reads": {"type": "object", "format": CWL_FILE, "description": "reads"},
    }
    requests, _ = bind(made, {"reads": f"{PDH}/a"})
    assert requests[0]["mounts"][INPUTS]["content"] == {
        "k": 25, "reads": {"class": "File", "location": f"keep:{PDH}/a"},
    }  # fmt: skip
    assert requests[0]["command"][-2:] == ["/var/lib/cwl/workflow.json#main", INPUTS]
    assert (made.is_workflow, made.uses_api) == (True, True)
    with pytest.raises(Invalid, match="reads: has no default"):
        bind(made, {})


def test_types_of_cwl() -> None:
    found = properties(
        {
            "a": "string", "b": "float?", "c": ["null", "boolean"], "d": "File[]",
            "e": {"type": {"type": "enum", "symbols": ["#e/x", "y"]}},
            "f": {"type": {"type": "enum"}}, "g": {"type": {"type": "array", "items": "int"}},
            "h": {"type": ["int", "string"]}, "i": "Directory", "j": {"type": "long", "default": 3},
        }
    )  # fmt: skip
    assert found["a"] == {"type": "string"}
    assert found["b"] == {"type": "number", "default": None}
    assert found["c"] == {"type": "boolean", "default": None}
    assert found["d"] == found["g"] == {"type": "array"}
    assert found["e"] == {"type": "string", "enum": ["x", "y"]}
    assert found["f"] == {"type": "string"}
    assert found["h"] == {"type": "object"}
    assert found["i"] == {"type": "object", "format": CWL_FILE}
    assert found["j"] == {"type": "integer", "default": 3}
    assert properties(3) == {}
    assert version({"$graph": []}).properties == {}


def test_a_workflow_is_known_by_its_form() -> None:
    assert is_workflow('{"cwlVersion": "v1.2"}')
    assert not is_workflow("cwlVersion: v1.2")
    assert not is_workflow(None)


def test_definitions_that_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("{", "[]", '{"a":' + "[" * 200 + "]" * 200 + "}"):
        with pytest.raises(Invalid):
            workflow_version("w", wrong, image="x")
    monkeypatch.setattr(workflow_inputs, "LARGEST", 1)
    with pytest.raises(Invalid, match="too large"):
        workflow_version("w", "{}", image="x")
