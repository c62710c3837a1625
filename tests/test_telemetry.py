"""Log lines: one line an event, and never a token."""

from __future__ import annotations

import io
import logging

from lading import telemetry

TOKEN = "v2/zzzzz-gj3su-0123456789abcde/" + "s" * 50


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


def test_events_below_the_level_cost_nothing() -> None:
    stream = io.StringIO()
    telemetry.configure(level="ERROR", stream=stream)
    telemetry.event(logging.getLogger("lading.test"), "quiet")
    assert stream.getvalue() == ""
