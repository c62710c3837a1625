"""A handful of the cases in every run of the tests: each kind of input, both ways of running."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cwl.runs import LOCAL, SUBMIT, Way, run_cases
from tests.system.cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]
SOME = (
    "secondary-patterns",
    "directory-listing",
    "workdir-writable-directory",
    "output-json",
    "ext-secrets",
    "exit-failure",
    "flow-scatter-flat",
    "image-default-shell",
    "image-default-python",
    "symlink-outside",
)


WAYS: dict[Way, tuple[str, ...]] = {LOCAL: SOME, SUBMIT: ("flow-expressions",)}


def test_cases(cluster: Cluster, tmp_path: Path) -> None:
    def run(way: Way) -> dict[str, str]:
        return run_cases(way, tmp_path / way.name, environment=cluster.environment, names=WAYS[way])

    with ThreadPoolExecutor() as pool:
        results = dict(zip(WAYS, pool.map(run, WAYS), strict=True))
    assert results == {way: dict.fromkeys(cases, "") for way, cases in WAYS.items()}
