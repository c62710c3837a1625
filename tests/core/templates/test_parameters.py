"""Schemas of parameters, and the check of values."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.errors import Invalid
from lading.core.templates import parameters
from lading.core.templates.parameters import (
    CWL_FILE,
    INPUT,
    NO_OPTION,
    check_schema,
    check_value,
    check_values,
    parse_value,
    read_properties,
    read_reference,
    schema_of,
    whole_schema,
)

PDH = "d41d8cd98f00b204e9800998ecf8427e+0"
COLLECTION = "zzzzz-4zz18-0123456789abcde"
FILE = {"class": "File", "location": f"keep:{PDH}/a"}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, "boolean"), (3, "integer"), (2.5, "number"), ("x", "string"), ([1], "array"),
        ({"a": 1}, "object"), (None, "object"),
    ],
)  # fmt: skip
def test_the_type_of_a_parameter_is_that_of_its_value(value: Any, kind: str) -> None:
    assert schema_of(value) == {"type": kind, "default": value}


def test_a_file_of_cwl_has_a_format() -> None:
    assert schema_of(FILE) == {"type": "object", "format": CWL_FILE, "default": FILE}


def test_the_whole_schema_is_json_schema() -> None:
    whole = whole_schema({"k": {"type": "integer", "default": 3}, "n": {"type": "string"}})
    assert whole["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert (whole["required"], whole["additionalProperties"]) == (["n"], False)
    assert read_properties(whole) == whole["properties"]


@pytest.mark.parametrize(
    "schema",
    [
        None, {"properties": []}, {"properties": {"-x": {"type": "string"}}},
        {"properties": {"x": 3}}, {"properties": {f"p{n}": {} for n in range(101)}},
    ],
)  # fmt: skip
def test_schemas_of_strangers_are_checked(schema: Any) -> None:
    with pytest.raises(Invalid):
        read_properties(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {}, {"type": "text"}, {"type": "string", "$ref": "x"}, {"type": "string", "format": "date"},
        {"type": "string", "format": 3}, {"type": "integer", "format": INPUT},
        {"type": "integer", "minimum": "1"}, {"type": "integer", "minimum": True},
        {"type": "number", "maximum": float("inf")}, {"type": "string", "title": 3},
        {"type": "string", "description": "x" * 5000}, {"type": "string", "pattern": "(a+)+"},
        {"type": "string", "enum": []}, {"type": "string", "enum": "ab"},
        {"type": "string", "enum": [1]}, {"type": "string", "default": 1},
        {"type": "integer", "enum": [1, 2], "default": 3},
    ],
)  # fmt: skip
def test_a_schema_that_means_nothing_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        check_schema("k", schema)


def test_values_are_those_that_are_given_else_the_defaults() -> None:
    properties = {"k": schema_of(3), "reads": {"type": "string"}}
    assert check_values(properties, {"reads": "a"}) == {"k": 3, "reads": "a"}
    with pytest.raises(Invalid, match="reads: has no default"):
        check_values(properties, {})
    with pytest.raises(Invalid, match="x: is no parameter of this template; it has: k, reads"):
        check_values(properties, {"x": 1})


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ("3", {"type": "integer"}), (True, {"type": "integer"}), (2.5, {"type": "integer"}),
        (True, {"type": "number"}), (1, {"type": "boolean"}), (1, {"type": "string"}),
        ({}, {"type": "array"}), ([], {"type": "object"}),
        ({}, {"type": "object", "format": CWL_FILE}),
        ("x", {"type": "object", "format": CWL_FILE}),
        (f"{COLLECTION}/a", {"type": "object", "format": CWL_FILE}),
        ("x", {"type": "string", "format": INPUT}),
        (f"{PDH}/../a", {"type": "string", "format": INPUT}),
        (4, {"type": "integer", "enum": [1, 2]}), (True, {"type": "boolean", "enum": [False]}),
        ("x" * 5000, {"type": "string"}), ("abc", {"type": "string", "maxLength": 2}),
        ("", {"type": "string", "minLength": 1}), ("a\0b", {"type": "string"}),
        ("-rf", {"type": "string", "pattern": NO_OPTION}),
        ("", {"type": "string", "pattern": NO_OPTION}),
        (0, {"type": "integer", "minimum": 1}), (9, {"type": "number", "maximum": 8.5}),
        (float("nan"), {"type": "number"}), (1 << 70, {"type": "integer"}),
        (["x" * 20_000], {"type": "array"}),
    ],
)  # fmt: skip
def test_wrong_values_are_refused_with_their_name(value: Any, schema: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=r"^k: ") as refused:
        check_value("k", value, schema)
    assert len(refused.value.message) <= 300


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (3, {"type": "integer", "minimum": 3, "maximum": 3}), (3, {"type": "number"}),
        (2.5, {"type": "number"}), ("", {"type": "string"}), (True, {"type": "boolean"}),
        ([1, {}], {"type": "array"}), ({"a": None}, {"type": "object"}),
        ("b", {"type": "string", "enum": ["a", "b"]}),
        (FILE, {"type": "object", "format": CWL_FILE}),
        (f"{PDH}/d/a", {"type": "string", "format": INPUT}),
        (f"keep:{COLLECTION}", {"type": "string", "format": INPUT}),
    ],
)  # fmt: skip
def test_right_values_stay_as_they_are(value: Any, schema: dict[str, Any]) -> None:
    assert check_value("k", value, schema) == value


def test_a_reference_becomes_a_file_of_cwl() -> None:
    schema = {"type": "object", "format": CWL_FILE}
    assert check_value("k", f"{PDH}/a", schema) == FILE
    assert check_value("k", PDH, schema) == {"class": "Directory", "location": f"keep:{PDH}"}


def test_references_have_a_collection_and_a_path() -> None:
    assert read_reference("k", f"keep:{PDH}/d/a/") == (PDH, "d/a")
    assert read_reference("k", COLLECTION) == (COLLECTION, "")
    with pytest.raises(Invalid, match="empty part"):
        read_reference("k", f"{PDH}/a//b")


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("3", {"type": "integer"}, 3), ("2.0", {"type": "integer"}, 2),
        ("2.5", {"type": "number"}, 2.5),
        ("3", {"type": "string"}, "3"), ("true", {"type": "boolean"}, True),
        ("[1]", {"type": "array"}, [1]), ("x/y", {"type": "object", "format": CWL_FILE}, "x/y"),
        ('{"class":"File"}', {"type": "object", "format": CWL_FILE}, {"class": "File"}),
    ],
)  # fmt: skip
def test_texts_of_forms_mean_values(text: str, schema: dict[str, Any], value: Any) -> None:
    assert parse_value("k", text, schema) == value


def test_a_text_that_is_no_number_is_refused() -> None:
    with pytest.raises(Invalid, match="k: 'x' is of the wrong type; it must be of type integer"):
        parse_value("k", "x", {"type": "integer"})


def test_names_of_parameters() -> None:
    assert parameters.check_name("min-k.2") == "min-k.2"
    with pytest.raises(Invalid):
        parameters.check_name("2k")
