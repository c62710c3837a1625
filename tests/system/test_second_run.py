"""A workflow with work to do, and what its user waits for it the second time, with unmodified
`arvados-cwl-runner`.

The program looks at its containers every 12 seconds: the four levels of the workflow and the run of
the program in a container come to about 65 s, whatever was reused. So the first run has to do real
work, and is given as much as takes this machine `WORK` seconds of one processor for each sample:
that is the least that it can last.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.reality import need_program, need_root
from tests.system.arvados_client.tools import Tools
from tests.system.cluster import Cluster, running_cluster
from tests.system.records import Api
from tests.system.sequencing import (
    LENGTH,
    Sample,
    make_sample,
    processor_seconds,
    read_genome,
    write_reads,
)
from tests.system.test_newcomer import PHAGE, PROGRAMS, STEPS

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(1800)]
GENOME = PHAGE / "lambda_phage.fa"
WORK = 900
VARIANTS = 60
_SURE = 30.0
_TIMEOUT = 4 * 3600


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Tools]:
    need_root()
    need_program("bowtie2")
    with running_cluster(tmp_path / "data") as cluster:
        cluster.lading("image", "add", "--name", "phage-tools:1", "--from-host", *PROGRAMS)
        cluster.lading("image", "runner", timeout=900)
        yield Tools(cluster, tmp_path)


def test_a_second_run_takes_less_than_a_tenth_of_the_time(tools: Tools, tmp_path: Path) -> None:
    genome = read_genome(GENOME)
    samples = {
        f"reads_{number}": make_sample(genome, variants=VARIANTS, seed=number) for number in (1, 2)
    }
    reads = math.ceil(WORK / processor_seconds(GENOME, samples["reads_1"], tmp_path))
    job = _job(tmp_path, samples, reads)

    result, first = _run(tools, "--submit", job, reused=False)
    _check(tools.cluster, result, samples, reads)

    for way in ("--submit", "--local"):
        again, second = _run(tools, way, job, reused=True)
        assert again == result
        print(f"{way}: {first:.0f} s, then {second:.0f} s")  # noqa: T201 - pytest -s shows what it came to
        assert second < first / 10, f"{way}: {second:.0f} s after {first:.0f} s"


def _job(folder: Path, samples: dict[str, Sample], reads: int) -> Path:
    for seed, (name, sample) in enumerate(samples.items()):
        write_reads(folder / f"{name}.fq.gz", sample, count=reads, seed=seed)
    files = [{"class": "File", "location": str(folder / f"{name}.fq.gz")} for name in samples]
    path = folder / "job.json"
    path.write_text(
        json.dumps({"genome": {"class": "File", "location": str(GENOME)}, "samples": files})
    )
    return path


def _run(tools: Tools, way: str, job: Path, *, reused: bool) -> tuple[dict[str, Any], float]:
    """The result, and how long the user waited for it."""
    api = Api(tools.cluster)
    before, began = api.requests(), monotonic()
    workflow = str(PHAGE / "workflow" / "variants.cwl")
    result = json.loads(
        tools.run("arvados-cwl-runner", way, "--quiet", workflow, str(job), timeout=_TIMEOUT)
    )
    seconds = monotonic() - began
    steps = api.steps(since=before)
    assert sorted(steps) == STEPS
    assert {step.reused for step in steps.values()} == {reused}
    return result, seconds


def _check(
    cluster: Cluster, result: dict[str, Any], samples: dict[str, Sample], reads: int
) -> None:
    """Every read is where it came from, and exactly what was changed is found."""
    lines = [line.split() for line in _text(cluster, result["report"]).splitlines()[1:]]
    assert [line[0] for line in lines] == list(samples)
    for _, aligned, covered, depth, _ in lines:
        assert reads * 0.999 <= int(aligned) <= reads
        assert float(covered.rstrip("%")) > 99
        assert float(depth) == pytest.approx(reads * LENGTH / len(read_genome(GENOME)), rel=0.01)
    for sample, file in zip(samples.values(), result["calls"], strict=True):
        called = [
            line.split("\t")
            for line in _text(cluster, file).splitlines()
            if not line.startswith("#")
        ]
        assert {int(one[1]): one[4] for one in called if float(one[5]) > _SURE} == sample.variants


def _text(cluster: Cluster, file: dict[str, Any]) -> str:
    return cluster.lading("cat", file["location"].removeprefix("keep:")).stdout
