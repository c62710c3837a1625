from __future__ import annotations

import pytest

from lading.process.cancellation import Stopped, check_stop, never


def test_a_step_is_asked_at_every_256th_entry() -> None:
    calls = []

    def stop() -> bool:
        calls.append(asked)
        return len(calls) == 3

    asked = 0
    with pytest.raises(Stopped):
        while True:
            asked = check_stop(asked, stop)
    assert calls == [0, 256, 512]


def test_a_step_that_cannot_be_stopped_goes_on() -> None:
    assert check_stop(0, never) == 1
