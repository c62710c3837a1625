"""Forms of runs, and their faults."""

from __future__ import annotations

import json

import pytest

from lading.core.values import JsonObject
from lading.core.wes.document import (
    MAX_ATTACHMENTS,
    MAX_PARAMS,
    InvalidRun,
    RunDocument,
    attached,
    attachment_path,
    check_attachments,
    input_attachments,
    read_run,
)

FORM = {
    "workflow_params": "{}",
    "workflow_type": "CWL",
    "workflow_type_version": "v1.2",
    "workflow_url": "a/main.cwl#part",
}
FILES = ("a/main.cwl", "data/x y.fa", "data/x y.fa.fai", "data/t.cwl", "more/deep/z")


def read(**changes: str) -> RunDocument:
    return read_run({**FORM, **changes}, FILES, engine_version="3.2.1")


def test_a_whole_form() -> None:
    run = read(
        tags='{"a": "b", "c": null}',
        workflow_engine="arvados-cwl-runner",
        workflow_engine_version="3.2.1",
        workflow_engine_parameters='{"reuse": "no", "max_run_time": "60"}',
        other="ignored",
    )
    assert (run.url, run.fragment, run.tags) == ("a/main.cwl", "part", {"a": "b"})
    assert run.engine_parameters == {"reuse": "no", "max_run_time": "60"}
    assert read(workflow_params="null", workflow_url="https://host/w.cwl").params == {}


def test_local_files_are_taken_from_the_attachments() -> None:
    sent = {"x": {"class": "File", "location": "file:///home/ann/wf/data/x%20y.fa"}}
    run = read(workflow_params=json.dumps(sent))
    assert run.params == {"x": {"class": "File", "location": "data/x y.fa"}}
    assert run.sent_params == sent
    assert "data/x y.fa.fai" in input_attachments(run.params, FILES)
    other = {"x": {"class": "File", "location": "file:///home/ann/other.fa"}}
    with pytest.raises(InvalidRun, match=r"other.fa' is no workflow_attachment"):
        read(workflow_params=json.dumps(other))


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("workflow_params", " ", "workflow_params: is missing"),
        ("workflow_params", "[", "not JSON"),
        ("workflow_params", "[" * 100_000, "not JSON"),
        ("workflow_params", '{"a":' * 101 + "1" + "}" * 101, "too deep"),
        ("workflow_params", '{"a": NaN}', "NaN is no JSON number"),
        ("workflow_params", "[]", "must be an object"),
        ("workflow_params", " " * MAX_PARAMS + "{}", "characters"),
        ("tags", '{"a": 1}', "tags.a: must be a string"),
        ("workflow_type", "WDL", "only CWL"),
        ("workflow_type_version", "v9", "v1.0, v1.1, v1.2"),
        ("workflow_engine", "toil", "arvados-cwl-runner is"),
        ("workflow_engine_version", "3.2.1", "workflow_engine: is missing"),
        ("workflow_url", "b.cwl", "no workflow_attachment"),
        ("workflow_url", "file:///etc/passwd", "file: URLs are not read"),
        ("workflow_url", "https://host/a\nb", "control character"),
        ("workflow_engine_parameters", '{"reuse": "true"}', "yes or no"),
        ("workflow_engine_parameters", '{"max_run_time": "1h"}', "seconds"),
        ("workflow_engine_parameters", '{"x": ""}', "not supported"),
    ],
)
def test_what_is_refused(name: str, value: str, fault: str) -> None:
    with pytest.raises(InvalidRun) as caught:
        read(**{name: value})
    assert fault in caught.value.message


def test_another_version_of_the_engine() -> None:
    with pytest.raises(InvalidRun, match="is not here; 3.2.1 is"):
        read(workflow_engine="arvados-cwl-runner", workflow_engine_version="1")


def file(place: str, kind: str = "File", name: str = "location") -> JsonObject:
    return {"class": kind, name: place}


@pytest.mark.parametrize("place", ["data/x%20y.fa", "./more/", "keep:a+1/x", "HTTPS://h/x"])
def test_places_of_files(place: str) -> None:
    params = json.dumps({"a": [file(place)], "b": {"c": file(place, name="path")}})
    assert read(workflow_params=params).params


@pytest.mark.parametrize(
    ("place", "fault"),
    [("/etc/passwd", "no workflow_attachment"), ("s3://b/x", "s3: URLs"), ("no", "'no' is no")],
)
def test_places_that_are_refused(place: str, fault: str) -> None:
    with pytest.raises(InvalidRun, match=fault):
        read(workflow_params=json.dumps({"a": [1, file(place)], "b": {"class": "File"}}))


def test_which_attachments_are_inputs() -> None:
    params: JsonObject = {"a": file("data/x%20y.fa"), "b": file("keep:x/y")}
    assert input_attachments(params, FILES) == {"data/x y.fa", "data/x y.fa.fai"}
    assert input_attachments({"d": file("more", "Directory")}, FILES) == {"more/deep/z"}
    assert input_attachments({"t": file("data/t.cwl")}, FILES) == {*FILES[1:4]}
    assert input_attachments({}, FILES) == frozenset()


@pytest.mark.parametrize("name", ["a", "./a", "a/b c/é.cwl"])
def test_names_of_attachments(name: str) -> None:
    assert attachment_path(name) == name.removeprefix("./")


@pytest.mark.parametrize(
    "name",
    ["", "/a", "../a", "a/../b", "a//b", "a/", "a\\b", "a\nb", "x" * 256, "xxx/" * 256 + "x"],
)
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(InvalidRun):
        attachment_path(name)


def test_attachments_together() -> None:
    check_attachments(["a", "b/c", "b/d"])
    with pytest.raises(InvalidRun, match="a directory of another"):
        check_attachments(["b", "b/c/d"])
    with pytest.raises(InvalidRun, match="at most"):
        check_attachments([str(number) for number in range(MAX_ATTACHMENTS + 1)])


def test_escapes_in_relative_urls() -> None:
    assert attached("./a%2fb%20c/") == "a/b c"
    assert attached("%ff") == "\ufffd"
