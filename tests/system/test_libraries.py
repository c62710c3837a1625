"""Libraries of other people, unmodified, from the package index, with a real server: they read and
write by the file system of fsspec, and run functions in containers by their executors.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reality import need_program
from tests.system.cluster import Cluster, running_cluster
from tests.system.environments import ROOT, environment
from tests.system.library_scripts import EXECUTORS, REGISTER, SCRIPTS

PYTHON = "/usr/bin/python3"
pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("libraries") / "data") as running:
        yield running


def execute(cluster: Cluster, script: str, directory: Path) -> str:
    """Run a script in the environment of the libraries; what it wrote. It must succeed."""
    variables = {**cluster.environment, "PYTHONPATH": str(ROOT / "src"), "HOME": str(directory)}
    (directory / "script.py").write_text(script)
    done = subprocess.run(
        [environment("libraries") / "python", "script.py"],
        cwd=directory, env=variables, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("library", SCRIPTS)
def test_a_library_reads_and_writes(cluster: Cluster, library: str, tmp_path: Path) -> None:
    execute(cluster, REGISTER + SCRIPTS[library], tmp_path)


@pytest.fixture(scope="module")
def image(cluster: Cluster) -> None:
    """An image with Python."""
    need_program("crun")
    cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "bash", "wc", PYTHON)


@pytest.mark.parametrize("library", EXECUTORS)
def test_functions_run_in_containers(
    cluster: Cluster, image: None, library: str, tmp_path: Path
) -> None:
    execute(cluster, EXECUTORS[library], tmp_path)


def test_the_tests_of_the_executors_with_these_packages() -> None:
    tests = ROOT / "tests" / "client" / "executors"
    options = [
        "--noconftest",
        "-c",
        os.devnull,
        "--import-mode=importlib",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [environment("libraries") / "python", "-m", "pytest", "-q", *options, tests],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert "skipped" not in done.stdout
