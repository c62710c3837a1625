"""The calls about runs."""

from __future__ import annotations

from lading.core.records.container_types import REQUESTS
from lading.core.records.record_types import GROUPS
from lading.core.records.run_actions import RUN_READING, RUN_WRITING


def test_a_project_and_a_runner_are_read_alike() -> None:
    for kind in (GROUPS, REQUESTS):
        assert set(RUN_READING) <= set(kind.actions)
    assert set(RUN_WRITING) <= set(GROUPS.actions)
    paths = [action.path for action in GROUPS.actions if action.path]
    assert len(paths) == len(set(paths)) + 1, "contents is one path of two actions"
