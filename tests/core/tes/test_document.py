"""Checks of task documents."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from lading.core.errors import Malformed
from lading.core.tes import document, document_shapes
from lading.core.tes.document import InvalidTask, parse_keep, read_task
from lading.core.tes.document_shapes import pointer
from lading.core.tes.mapping import TaskSite, rules

RUN = {"image": "alpine", "command": ["true"]}
PDH = "0" * 32 + "+1"


def task(**changes: Any) -> Any:
    return {"executors": [RUN], **changes}


def faults(sent: Any) -> list[str]:
    with pytest.raises(InvalidTask) as caught:
        read_task(sent)
    return [one.pointer for one in caught.value.faults]


def test_a_document_keeps_what_was_sent() -> None:
    sent = task(
        name="",
        description="d",
        inputs=[
            {"path": "/a/in", "content": "x", "streamable": False, "odd": 1},
            {"path": "/a/b/", "url": f"keep:{PDH}/x", "type": "DIRECTORY"},
            {"path": "/a/c", "url": "keep:zzzzz-4zz18-000000000000000"},
        ],
        outputs=[
            {"path": "/out/*.txt", "path_prefix": "/out", "url": "keep:"},
            {"path": "/out/[x]", "url": "keep:"},
            {"path": "/out/d/", "url": "keep:", "type": "DIRECTORY"},
        ],
        resources={
            "cpu_cores": 2,
            "ram_gb": 0.5,
            "zones": ["z"],
            "backend_parameters": {"a": None, "b": "c"},
        },
        executors=[{**RUN, "workdir": "/", "env": {"A": ""}, "ignore_error": None}],
        volumes=["/v"],
        tags={"k": "v", "n": None},
        odd=[],
        id="ignored",
    )
    found: Any = read_task(sent)
    assert "odd" not in found
    assert "id" not in found
    assert found["tags"] == {"k": "v"}
    assert found["inputs"][0] == {
        "path": "/a/in",
        "content": "x",
        "streamable": False,
        "type": "FILE",
    }
    assert found["inputs"][1]["type"] == "DIRECTORY"
    assert found["resources"]["backend_parameters"] == {"b": "c"}
    assert "ignore_error" not in found["executors"][0]
    assert read_task(task()) == task()


@pytest.mark.parametrize("sent", [None, 1, [], "x"])
def test_documents_that_are_no_object(sent: Any) -> None:
    assert faults(sent) == [""]


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        ({"executors": None}, ["/executors"]),
        ({"executors": []}, ["/executors"]),
        ({"executors": {}}, ["/executors"]),
        ({"executors": [1]}, ["/executors/0"]),
        ({"executors": [{}]}, ["/executors/0/image", "/executors/0/command"]),
        (
            {"executors": [{"image": 1, "command": []}]},
            ["/executors/0/image", "/executors/0/command"],
        ),
        ({"executors": [{**RUN, "image": " "}]}, ["/executors/0/image"]),
        ({"executors": [{**RUN, "command": [""]}]}, ["/executors/0/command/0"]),
        ({"executors": [{**RUN, "command": [1, "\0"]}]},
         ["/executors/0/command/0", "/executors/0/command/1"]),
        ({"executors": [{**RUN, "workdir": "a"}]}, ["/executors/0/workdir"]),
        ({"executors": [{**RUN, "stdin": "/"}]}, ["/executors/0/stdin"]),
        ({"executors": [{**RUN, "env": {"a=b": ""}}]}, ["/executors/0/env/a=b"]),
        ({"executors": [{**RUN, "env": {"a/b~": 1}}]}, ["/executors/0/env/a~1b~0"]),
        ({"executors": [{**RUN, "ignore_error": 1}]}, ["/executors/0/ignore_error"]),
        ({"tags": []}, ["/tags"]),
        ({"volumes": ["/a", "/a", "/b/../c", "//d", "/e//f"]},
         ["/volumes/1", "/volumes/2", "/volumes/3", "/volumes/4"]),
        ({"resources": {"cpu_cores": -1}}, ["/resources/cpu_cores"]),
        ({"resources": {"cpu_cores": 1.5}}, ["/resources/cpu_cores"]),
        ({"resources": {"cpu_cores": True}}, ["/resources/cpu_cores"]),
        ({"resources": {"ram_gb": float("inf")}}, ["/resources/ram_gb"]),
        ({"resources": {"disk_gb": "1"}}, ["/resources/disk_gb"]),
        ({"inputs": [1]}, ["/inputs/0"]),
        ({"inputs": [{"path": "/a"}]}, ["/inputs/0"]),
        ({"inputs": [{"url": "keep:x", "type": "DIR"}]}, ["/inputs/0/type", "/inputs/0/path"]),
        ({"inputs": [{"path": "/a", "url": "s3://key@b/x"}]}, ["/inputs/0/url"]),
        ({"inputs": [{"path": "/a", "url": "x"}]}, ["/inputs/0/url"]),
        ({"inputs": [{"path": "/a", "url": "s3://b/"}]}, ["/inputs/0/url"]),
        ({"inputs": [{"path": "/a", "url": "http://h/", "type": "DIRECTORY"}]},
         ["/inputs/0/type"]),
        ({"inputs": [{"path": "/a", "url": "keep:x"}]}, ["/inputs/0/url"]),
        ({"inputs": [{"path": "/a", "url": f"keep:{PDH}/../x"}]}, ["/inputs/0/url"]),
        ({"inputs": [{"path": "/a", "content": "", "type": "DIRECTORY"}]}, ["/inputs/0/type"]),
        ({"inputs": [{"path": "/a", "content": ""}, {"path": "/a/", "content": ""}]},
         ["/inputs/1/path"]),
        ({"outputs": [{"path": "/a", "url": ""}]}, ["/outputs/0/url"]),
        ({"outputs": [{"path": "/a", "url": "s3://b"}]}, ["/outputs/0/url"]),
        ({"outputs": [{"path": "/a", "url": "none"}]}, ["/outputs/0/url"]),
        ({"outputs": [{"path": "/a", "url": "drs://h/x"}]}, ["/outputs/0/url"]),
        ({"outputs": [{"path": "/a", "url": "keep:x"}]}, ["/outputs/0/url"]),
        ({"outputs": [{"path": "/a", "url": "http://h/a?b", "type": "DIRECTORY"}]},
         ["/outputs/0/url"]),
        ({"outputs": [{"path": "/a/", "url": "keep:"}]}, ["/outputs/0/path"]),
        ({"outputs": [{"path": "/a/*", "url": "keep:"}]}, ["/outputs/0/path_prefix"]),
        ({"outputs": [{"path": "/a/*", "path_prefix": "/b", "url": "keep:"}]},
         ["/outputs/0/path_prefix"]),
        ({"outputs": [{"path": "/a*/b", "path_prefix": "/a*", "url": "keep:"}]},
         ["/outputs/0/path_prefix"]),
    ],
)  # fmt: skip
def test_each_fault_has_its_place(changes: dict[str, Any], places: list[str]) -> None:
    assert faults(task(**changes)) == places


def test_urls_of_other_servers() -> None:
    inputs = [
        {"path": "/a", "url": "s3://b", "type": "DIRECTORY"},
        {"path": "/b", "url": "https://h/x?y"},
        {"path": "/c", "url": "drs://h/x"},
    ]
    outputs = [
        {"path": "/o/a", "url": "https://h/x?y"},
        {"path": "/o/b", "url": "s3://b", "type": "DIRECTORY"},
        {"path": "/o/*", "path_prefix": "/o", "url": "s3://b"},
    ]
    assert read_task(task(inputs=inputs, outputs=outputs))


def test_contents_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_task(task(inputs=[{"path": "/a", "content": "é" * (1 << 19)}]))
    assert faults(task(inputs=[{"path": "/a", "content": "x" * ((1 << 20) + 1)}])) == [
        "/inputs/0/content"
    ]
    many = [{"path": f"/{number}", "content": "x" * (1 << 20)} for number in range(9)]
    assert faults(task(inputs=many)) == ["/inputs"]


def test_rules_of_the_server_are_added() -> None:
    rule = document_shapes.DocumentFault("", "no")
    with pytest.raises(InvalidTask, match="/: no"):
        read_task(task(), lambda _: [rule])
    assert issubclass(InvalidTask, Malformed)


def test_parts_of_documents() -> None:
    assert pointer("a", 1, "b/~") == "/a/1/b~1~0"
    assert parse_keep(f"keep:/{PDH}/a/b/") == (PDH, "a/b")
    assert document_shapes.string({"a": 1}, "a") == ""
    assert document_shapes.mapping({}, "a") == {}


def test_rules_of_the_server_see_right_paths_only() -> None:
    outputs = [
        {"url": "keep:", "path": "/a/b"},
        {"url": "keep:", "path": "c/*", "path_prefix": "c"},
    ]
    with pytest.raises(InvalidTask) as caught:
        read_task(task(outputs=outputs), functools.partial(rules, site=TaskSite()))
    assert [one.pointer for one in caught.value.faults] == ["/outputs/1/path"]


def test_lists_and_objects_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (document, document_shapes):
        monkeypatch.setattr(module, "MOST_FAULTS", 3)
    odd = {str(number): number for number in range(9)}
    assert len(faults(task(tags=odd))) == 3
    assert len(faults(task(inputs=[1] * 9))) == 3
    assert faults(task(tags=7)) == ["/tags"]
    assert faults(task(volumes=["/a"] * (document_shapes.MOST_ENTRIES + 1))) == ["/volumes"]
