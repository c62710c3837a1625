"""Pauses between looks at a batch system."""

from __future__ import annotations

import pytest

from lading.dispatch.fleets.batch.batch_settings import BatchSettings
from lading.dispatch.fleets.batch.job_script import JobSite


@pytest.mark.parametrize(
    ("took", "failures", "pause"),
    [
        (0.1, 0, 2.0),
        (7.0, 0, 7.0),
        (0.1, 1, 4.0),
        (7.0, 2, 28.0),
        (45.0, 0, 30.0),
        (0.1, 1000, 30.0),
    ],
)
def test_a_slow_batch_system_is_asked_as_seldom_as_it_answers(
    took: float, failures: int, pause: float
) -> None:
    site = JobSite(directory="/n", command=("x",), template={})
    assert BatchSettings(token="", site=site).pause_after(took, failures=failures) == pause
    assert (
        BatchSettings(token="", site=site, poll_period=60.0).pause_after(took, failures=failures)
        == 60.0
    )
