"""Inputs and outputs of tasks by URL, with a real server, real containers and a real S3 service."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.reality import need_program
from tests.s3_service import Bucket, make_bucket
from tests.system.cluster import running_cluster
from tests.system.test_tes import ENDED, TaskClient, scene, sh
from tests.tes.outside import mean_server
from tests.tes.transfers.test_outputs import written

pytestmark = pytest.mark.system
# The script that Nextflow writes for a task, cut down to what it does with files.
RUN = """
cd /work
printf '' >.command.out; printf '' >.command.err
sh .command.sh >.command.out 2>.command.err
code=$?
printf '%s' $code >.exitcode
exit $code
"""


def nextflow_task(work: Path, script: str, **more: Any) -> dict[str, Any]:
    """The body that the plugin nf-ga4gh sends for a task with the work directory `work`."""
    (work / ".command.run").write_text(RUN)
    (work / ".command.sh").write_text(script)
    url = f"file:///nf/{work.name}"
    names = (".command.out", ".command.err", ".command.log", ".exitcode", "result.txt")
    command = "sh /work/.command.run 2>&1 | tee /work/.command.log"
    return {
        "name": "hello (1)",
        "executors": [
            {
                "image": "tools:1",
                "command": ["sh", "-c", command],
                "workdir": "/work",
            }
        ],
        "inputs": [
            {"path": f"/work/{name}", "url": f"{url}/{name}", "type": "FILE"}
            for name in (".command.run", ".command.sh")
        ],
        "outputs": [
            {"path": f"/work/{name}", "url": f"{url}/{name}", "type": "FILE"} for name in names
        ],
        "resources": {"cpu_cores": 1},
        "tags": {"lading.missing_outputs": "ignore"},
        **more,
    }


async def store_credential(client: TaskClient, bucket: Bucket) -> None:
    """Let the user's tasks use a bucket."""
    body = {
        "name": "bucket",
        "credential_class": "s3",
        "scopes": [f"s3://{bucket.name}?endpoint={bucket.service.endpoint}"],
        "external_id": bucket.service.key,
        "secret": bucket.service.secret,
        "expires_at": "2100-01-01T00:00:00Z",
    }
    await client.api.create("credentials", body)


async def nextflow(client: TaskClient, work: Path) -> None:
    for name, script, code in (
        ("ab12", "echo hello | tee result.txt", "0"),
        ("cd34", "echo oops >&2; exit 7", "7"),
    ):
        place = work / name
        place.mkdir()
        task = await client.api.request("POST", "/v1/tasks", body=nextflow_task(place, script))
        found = await client.until(str(task["id"]), *ENDED)
        assert (place / ".exitcode").read_text() == code, found
        # The pipe ends with tee, whose code Nextflow does not look at.
        assert found["logs"][0]["logs"][0]["exit_code"] == 0
        assert found["state"] == "COMPLETE"
    assert (work / "ab12" / "result.txt").read_text() == "hello\n"
    assert (work / "cd34" / ".command.err").read_text() == "oops\n"


async def bucket_and_server(client: TaskClient, bucket: Bucket) -> None:
    body = os.urandom(3 << 20)
    bucket.write("in/a", b"from a bucket\n")
    async with mean_server() as server:
        url = server.add("/data", body, cuts=[1 << 20], refusals=[503])
        task = await client.create(
            sh("cat /in/d/a /in/data >/out/all; cat /in/d/a; exit 3"),
            inputs=[
                {"path": "/in/data", "url": url},
                {"path": "/in/d", "url": f"s3://{bucket.name}/in", "type": "DIRECTORY"},
            ],
            outputs=[
                {"path": "/out/all", "url": f"s3://{bucket.name}/out/all"},
                {"path": "/out/all", "url": f"{server.url}/put/all"},
            ],
        )
        found = await client.until(task, *ENDED)
        expected = b"from a bucket\n" + body
        assert (found["state"], found["logs"][0]["logs"][0]["stdout"]) == (
            "EXECUTOR_ERROR",
            "from a bucket\n",
        ), found
        assert server.stored == {"/put/all": expected}
    got = bucket.service.client().get_object(Bucket=bucket.name, Key="out/all")["Body"].read()
    assert got == expected
    assert [one["size_bytes"] for one in found["logs"][0]["outputs"]] == [str(len(expected))] * 2


@pytest.mark.quick
def test_tasks_with_urls(tmp_path: Path) -> None:
    need_program("crun")
    work = tmp_path / "nf"
    work.mkdir()
    config = (
        "TES:\n  AllowedNetworks: [127.0.0.0/8]\n"
        f"  FileRoots: {{/nf: {{Path: {work}, Write: true}}}}\n"
    )
    bucket = make_bucket()
    with running_cluster(tmp_path / "data", config) as cluster:
        programs = ("sh", "cat", "tee")
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", *programs)
        scene(cluster, lambda client: store_credential(client, bucket))
        scene(cluster, lambda client: nextflow(client, work))
        scene(cluster, lambda client: bucket_and_server(client, bucket))


def test_a_delivery_that_was_killed_goes_on(tmp_path: Path) -> None:
    need_program("crun")
    place, count = tmp_path / "results", 300
    place.mkdir()
    made: list[str] = []
    script = f"i=0; while [ $i -lt {count} ]; do echo $i >/out/d/$i; i=$((i+1)); done"

    async def begin(client: TaskClient) -> None:
        made.append(
            await client.create(
                sh(f"mkdir /out/d; {script}"),
                outputs=[{"path": "/out/d", "url": "/results/d", "type": "DIRECTORY"}],
            )
        )
        async with asyncio.timeout(60):
            while len(written(place)) < 5:
                await asyncio.sleep(0.01)

    async def end(client: TaskClient) -> None:
        found = await client.until(made[0], *ENDED)
        assert found["state"] == "COMPLETE", found
        assert len(found["logs"][0]["outputs"]) == count

    config = f"TES: {{FileRoots: {{/results: {{Path: {place}, Write: true}}}}}}\n"
    with running_cluster(tmp_path / "data", config) as cluster:
        programs = ("sh", "mkdir")
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", *programs)
        scene(cluster, begin)
        for pid in cluster.pids("server"):
            os.kill(pid, signal.SIGKILL)
        assert len(written(place)) < count
        scene(cluster, end)
    # Each file is whole, and nothing is left of an interrupted one.
    assert written(place) == {f"d/{one}": f"{one}\n".encode() for one in range(count)}


def test_work_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    need_program("crun")
    made: list[str] = []

    async def begin(client: TaskClient) -> None:
        made.append(
            await client.create(
                sh("cat /in/a"), inputs=[{"path": "/in/a", "url": "http://127.0.0.1:9/none"}]
            )
        )

    async def end(client: TaskClient) -> None:
        found = await client.until(made[0], *ENDED)
        assert found["state"] == "SYSTEM_ERROR"
        assert "127.0.0.1: cannot be reached" in found["logs"][0]["system_logs"][0]

    config = "TES: {AllowedNetworks: [127.0.0.0/8]}\n"
    with running_cluster(tmp_path / "data", config) as cluster:
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "cat")
        scene(cluster, begin)
        for pid in cluster.pids("server"):
            os.kill(pid, signal.SIGKILL)
        scene(cluster, end)
