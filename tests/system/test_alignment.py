"""A scientist's pipeline on real reads: bowtie2, samtools, bcftools; the known result, equal on
both engines.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.system.cluster import Cluster, running_cluster
from tests.system.docker_daemon import DockerDaemon

pytestmark = pytest.mark.system
DATA = Path(__file__).parents[2] / "examples" / "phage"
IMAGE = "aligners:1"
PROGRAMS = ("sh", "bowtie2", "bowtie2-build", "samtools", "bcftools")


def _run(cluster: Cluster, inputs: dict[str, str], script: str) -> str:
    options = [f"--input={target}={source}" for target, source in inputs.items()]
    limits = ["--vcpus=1", "--ram=1GiB"]
    done = cluster.lading(
        "run",
        "--json",
        f"--image={IMAGE}",
        *limits,
        *options,
        "--",
        "sh",
        "-ec",
        script,
        timeout=300,
    )
    result = json.loads(done.stdout)
    assert result["reused"] is False
    return str(result["output"])


def _align(cluster: Cluster) -> dict[str, str]:
    cluster.lading("image", "add", "--name", IMAGE, "--from-host", *PROGRAMS, timeout=300)
    genome, reads = str(DATA / "lambda_phage.fa"), str(DATA)
    index = _run(cluster, {"/genome.fa": genome}, "bowtie2-build -q /genome.fa lambda")
    aligned = _run(
        cluster,
        {"/index": index, "/reads": reads},
        "bowtie2 -x /index/lambda -1 /reads/reads_1.fq.gz -2 /reads/reads_2.fq.gz "
        "-S /tmp/all.sam 2>rate.txt\n"
        "samtools sort --no-PG -o sorted.bam /tmp/all.sam",
    )
    called = _run(
        cluster,
        {"/aligned": aligned, "/genome/lambda.fa": genome},
        "cp /genome/lambda.fa /tmp/lambda.fa\n"
        "bcftools mpileup --no-version -f /tmp/lambda.fa /aligned/sorted.bam |"
        " bcftools call --no-version -mv -o calls.vcf",
    )
    return {"index": index, "aligned": aligned, "called": called}


@pytest.fixture(scope="module")
def native_outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    with running_cluster(
        tmp_path_factory.mktemp("native"), "Containers: {RuntimeEngine: native}\n"
    ) as cluster:
        outputs = _align(cluster)
        outputs["rate"] = cluster.lading("cat", f"{outputs['aligned']}/rate.txt").stdout
        outputs["vcf"] = cluster.lading("cat", f"{outputs['called']}/calls.vcf").stdout
    return outputs


def test_the_known_alignment_rate(native_outputs: dict[str, str]) -> None:
    assert "94.22% overall alignment rate" in native_outputs["rate"]


def test_the_known_number_of_variants(native_outputs: dict[str, str]) -> None:
    records = [line for line in native_outputs["vcf"].splitlines() if not line.startswith("#")]
    assert len(records) == 88


def test_docker_gives_equal_outputs(
    native_outputs: dict[str, str], docker_daemon: DockerDaemon, tmp_path: Path
) -> None:
    config = f"Containers: {{RuntimeEngine: docker, DockerSocket: {docker_daemon.socket}}}\n"
    with running_cluster(tmp_path / "docker", config) as cluster:
        outputs = _align(cluster)
    assert outputs == {step: native_outputs[step] for step in outputs}
