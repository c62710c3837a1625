"""The examples of examples/samples: 50 samples of real reads, a merge and a plot, from the shell,
from Python and in a notebook. What one of them has computed, the others have.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.reality import need, need_program, need_root
from tests.system.cluster import Cluster, running_cluster

pytestmark = pytest.mark.system
EXAMPLE = Path(__file__).parents[2] / "examples" / "samples"
_STEPS = 53


@dataclass(frozen=True)
class Place:
    """A directory with 50 samples, and the server."""

    cluster: Cluster
    directory: Path

    def run(self, *command: str) -> str:
        """Run a program there; the plot."""
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        plot = self.directory / "plot.svg"
        return plot.read_text() if plot.exists() else ""

    @property
    def environment(self) -> dict[str, str]:
        """For programs: the server, and `lading` on the path."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return self.cluster.environment | {"PATH": path}

    def containers(self) -> int:
        """How many there are."""
        listed = self.cluster.lading("request", "list", "--json", "--limit", "1000").stdout
        return len({one["container_uuid"] for one in json.loads(listed)})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    need_root()
    need_program("crun")
    with running_cluster(tmp_path_factory.mktemp("samples") / "data") as cluster:
        it = Place(cluster, tmp_path_factory.mktemp("work"))
        it.run("sh", str(EXAMPLE / "prepare.sh"), ".")
        yield it


def test_shell_and_python(place: Place) -> None:
    shell = ("sh", str(EXAMPLE / "pipeline.sh"))
    python = (sys.executable, str(EXAMPLE / "pipeline.py"))
    plot = place.run(*shell)
    # 24 windows of 2,000 bases and a last one.
    assert plot.count("<rect") == 25
    assert place.containers() == _STEPS
    (place.directory / "plot.svg").unlink()
    assert place.run(*shell) == plot
    assert place.containers() == _STEPS
    stricter = place.run(*python, "20")
    assert stricter != plot
    # The index is that of the shell.
    assert place.containers() == 2 * _STEPS - 1
    (place.directory / "plot.svg").unlink()
    assert place.run(*python, "20") == stricter
    assert place.containers() == 2 * _STEPS - 1


def test_the_notebook(place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    need(shutil.which("jupyter", path=str(Path(sys.executable).parent)) is not None, "jupyter")
    made = executed(place, tmp_path)
    shown = [output for cell in made["cells"] for output in cell.get("outputs", [])]
    images = [
        one["data"]["image/svg+xml"] for one in shown if "image/svg+xml" in one.get("data", {})
    ]
    assert ["".join(image).count("<rect") for image in images] == [25]
    tables = [one["data"]["text/html"] for one in shown if "text/html" in one.get("data", {})]
    assert "50 runs: 50 succeeded" in "".join(tables[0])
    assert "plot" in "".join(tables[1])
    texts = ["".join(one["text"]) for one in shown if one["output_type"] == "stream"]
    assert "".join(texts).split() == [
        *("reuse", "new"),
        *("3", "no", "such", "column", "25"),
    ]


def executed(place: Place, home: Path) -> dict[str, Any]:
    """The notebook with its outputs, executed by a kernel of its own."""
    # A kernel starts in the directory of its notebook.
    name = place.directory / "pipeline.ipynb"
    name.write_text((EXAMPLE / "pipeline.ipynb").read_text())
    done = subprocess.run(
        ["jupyter", "execute", "--inplace", "--kernel_name", "python3", str(name)],
        cwd=place.directory,
        env=place.environment | {"HOME": str(home), "JUPYTER_PLATFORM_DIRS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    notebook: dict[str, Any] = json.loads(name.read_text())
    return notebook
