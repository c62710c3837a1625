"""Names, options and descriptions of secrets, and their variables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core import secrets
from lading.core.errors import Invalid

NEEDED = [
    {"target": "/etc/key", "kind": "text"},
    {"target": "/etc/more", "kind": "json"},
    {"target": "/run/secrets/DB", "kind": "text", "environment_variable": "DB"},
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DB", ("DB", None, None)), ("DB=", ("DB", "", None)), ("DB=a=@b", ("DB", "a=@b", None)),
        ("DB=@f=g", ("DB", None, "f=g")), ("DB@f", ("DB", None, "f")), ("DB=@-", ("DB", None, "-")),
        ("/etc/key@f", ("/etc/key", None, "f")), ("/etc/key", ("/etc/key", None, None)),
        ("DB=a\nb", ("DB", "a\nb", None)),
    ],
)  # fmt: skip
def test_an_option_names_a_value_or_a_file(
    text: str, expected: tuple[str, str | None, str | None]
) -> None:
    assert secrets.parse_option(text) == expected


@pytest.mark.parametrize("text", ["", "=x", "a-b", "1A", "a/b", "/", "/a//b", "/a/../b", "A=@"])
def test_a_wrong_option_is_named_without_its_value(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        secrets.parse_option(text if "@" in text else f"{text}=hunter2")
    assert "hunter2" not in refused.value.message


@given(st.text(), st.text())
def test_no_option_has_both_and_errors_are_short(name: str, value: str) -> None:
    message = ""
    try:
        _, content, path = secrets.parse_option(f"{name}={value}")
    except Invalid as error:
        message, content, path = error.message, None, None
    assert len(message) <= 300
    assert content is None or path is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [("DB_PASSWORD", True), ("github_token", True), ("SECRET_NAME", True), ("API_KEY", True),
     ("KEYBOARD", False), ("HOME", False), ("A_KEY_FILE", False)],
)  # fmt: skip
def test_names_that_look_like_secrets(name: str, expected: bool) -> None:
    assert secrets.is_telling(name) is expected


def test_contents_become_mounts_that_are_described_without_them() -> None:
    mounts = secrets.mounts_of({"DB": "hunter2", "/etc/key": "k"})
    assert mounts == {
        "/run/secrets/DB": {
            "kind": "text", "content": "hunter2", "environment_variable": "DB",
        },
        "/etc/key": {"kind": "text", "content": "k"},
    }  # fmt: skip
    assert secrets.described({**mounts, "/etc/more": {"kind": "json"}, "/x": 5}) == NEEDED
    assert secrets.needed_names([*NEEDED, "?"]) == ["/etc/key", "/etc/more", "DB"]
    with pytest.raises(Invalid, match="is another secret's, too"):
        secrets.mounts_of({"DB": "a", "/run/secrets/DB": "b"})


def test_the_secrets_of_a_request_are_restored_from_contents() -> None:
    contents = {"DB": "hunter2", "/etc/key": "k", "/etc/more": '{"a": 1}', "OTHER": "x"}
    mounts = secrets.restored([*NEEDED, "?"], contents)
    assert secrets.described(mounts) == NEEDED
    assert mounts["/etc/more"] == {"kind": "json", "content": {"a": 1}}
    with pytest.raises(Invalid, match=r"needs the secret /etc/key, DB, which no record has"):
        secrets.restored(NEEDED, {"/etc/more": "1"})
    many: list[Any] = [{"target": f"/{'x' * 99}{number}", "kind": "text"} for number in range(9)]
    with pytest.raises(Invalid) as refused:
        secrets.restored(many, {})
    assert len(refused.value.message) <= 300
    with pytest.raises(Invalid, match="must be JSON") as wrong:
        secrets.restored(NEEDED, {**contents, "/etc/more": "hunter2"})
    assert "hunter2" not in wrong.value.message


def test_a_file_is_a_text_without_its_last_line_break() -> None:
    assert secrets.read_content("DB", b"a\n\r\n") == "a\n"
    assert secrets.read_content("/etc/key", b"a\n") == "a\n"
    with pytest.raises(Invalid, match="UTF-8"):
        secrets.read_content("DB", b"\xff")
    with pytest.raises(Invalid, match="has more than"):
        secrets.read_content("DB", b"a" * (secrets.LARGEST + 1))


def variable(name: object = "DB", content: str = "hunter2") -> Any:
    return {"kind": "text", "content": content, "environment_variable": name}


@pytest.mark.parametrize(
    ("mounts", "fault"),
    [
        ({"stdin": variable()}, "standard input"), ({"/a": variable("A-B")}, "no name"),
        ({"/a": variable(content="hunter2\0")}, "NUL"),
        ({"/a": variable(content="hunter2" * 20_000)}, "too large"),
        ({"/a": variable("HOME")}, "set twice"),
        ({"/a": variable(), "/b": variable()}, "set twice"),
    ],
)  # fmt: skip
def test_variables_are_checked_without_showing_contents(mounts: Any, fault: str) -> None:
    with pytest.raises(Invalid, match=fault) as refused:
        secrets.check_variables({"HOME": "/"}, mounts)
    assert "hunter2" not in refused.value.message


def test_right_variables_and_plain_files() -> None:
    right = {"/a": variable(), "/b": {"kind": "text", "content": "x"}, "/c": variable(""), "/d": 5}
    secrets.check_variables({"HOME": "/"}, right)
    largest = "x" * (secrets.LARGEST_VARIABLE - len("DB") - 2)
    secrets.check_variables({}, {"/a": variable(content=largest)})
