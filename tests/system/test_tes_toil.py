"""Toil with its batch system for TES, unmodified, from the package index: it runs the workflow of
examples/phage with a job store in a live root.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.reality import need_program, need_root
from tests.system.cluster import Cluster, running_cluster
from tests.system.environments import environment

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(1800)]
PHAGE = Path(__file__).parents[2] / "examples" / "phage"
# Toil's tasks write as the owner of the live root. This is an id of no user of the machine.
OWNER = 43210
# Toil's executor gets its worker's command in a pickled dictionary.
WORKER = re.compile(rb"_toil_worker \S+ file:\S+ (\S+) ")
PARTS = ("python", "_toil_contained_executor", "_toil_worker")
TOOLS = ("sh", "bash", "cat", "awk", "env", "node")
ALIGNERS = ("bowtie2", "bowtie2-build", "samtools", "bcftools")


@dataclass(frozen=True)
class Toil:
    """Toil's programs, run as another user of the machine."""

    cluster: Cluster
    programs: Path
    work: Path
    image: str

    def run(self, name: str, *options: str, out: str = "") -> str:
        """Run the workflow with a job store of this name, to a directory named by it or `out`; it
        must succeed. What Toil said.
        """
        program = self.programs / "toil-cwl-runner"
        command = [
            # The environment of Toil is in a directory of root, which its user has to read.
            "setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups",
            "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
            str(self.programs / "python"), str(program), "--batchSystem", "tes",
            "--tesEndpoint", f"https://{self.cluster.environment['ARVADOS_API_HOST']}",
            "--tesBearerToken", self.cluster.environment["ARVADOS_API_TOKEN"],
            "--jobStore", str(self.work / f"store-{name}"), "--workDir", str(self.work),
            "--outdir", str(self.work / f"out-{out or name}"), "--symlinkImports", "False",
            "--no-container", "--disableCaching", "--retryCount", "0",
            "--defaultMemory", "500Mi", "--defaultDisk", "500Mi", *options,
            str(PHAGE / "workflow" / "variants.cwl"), str(PHAGE / "workflow" / "job.yml"),
        ]  # fmt: skip
        variables = {
            "HOME": str(self.work),
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "REQUESTS_CA_BUNDLE": str(self.work / "tls.crt"),
            "TOIL_APPLIANCE_SELF": self.image,
        }
        done = subprocess.run(
            command, env=os.environ | variables, cwd=self.work, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=900, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-6000:]
        return done.stdout

    def report(self, name: str) -> str:
        """The report of a run, in which each sample has a line."""
        return (self.work / f"out-{name}" / "report.txt").read_text()

    def jobs(self) -> list[str]:
        """The id of Toil's job in the command of each task."""
        found = []
        for one in self.tasks():
            packed = base64.b64decode(one["command"][-1])
            match = WORKER.search(packed)
            assert match is not None, packed
            found.append(match[1].decode())
        return found

    def tasks(self) -> list[Any]:
        """All tasks, as requests."""
        found: list[Any] = json.loads(self.cluster.lading("request", "list", "--json").stdout)
        return found


@pytest.fixture
def toil(tmp_path: Path) -> Iterator[Toil]:
    need_root()
    for program in ("crun", "bowtie2", "samtools", "bcftools", "node", "setpriv"):
        need_program(program)
    programs = environment("toil")
    work = tmp_path / "work"
    work.mkdir()
    # Toil looks for its image in a registry, unless its tag has the commit of Toil.
    version = "from toil.version import currentCommit as c; print(c)"
    told = subprocess.run([programs / "python", "-c", version], stdout=subprocess.PIPE, check=True)
    image = f"toil:{told.stdout.decode().strip()}"
    config = f"TES: {{FileRoots: {{{work}: {{Write: true, Live: true}}}}}}\n"
    with running_cluster(tmp_path / "data", config) as cluster:
        names = (*(str(programs / one) for one in PARTS), *TOOLS, *ALIGNERS)
        cluster.lading("image", "add", "--name", image, "--from-host", *names, timeout=900)
        shutil.copyfile(cluster.data / "tls.crt", work / "tls.crt")
        for place in (work, work / "tls.crt"):
            os.chown(place, OWNER, OWNER)
        for place in (tmp_path, *tmp_path.parents):
            if place.is_relative_to(tmp_path.parents[1]):
                place.chmod(0o755)
        yield Toil(cluster, programs, work, image)


def test_toil_runs_the_pipeline_twice(toil: Toil) -> None:
    toil.run("a", "--clean", "never")
    first = toil.report("a")
    assert [line.split()[0] for line in first.splitlines()] == ["sample", "reads_1", "reads_2"]
    assert len(toil.tasks()) == 9
    assert (toil.work / "out-a" / "report.txt").stat().st_uid == OWNER
    # With its job store Toil takes all results of the first run.
    told = toil.run("a", "--clean", "never", "--restart", out="b")
    assert "already been completed" in told
    assert toil.report("b") == first
    assert len(toil.tasks()) == 9
    # Each job of another job store has another id in its command, so no task equals an earlier one.
    toil.run("c")
    assert toil.report("c") == first
    assert len(set(toil.jobs())) == len({one["container_uuid"] for one in toil.tasks()}) == 18
