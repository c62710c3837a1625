"""Signals that end a command."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from lading.cli.endings.end_signals import Terminated, raise_received, raising


def test_a_signal_is_not_hidden_by_a_failure_that_it_caused() -> None:
    ended = Terminated(signal.SIGHUP)
    try:
        try:
            raise ended
        finally:
            Path("/none/there").touch()
    except OSError as error:
        with pytest.raises(Terminated) as left:
            raise_received(error)
        assert left.value is ended
    raise_received(OSError())


def test_an_ignored_hangup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with raising():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
