"""How many shells are open at once."""

from __future__ import annotations

import contextlib

import pytest

from lading.core.errors import Unavailable
from lading.web.open_shells import OpenShells, ShellChecks


def test_a_session_has_some() -> None:
    shells = OpenShells(ShellChecks())
    with contextlib.ExitStack() as opened:
        for _ in range(10):
            opened.enter_context(shells.enter("one"))
        with pytest.raises(Unavailable, match="close some"), shells.enter("one"):
            pass
        opened.enter_context(shells.enter("two"))
    with shells.enter("one"):
        pass


def test_a_server_has_more() -> None:
    shells = OpenShells(ShellChecks())
    with contextlib.ExitStack() as opened:
        for number in range(200):
            opened.enter_context(shells.enter(f"session {number}"))
        with pytest.raises(Unavailable, match="try again later"), shells.enter("last"):
            pass
