"""What the attacks share: real engines, and the table of attacks with their outcome."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.system.conftest import docker_daemon, podman_service

__all__ = ["docker_daemon", "podman_service"]

TABLE = "LADING_ATTACK_TABLE"
"""Environment variable: the file that gets one JSON line per attack and phase."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test of this directory that does not say what its attacker does."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.get_closest_marker("attack") is None:
            raise pytest.UsageError(f'{item.nodeid}: mark it with attack("what the attacker does")')


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the outcome of an attack to the table."""
    report = yield
    marker, table = item.get_closest_marker("attack"), os.environ.get(TABLE)
    if marker is not None and table and (report.when == "call" or not report.passed):
        row = {"attack": marker.args[0], "test": item.nodeid, "outcome": report.outcome}
        with Path(table).open("a") as file:
            file.write(json.dumps(row) + "\n")
    return report
