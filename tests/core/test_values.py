"""Checks of single attributes."""

from __future__ import annotations

import pytest

from lading.core import values
from lading.core.errors import Invalid
from lading.core.values import Json


def test_what_error_messages_show_of_a_clients_text() -> None:
    assert values.printable("/in") == "/in"
    assert values.printable("a\nb") == r"'a\nb'"
    assert len(values.printable("x" * 500)) == 80


GOOD: list[tuple[values.Check, Json, Json]] = [
    (values.text, "a", "a"),
    (values.flag, True, True),
    (values.flag, "false", False),
    (values.whole(0), "7", 7),
    (values.between(0, 1), 1, 1.0),
    (values.amounts, {"memory": 5, "cpu": 0.5}, {"memory": 5, "cpu": 0.5}),
    (values.json_object, {"a": 1}, {"a": 1}),
    (values.strings, ["a", ""], ["a", ""]),
    (values.nonempty_strings, ["a"], ["a"]),
    (values.moment, "2026-01-02 03:04:05", "2026-01-02T03:04:05.000000000Z"),
    (values.pdh, "d41d8cd98f00b204e9800998ecf8427e+0", "d41d8cd98f00b204e9800998ecf8427e+0"),
    (
        values.runtime_status,
        {"error": "x", "failure": "oom", "any": 1},
        {"error": "x", "failure": "oom", "any": 1},
    ),
    (values.environment, {"A": "b"}, {"A": "b"}),
]
BAD: list[tuple[values.Check, Json, str]] = [
    (values.text, 1, "must be a string"),
    (values.text, "a\0b", "cannot contain NUL"),
    (values.flag, 1, "must be true or false"),
    (values.whole(0), "x", "must be an integer"),
    (values.whole(0), True, "must be an integer"),
    (values.whole(0), -1, "greater than or equal to 0"),
    (values.whole(0, 5), 6, "less than or equal to 5"),
    (values.between(0, 1), "1", "must be a number"),
    (values.between(0, 1), True, "must be a number"),
    (values.between(0, 1), 1.5, "from 0 to 1"),
    (values.amounts, [], "must be an object"),
    (values.amounts, {"cpu": -1}, "[cpu] must be a number from 0"),
    (values.json_object, [], "must be an object"),
    (values.strings, "a", "must be an array of strings"),
    (values.strings, ["a", 1], "element 1"),
    (values.nonempty_strings, ["a", ""], "non-empty"),
    (values.moment, "yesterday", "must be a timestamp"),
    (values.moment, "0001-01-01T00:00:00+2300", "must be a timestamp"),
    (values.moment, 5, "must be a string"),
    (values.pdh, "x", "must be a portable data hash"),
    (values.pdh, 1, "must be a portable data hash"),
    (values.runtime_status, {"warning": 1}, "[warning]: incompatible value type: string required"),
    (values.runtime_status, {"failure": "gremlins"}, "[failure]: must be one of user"),
    (values.environment, {"": "b"}, "cannot be empty"),
    (values.environment, {"a=b": "b"}, "nor contain NUL or '='"),
    (values.environment, {"a": 1}, "[a]: incompatible value type: string required"),
    (values.environment, {"a": "\0"}, "cannot contain NUL"),
]


@pytest.mark.parametrize(("check", "sent", "stored"), GOOD)
def test_good_values_are_stored(check: values.Check, sent: Json, stored: Json) -> None:
    assert check("some_field", sent) == stored


@pytest.mark.parametrize(("check", "sent", "fault"), BAD)
def test_bad_values_are_refused_by_name(check: values.Check, sent: Json, fault: str) -> None:
    with pytest.raises(Invalid) as refusal:
        check("some_field", sent)
    assert refusal.value.message.startswith("Some field ")
    assert fault in refusal.value.message
