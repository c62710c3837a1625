"""Live roots of TES: tasks work in a directory of this machine, as the user that it belongs to."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.core.errors import Malformed
from tests.reality import need_root
from tests.system.cluster import Cluster, running_cluster
from tests.system.test_tes import ENDED, TaskClient, scene, sh

pytestmark = pytest.mark.system
# An id of no user of the machine.
OWNER = 43210


@pytest.fixture
def work(tmp_path: Path) -> Path:
    need_root()
    made = tmp_path / "work"
    made.mkdir()
    (made / "file").write_text("from outside\n")
    for place in (made, made / "file"):
        os.chown(place, OWNER, OWNER)
    return made


@pytest.fixture
def cluster(tmp_path: Path, work: Path) -> Iterator[Cluster]:
    config = f"TES: {{FileRoots: {{/work: {{Path: {work}, Write: true, Live: true}}}}}}\n"
    with running_cluster(tmp_path / "data", config) as running:
        programs = ("sh", "cat", "stat")
        running.lading("image", "add", "--name", "tools:1", "--from-host", *programs)
        yield running


def test_a_task_works_in_a_live_directory(cluster: Cluster, work: Path) -> None:
    async def twice(client: TaskClient) -> None:
        script = "cat file; echo from inside >made; stat -c %u file made"
        logs = []
        for _ in range(2):
            task = await client.create(
                {**sh(script), "workdir": "/in"},
                inputs=[{"path": "/in", "url": "file:///work", "type": "DIRECTORY"}],
                tags={"lading.reuse": "yes"},
            )
            found = await client.until(task, *ENDED)
            assert found["state"] == "COMPLETE", found
            logs.append(found["logs"][0])
        assert logs[0]["logs"][0]["stdout"] == "from outside\n0\n0\n"
        # What it reads may have changed, so no earlier result is taken.
        assert logs[0]["metadata"]["container_uuid"] != logs[1]["metadata"]["container_uuid"]
        assert "/in: live" in logs[1]["metadata"]["not_reused"]

    scene(cluster, twice)
    assert (work / "made").read_text() == "from inside\n"
    assert (work / "made").stat().st_uid == OWNER


def test_the_advice_about_a_group_of_root_is_enough(cluster: Cluster, work: Path) -> None:
    ends: list[tuple[str, str]] = []

    async def write(client: TaskClient) -> None:
        live = [{"path": "/in", "url": "file:///work", "type": "DIRECTORY"}]
        task = await client.create(sh("echo more >>/in/file"), inputs=live)
        found = await client.until(task, *ENDED)
        ends.append((found["state"], " ".join(found["logs"][0].get("system_logs", ()))))

    os.chown(work, OWNER, 0)
    scene(cluster, write)
    assert ends[0][0] == "SYSTEM_ERROR"
    advice = re.search(r"chown -R \d+:\d+ \S+", ends[0][1])
    assert advice is not None, ends
    subprocess.run(advice[0].split(), check=True)
    scene(cluster, write)
    assert ends[1] == ("COMPLETE", "")
    assert (work / "file").read_text() == "from outside\nmore\n"


def test_streams_of_a_live_directory(cluster: Cluster) -> None:
    async def streams(client: TaskClient) -> None:
        live = [{"path": "/in", "url": "file:///work", "type": "DIRECTORY"}]
        task = await client.create({**sh("cat"), "stdin": "/in/file"}, inputs=live)
        found = await client.until(task, *ENDED)
        assert found["logs"][0]["logs"][0]["stdout"] == "from outside\n", found
        with pytest.raises(Malformed, match="is no file in a mount of kind tmp"):
            await client.create({**sh("echo x"), "stdout": "/in/x"}, inputs=live)

    scene(cluster, streams)
