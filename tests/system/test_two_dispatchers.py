"""`make chaos` in small: two dispatchers on one server, and kill -9 of ten processes of every
kind.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reality import need_program, need_root
from tests.system.chaos.sites import two_dispatchers

pytestmark = pytest.mark.system
CONTAINERS, STRIKES, PERIOD = 30, 10, 0.5


async def test_whatever_is_killed_every_request_ends_once(tmp_path: Path) -> None:
    need_root()
    need_program("crun")
    outcome = await two_dispatchers(
        tmp_path, CONTAINERS, seed=1, period=PERIOD, vcpus=4, most=STRIKES
    )
    assert outcome.faults == []
    assert outcome.strikes.total() > 0
