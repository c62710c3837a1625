"""Every case by every way: `make cwl`.

Where all ways give what the table says, each result of `arvados-cwl-runner` equals that of
`cwltool`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cwl.runs import CWLTOOL, LOCAL, SUBMIT, run_cases
from tests.cwl.table import read_cases
from tests.system.cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.long]
WAYS = {"cwltool": (CWLTOOL, ""), "local": (LOCAL, ""), "submit": (SUBMIT, "flow")}
CASES = [(name, case["id"]) for name, (_, tag) in WAYS.items() for case in read_cases(tag=tag)]


class Runs:
    """Runs each way once, when its first case is asked for."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self._found: dict[str, dict[str, str]] = {}

    def result(self, name: str, case: str) -> str:
        """The fault of the case, "" for none."""
        if name not in self._found:
            way, tag = WAYS[name]
            names = {one["id"] for one in read_cases(tag=tag)}
            # Also cwltool's: `cwltest` loads what arvados-cwl-runner adds to it, which asks for a
            # server at once.
            environment = self._cluster.environment
            self._found[name] = run_cases(
                way, self._folder / name, environment=environment, names=names
            )
        return self._found[name].get(case, "was not run")


@pytest.fixture(scope="module")
def runs(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(cluster, tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}-{case}" for name, case in CASES])
def test_case(runs: Runs, name: str, case: str) -> None:
    fault = runs.result(name, case)
    assert fault == "", fault


def test_there_are_enough_of_them() -> None:
    assert len({case["id"] for case in read_cases()}) >= 60
