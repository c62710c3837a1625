"""Log lines: one line an event, and never a token."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from lading.core.errors import Invalid
from lading.process import telemetry

TOKEN = "v2/zzzzz-gj3su-0123456789abcde/" + "s" * 50


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The handlers of the test run, which `configure` replaces, are put back."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


def test_an_event_is_one_line_of_keys_and_values() -> None:
    stream = io.StringIO()
    telemetry.configure(stream=stream)
    telemetry.event(logging.getLogger("lading.test"), "locked", uuid="u", why="two words", empty="")
    assert stream.getvalue().endswith("lading.test locked uuid=u why='two words' empty=''\n")


def test_a_token_never_reaches_the_log() -> None:
    stream = io.StringIO()
    telemetry.configure(stream=stream)
    logging.getLogger("lading.test").warning("token %s\nnext", TOKEN)
    assert "ssss" not in stream.getvalue()
    assert stream.getvalue().count("\n") == 1


def _json_lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_json_line_has_the_values_under_their_keys() -> None:
    stream = io.StringIO()
    telemetry.configure(stream=stream, format=telemetry.LogFormat.JSON)
    logger = logging.getLogger("lading.test")
    telemetry.event(logger, "locked", uuid="u", count=3, why=ValueError("two\nlines"), level="x")
    (line,) = _json_lines(stream)
    assert str(line.pop("time")).endswith("Z")
    assert line.pop("pid")
    assert line == {
        "level": "info",
        "logger": "lading.test",
        "message": "locked",
        "uuid": "u",
        "count": 3,
        "why": "two\nlines",
        # A value does not replace a key that every line has.
        "level_": "x",
    }


def test_json_lines_of_other_loggers_and_of_exceptions() -> None:
    stream = io.StringIO()
    telemetry.configure(stream=stream, format=telemetry.LogFormat.JSON)
    logger = logging.getLogger("asyncio")
    try:
        raise ValueError(TOKEN)
    except ValueError:
        logger.exception("a %s failed", "task")
    (line,) = _json_lines(stream)
    assert line["message"] == "a task failed"
    assert line["level"] == "error"
    assert "ValueError: v2/zzzzz-gj3su-0123456789abcde/***" in str(line["exception"])
    assert "ssss" not in stream.getvalue()


def test_lines_have_the_request_id_of_their_task() -> None:
    stream, logger = io.StringIO(), logging.getLogger("lading.test")
    telemetry.configure(stream=stream, format=telemetry.LogFormat.JSON)
    with telemetry.in_request("req-outer"):
        with telemetry.in_request("req-inner"):
            telemetry.event(logger, "inner")
        telemetry.event(logger, "outer")
    telemetry.event(logger, "outside")
    assert [line.get("request_id") for line in _json_lines(stream)] == [
        "req-inner",
        "req-outer",
        None,
    ]
    text = io.StringIO()
    telemetry.configure(stream=text)
    with telemetry.in_request("req-1\nforged"):
        telemetry.event(logger, "said")
    assert text.getvalue().endswith(" said request_id=req-1\\n forged\n")
    assert text.getvalue().count("\n") == 1


def test_the_configuration_names_level_and_form() -> None:
    assert telemetry.read_level("warn") == "WARNING"
    assert telemetry.read_format("json") is telemetry.LogFormat.JSON
    with pytest.raises(Invalid, match="SystemLogs.LogLevel: 'loud'; it must be one of debug"):
        telemetry.read_level("loud")
    with pytest.raises(Invalid, match="SystemLogs.Format: 'xml'; it must be one of text, json"):
        telemetry.read_format("xml")


def test_events_below_the_level_cost_nothing() -> None:
    stream = io.StringIO()
    telemetry.configure(level="ERROR", stream=stream)
    telemetry.event(logging.getLogger("lading.test"), "quiet")
    assert stream.getvalue() == ""
