"""Texts of strangers that take long to read: patterns that try every way to match, names of
megabytes, JSON without end.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from re import _parser
from typing import Any

import pytest

import lading
from lading.cli.running.queue_picture import kind_of
from lading.client.images.registry_access import parse_challenge
from lading.core.drawing.step_names import step_name
from lading.core.errors import LadingError
from lading.core.protocols.http_head import parse_form
from lading.webdav import locks
from tests.client.systems.imports import lacks_package_of_users

UNITS = (
    "a", "0", " ", "\t", "\n", "/", ".", "-", "_", "=", ",", ";", '"', "\\", "(", "<", "%", "a0",
    "a.", "a/", '="', '\\"', "a=b,", "a b ", "\r\n", "[a]", "::", "-1", " \t", "\xe9",
)  # fmt: skip
SIZES = (24, 600, 12_000)
LIMIT = 0.2
"""Seconds of the processor for 12,000 characters: one that reads each once takes a thousandth."""
# Modules that act when they are imported, or need another interpreter.
_LEFT_OUT = ("__main__", "testing", "runner")


def _patterns() -> dict[tuple[Any, int], str]:
    """All patterns that modules have, with a module each."""
    found: dict[tuple[Any, int], str] = {}
    for info in pkgutil.walk_packages(lading.__path__, "lading."):
        if any(word in info.name.split(".") for word in _LEFT_OUT):
            continue
        try:
            module = importlib.import_module(info.name)
        except ModuleNotFoundError as error:
            if not lacks_package_of_users(str(error)):
                raise
            continue
        for value in vars(module).values():
            group = value if isinstance(value, tuple | list) else (value,)
            for one in group:
                if isinstance(one, re.Pattern):
                    found.setdefault((one.pattern, one.flags), info.name)
    return found


def _sample(tree: Any) -> str:
    """A short text that the parsed pattern matches, or nearly."""
    made = []
    for operation, argument in tree:
        match str(operation):
            case "LITERAL":
                made.append(chr(argument))
            case "IN" if str(argument[0][0]) in ("LITERAL", "RANGE"):
                first = argument[0][1]
                made.append(chr(first if isinstance(first, int) else first[0]))
            case "MAX_REPEAT" | "MIN_REPEAT":
                made.append(_sample(argument[2]) * max(1, argument[0]))
            case "SUBPATTERN":
                made.append(_sample(argument[3]))
            case "BRANCH":
                made.append(_sample(argument[1][0]))
            case _:
                made.append("a")
    return "".join(made)


def _texts(pattern: Any) -> Iterator[str]:
    shown = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    sample = _sample(_parser.parse(shown))
    for start in dict.fromkeys(("", sample, sample[:1])):
        for unit in UNITS:
            for size in SIZES:
                yield start + unit * (size // len(unit)) + "\0!"


def _seconds(work: Callable[[], object]) -> float:
    """The better one of two runs: collections of garbage fall into some."""
    runs = []
    for _ in range(2):
        began = time.process_time()
        work()
        runs.append(time.process_time() - began)
    return min(runs)


@pytest.mark.attack("sends a text that a pattern tries to match in very many ways")
def test_no_pattern_takes_long() -> None:
    slow: dict[str, str] = {}
    patterns = _patterns()
    for (pattern, flags), module in patterns.items():
        compiled = re.compile(pattern, flags)
        for text in _texts(pattern):
            given: Any = text.encode("latin-1", "replace") if isinstance(pattern, bytes) else text
            took = max(
                _seconds(lambda: compiled.match(given)),  # noqa: B023 - called at once
                _seconds(lambda: compiled.fullmatch(given)),  # noqa: B023 - called at once
            )
            if took > LIMIT:
                slow[f"{module} {pattern!r}"] = f"{took:.1f} s for {text[:20]!r}..."
                break
    assert slow == {}
    assert len(patterns) > 150


LONG = 200_000
NAMES = (
    " " * LONG + "x", "a" + " 1" * (LONG // 2), "a" + "." * LONG + "x", "0" * LONG + "x",
    "a" + "(1)" * (LONG // 3), "a" + "[" * LONG, "-1" * (LONG // 2), "#" * LONG, "1" * LONG,
)  # fmt: skip


@pytest.mark.attack("names a step so that those who draw its graph wait for minutes")
@pytest.mark.parametrize("number", range(len(NAMES)))
def test_names_of_megabytes(number: int) -> None:
    name = NAMES[number]
    assert _seconds(lambda: step_name(name)) < LIMIT
    assert _seconds(lambda: kind_of({"name": name, "command": []})) < LIMIT


@pytest.mark.attack("answers with header fields of 64 KiB that take minutes to read")
def test_header_fields() -> None:
    for text in ("a" * 65_536, 'a="' * 20_000, '="' * 30_000, "a=" * 30_000, '"' * 65_536):
        assert _seconds(lambda: parse_challenge(f"Bearer {text}")) < LIMIT  # noqa: B023 - called at once


@pytest.mark.attack("sends conditions of locks, or forms, that take minutes to read")
def test_conditions_and_forms() -> None:
    for text in (
        "()" * 30_000,
        "(<" * 30_000,
        " " * 60_000,
        '(["' * 20_000,
        "()" * 20_000 + " " * 20_000,
    ):
        assert _seconds(lambda: _quietly(locks.read_conditions, text)) < LIMIT  # noqa: B023
    for body in (b"--a\r\n" * 12_000, b"--a" * 20_000, b"\r\n" * 30_000, b"--a--" * 12_000):
        form = "multipart/form-data; boundary=a"
        assert _seconds(lambda: _quietly(parse_form, body, form)) < LIMIT  # noqa: B023


def _quietly(work: Callable[..., object], *given: object) -> None:
    # Only the time counts.
    with contextlib.suppress(LadingError):
        work(*given)
