"""When what could not be removed is tried again; a real forkserver that does is in
tests/security.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from pathlib import Path

import pytest

from lading.process import removal
from lading.supervisor.process.deferred_removal import (
    LONGEST_REMOVAL_PERIOD,
    REMOVAL_PERIOD,
    DeferredRemoval,
)

PATIENCE = 180_000
"""Milliseconds. The process has the lowest priority, so a busy machine makes it wait."""


class Rig:
    """A tidier with a clock that is set by hand. Its processes end at once; they remove something
    when told so.
    """

    def __init__(self, tmp_path: Path) -> None:
        self.now, self.tries, self.works = 0.0, 0, False
        self.places = (tmp_path / "removed", tmp_path / "cache" / "removed")
        self.tidier = DeferredRemoval(
            self.places, fork=self.fork, poll=select.poll(), clock=lambda: self.now
        )

    def fork(self, do: Callable[[], int]) -> int:
        self.tries += 1
        pid = os.fork()
        if not pid:
            os._exit(do() if self.works else 0)
        return pid

    def round(self) -> None:
        """Look, and wait for the end of a try."""
        self.tidier.look()
        for descriptor, _ in self.tidier.poll.poll(PATIENCE) if self.tidier.pidfd >= 0 else ():
            assert self.tidier.take(descriptor)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_where_there_is_nothing_no_process_is_made(rig: Rig) -> None:
    rig.round()
    assert (rig.tries, rig.tidier.timeout()) == (0, REMOVAL_PERIOD)
    assert not rig.tidier.take(-1)


def test_it_is_tried_at_the_start_and_more_rarely_where_nothing_goes(rig: Rig) -> None:
    (rig.places[1] / "layer~1").mkdir(parents=True)
    pauses = []
    for _ in range(9):
        rig.round()
        pauses.append(rig.tidier.timeout())
        rig.now += rig.tidier.timeout()
    assert rig.tries == 9
    assert pauses[:3] == [2 * REMOVAL_PERIOD, 4 * REMOVAL_PERIOD, 8 * REMOVAL_PERIOD]
    assert pauses[-1] == LONGEST_REMOVAL_PERIOD
    rig.works = True
    rig.round()
    assert (rig.tidier.timeout(), removal.waiting(rig.places[1])) == (REMOVAL_PERIOD, [])


def test_there_is_one_process_at_a_time(rig: Rig) -> None:
    (rig.places[0] / "uuid~1").mkdir(parents=True)
    rig.tidier.look()
    rig.now += 2 * REMOVAL_PERIOD
    rig.tidier.look()
    assert rig.tries == 1
    rig.round()
    assert rig.tidier.pidfd == -1
