"""One document of a workflow that is in several files."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.provenance.cwl_packing import collections_of, find_step, pack

PDH = "0123456789abcdef0123456789abcdef+99"
TOOL = {"class": "CommandLineTool", "cwlVersion": "v1.2", "inputs": {"file": "File"}}


def runner(run: str, **more: Any) -> dict[str, Any]:
    """The document that the runner submits."""
    step = {"id": "#main/it", "in": [], "out": [], "run": run}
    main = {"class": "Workflow", "id": "#main", "steps": [step]}
    return {"cwlVersion": "v1.2", "$graph": [main], **more}


def flow(**steps: Any) -> dict[str, Any]:
    """A workflow in a file."""
    return {"class": "Workflow", "cwlVersion": "v1.2", "inputs": [], "steps": steps}


def test_documents_are_wanted_until_they_are_given() -> None:
    document = runner(f"keep:{PDH}/flow.cwl", **{"http://x#git": "main"})
    assert pack(document, {}, directory="p").missing == (f"{PDH}/flow.cwl",)
    given = {f"{PDH}/flow.cwl": flow(a={"run": "tools/tool.cwl"}, b={"run": "tools/tool.cwl"})}
    assert pack(document, given, directory="p").missing == (f"{PDH}/tools/tool.cwl",)
    packed = pack(document, {**given, f"{PDH}/tools/tool.cwl": TOOL}, directory="p")
    assert packed.missing == ()
    assert [one["id"] for one in packed.document["$graph"]] == ["#main", "#flow.cwl", "#tool.cwl"]
    assert packed.document["http://x#git"] == "main"
    assert packed.main == "#main"
    steps = packed.document["$graph"][1]["steps"]
    assert [(one["id"], one["run"]) for one in steps] == [
        ("#flow.cwl/a", "#tool.cwl"), ("#flow.cwl/b", "#tool.cwl"),
    ]  # fmt: skip


def test_tools_in_place_get_addresses() -> None:
    inner = flow(deep={"run": {**TOOL, "inputs": [{"id": "x"}, {"id": "#t/y"}, "odd"]}})
    given = {f"{PDH}/f.cwl": flow(sub={"run": inner}, odd={"run": {"$graph": []}}, bare="x")}
    packed = pack(runner(f"keep:{PDH}/f.cwl"), given, directory="p")
    ids = [one["id"] for one in packed.document["$graph"]]
    assert ids == ["#main", "#f.cwl", "#f.cwl/sub/run", "#f.cwl/sub/run/deep/run"]
    found = find_step(packed, "deep_2", ["x", "y"])
    assert found is not None
    assert found.id == "#f.cwl/sub/run/deep"
    assert found.inputs == {"x", "y", ""}


def test_a_single_document_is_packed() -> None:
    packed = pack({"cwlVersion": "v1.2", "class": "Workflow"}, {}, directory="p")
    assert packed.document == {
        "cwlVersion": "v1.2", "$graph": [{"class": "Workflow", "id": "#main", "steps": []}],
    }  # fmt: skip
    assert find_step(packed, "x", []) is None
    named = {"cwlVersion": "v1.2", "class": "Workflow", "id": "file:///a#flow"}
    assert pack(named, {}, directory="p").main == "#flow"
    assert pack({"$graph": []}, {}, directory="p").main == "#main"
    several = {"$graph": [{"id": "#a"}, {"class": "Operation"}]}
    assert [one["id"] for one in pack(several, {}, directory="p").document["$graph"]] == [
        "#a",
        "#1",
    ]


def test_what_cannot_be_packed_is_named_where_it_is() -> None:
    steps = {
        "other": {"run": "old.cwl"},
        "text": {"run": "text.cwl"},
        "part": {"run": "many.cwl#one"},
        "out": {"run": "../../../etc/passwd"},
        "web": {"run": "https://host/x.cwl"},
        "none": {},
        "local": {"run": "#here"},
    }
    given = {
        f"{PDH}/f.cwl": flow(**steps),
        f"{PDH}/old.cwl": {**TOOL, "cwlVersion": "v1.0"},
        f"{PDH}/text.cwl": "",
    }
    packed = pack(runner(f"keep:{PDH}/f.cwl"), given, directory="../snapshot")
    assert packed.missing == ()
    runs = {
        one["id"].rpartition("/")[2]: one["run"] for one in packed.document["$graph"][1]["steps"]
    }
    assert runs == {
        "other": f"../snapshot/{PDH}/old.cwl",
        "text": f"../snapshot/{PDH}/text.cwl",
        "part": f"../snapshot/{PDH}/many.cwl#one",
        "out": "../../../etc/passwd",
        "web": "https://host/x.cwl",
        "none": None,
        "local": "#here",
    }


def test_files_are_named_relative_to_the_new_place() -> None:
    file = {"class": "File", "location": "ref.fa", "path": 3, "basename": "ref.fa"}
    tool = {
        **TOOL,
        "$namespaces": {"edam": "http://edamontology.org/"},
        "$schemas": ["edam.owl"],
        "requirements": [{"$import": "types.yml"}, {"class": "Literal", "location": "kept"}],
        "inputs": {"ref": {"type": "File", "default": file}, "k": {"default": f"keep:{PDH}/../x"}},
    }
    given = {f"{PDH}/sub/tool.cwl": tool}
    packed = pack(runner(f"keep:{PDH}/sub/tool.cwl"), given, directory="../snapshot")
    made = packed.document["$graph"][1]
    assert made["inputs"]["ref"]["default"]["location"] == f"../snapshot/{PDH}/sub/ref.fa"
    assert made["requirements"][0] == {"$import": f"../snapshot/{PDH}/sub/types.yml"}
    assert made["requirements"][1]["location"] == "kept"
    assert packed.document["$namespaces"] == {"edam": "http://edamontology.org/"}
    assert "$schemas" not in made


def test_names_that_are_taken_get_a_number() -> None:
    given = {f"{PDH}/main": TOOL, f"{PDH}/a/t": TOOL, f"{PDH}/b/t": TOOL}
    document = runner(f"keep:{PDH}/main")
    document["$graph"][0]["steps"] += [
        {"id": "#main/two", "run": f"keep:{PDH}/a/t"},
        {"id": "#main/three", "run": f"keep:{PDH}/b/t"},
    ]
    packed = pack(document, given, directory="p")
    assert [one["id"] for one in packed.document["$graph"]] == ["#main", "#main_2", "#t", "#t_2"]


def test_a_document_that_names_itself_ends() -> None:
    given = {f"{PDH}/f.cwl": flow(again={"run": "f.cwl"})}
    packed = pack(runner(f"keep:{PDH}/f.cwl"), given, directory="p")
    assert packed.document["$graph"][1]["steps"][0]["run"] == "#f.cwl"
    # A loop has no tool.
    assert find_step(packed, "again", []) is None


def test_steps_of_one_name_differ_by_their_inputs() -> None:
    one = flow(sort={"run": {**TOOL, "inputs": {"a": "int"}}})
    two = flow(sort={"run": {**TOOL, "inputs": {"b": "int"}}}, sort_2={"run": TOOL})
    given = {f"{PDH}/f.cwl": flow(x={"run": one}, y={"run": two})}
    packed = pack(runner(f"keep:{PDH}/f.cwl"), given, directory="p")
    assert find_step(packed, "sort", ["a"]) != find_step(packed, "sort", ["b"])
    exact = find_step(packed, "sort_2", ["file"])
    assert exact is not None
    assert exact.name == "sort_2"
    assert find_step(packed, "sort", ["c"]) is None
    single = pack(runner(f"keep:{PDH}/t"), {f"{PDH}/t": TOOL}, directory="p")
    assert find_step(single, "any name", []) == single.steps["#main"][0]


def test_too_large_and_no_cwl_are_refused() -> None:
    bomb: Any = ["x"] * 100
    for _ in range(4):
        bomb = [bomb] * 100
    for document in (bomb, {"$graph": 3}, {"$graph": [3]}):
        given = document if isinstance(document, dict) else {"cwlVersion": "v1.2", "x": document}
        with pytest.raises(ValueError, match="too many|no list"):
            pack(given, {}, directory="p")
    deep: Any = 1
    for _ in range(200):
        deep = {"x": deep}
    with pytest.raises(ValueError, match="too many"):
        pack(runner(f"keep:{PDH}/t"), {f"{PDH}/t": {**TOOL, "x": deep}}, directory="p")


def test_collections_that_a_document_names() -> None:
    value = {"a": [f"keep:{PDH}/x", "keep:other/x"], "b": {"c": f"keep:{PDH}/y", "d": 3}}
    assert list(collections_of(value)) == [PDH, PDH]
