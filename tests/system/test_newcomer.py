"""A scientist's day with the unmodified Arvados tools and `lading up`, from nothing to a workflow's
result.

What takes minutes, because `arvados-cwl-runner` looks at its containers every twelve seconds, runs
with `make cwl`.
"""

from __future__ import annotations

import filecmp
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reality import need_program, need_root
from tests.system.arvados_client.tools import Tools
from tests.system.cluster import running_cluster
from tests.system.docker_daemon import DockerDaemon
from tests.system.records import Api

pytestmark = pytest.mark.system
PHAGE = Path(__file__).parents[2] / "examples" / "phage"
WORKFLOW = (str(PHAGE / "workflow" / "variants.cwl"), str(PHAGE / "workflow" / "job.yml"))
PROGRAMS = ("sh", "awk", "bowtie2", "bowtie2-build", "samtools", "bcftools")
STEPS = [
    "align",
    "align_2",
    "call",
    "call_2",
    "sort",
    "sort_2",
    "statistics",
    "statistics_2",
    "summarise",
]
REPORT = """\
sample      aligned  covered    depth  variants
reads_1        9404   99.96%    21.44        90
reads_2        9398   99.98%    21.49        89
"""


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    need_root()
    need_program("fusermount3")
    with running_cluster(tmp_path_factory.mktemp("newcomer") / "data") as cluster:
        yield Tools(cluster, tmp_path_factory.mktemp("home"))


def test_files(tools: Tools, tmp_path: Path) -> None:
    reads = PHAGE / "reads_1.fq.gz"

    collection = tools.run(
        "arv-put", "--no-progress", "--name", "lambda phage", f"{PHAGE}/"
    ).strip()
    assert "./reads_1.fq.gz" in tools.run("arv-ls", collection).split()
    tools.run(
        "arv-get", "--no-progress", f"{collection}/reads_1.fq.gz", str(tmp_path / "back.fq.gz")
    )
    assert filecmp.cmp(tmp_path / "back.fq.gz", reads, shallow=False)

    with tools.mounted(tmp_path / "keep") as keep:
        assert {"home", "by_id", "shared", "by_tag"} <= {path.name for path in keep.iterdir()}
        for path in (keep / "home" / "lambda phage", keep / "by_id" / collection):
            subprocess.run(["cmp", path / "reads_1.fq.gz", reads], check=True)
        made = keep / "home" / "made here"
        made.mkdir()
        (made / "note.txt").write_text("written through the mount\n")
        uuid = json.loads((made / ".arvados#collection").read_text())["uuid"]
    assert tools.cluster.lading("cat", f"{uuid}/note.txt").stdout == "written through the mount\n"


def test_images(tools: Tools) -> None:
    digest = tools.cluster.lading(
        "image", "add", "--name", "phage-tools:1", "--from-host", *PROGRAMS
    ).stdout.strip()
    listed = [line.split() for line in tools.run("arv-keepdocker").splitlines()]
    assert ["phage-tools", "1", digest[:12]] in [words[:3] for words in listed]


def test_an_image_of_docker_goes_up_with_arv_keepdocker(
    tools: Tools, docker_daemon: DockerDaemon, tmp_path: Path
) -> None:
    collection = json.loads(
        tools.cluster.lading(
            "image", "add", "--json", "--name", "small:1", "--from-host", "true"
        ).stdout
    )
    tools.cluster.lading("get", collection["collection_uuid"], f"{tmp_path}/")
    host = ["docker", "--host", f"unix://{docker_daemon.socket}"]
    (archive,) = tmp_path.glob("sha256*.tar")
    with archive.open("rb") as file:
        loaded = subprocess.run(
            [*host, "load"], stdin=file, capture_output=True, text=True, check=True
        ).stdout
    subprocess.run([*host, "tag", loaded.split()[-1], "from-docker:2"], check=True)

    docker = Tools(tools.cluster, tools.home, {"DOCKER_HOST": f"unix://{docker_daemon.socket}"})
    docker.run("arv-keepdocker", "from-docker", "2")
    done = tools.cluster.lading(
        "run", "--image=from-docker:2", "--", "sh", "-c", "echo ran >out.txt"
    )
    assert done.returncode == 0


@pytest.mark.long
def test_a_workflow(tools: Tools) -> None:
    """Five steps over two samples, twice by each way: the second time everything is reused."""
    cluster = tools.cluster
    cluster.lading("image", "add", "--name", "phage-tools:1", "--from-host", *PROGRAMS)
    cluster.lading("image", "runner", timeout=900)
    api = Api(cluster)

    for way, options in {"--submit": (), "--local": ("--disable-reuse",)}.items():
        before = api.requests()
        result = json.loads(tools.run("arvados-cwl-runner", way, *options, "--quiet", *WORKFLOW))
        assert (
            cluster.lading("cat", result["report"]["location"].removeprefix("keep:")).stdout
            == REPORT
        )
        first = api.steps(since=before)
        assert sorted(first) == STEPS
        assert not any(step.reused for step in first.values())

        before = api.requests()
        again = json.loads(tools.run("arvados-cwl-runner", way, "--quiet", *WORKFLOW))
        assert again == result
        second = api.steps(since=before)
        assert sorted(second) == STEPS
        assert all(step.reused for step in second.values())
        # The program itself waits for its next look at each level of the workflow, whatever was
        # reused.
        assert (
            sum(step.seconds for step in second.values())
            < sum(step.seconds for step in first.values()) / 10
        )
