"""Programs of others that speak TES, unmodified, from the package index: py-tes and pydantic-tes,
and Snakemake with its TES plugin, whose jobs store their results in S3.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.reality import need_program, need_root
from tests.system.cluster import Cluster, running_cluster
from tests.system.environments import environment
from tests.system.test_dispatchers import another_host

pytestmark = pytest.mark.system
PHAGE = Path(__file__).parents[2] / "examples" / "phage"
# py-tes 1.1 refuses names and nulls that the standard does not have; pydantic-tes checks types.
PY_TES = """\
import sys, tes, requests
from pydantictes import models
url, token, certificate = sys.argv[1:]
client = tes.HTTPClient(url, token=token, timeout=30)
info = client.get_service_info()
assert info.type["artifact"] == "tes", info
task = tes.Task(
    name="one", description="two", tags={"a": "b"}, volumes=["/vol"],
    resources=tes.Resources(cpu_cores=1, ram_gb=0.2, disk_gb=1.0, preemptible=False),
    inputs=[tes.Input(path="/in/x", content="hello\\n", type="FILE")],
    outputs=[tes.Output(path="/out/y", url="keep:", type="FILE")],
    executors=[tes.Executor(image="tools:1", command=["cat", "/in/x"], stdout="/out/y",
                            env={"A": "b"}, workdir="/vol")])
made = client.create_task(task)
client.wait(made, timeout=120)
bad = client.create_task(tes.Task(executors=[tes.Executor(image="tools:1", command=["false"])]))
client.wait(bad, timeout=120)
for view in ("MINIMAL", "BASIC", "FULL"):
    client.get_task(made, view=view), client.get_task(bad, view=view)
    client.list_tasks(view=view, page_size=1)
found = client.get_task(made, view="FULL")
assert found.state == "COMPLETE" and found.logs[0].logs[0].stdout == "hello\\n", found
assert found.logs[0].outputs[0].size_bytes in (6, "6"), found
assert client.get_task(bad).state == "EXECUTOR_ERROR"
client.cancel_task(made)
call = requests.Session()
call.trust_env, call.verify, call.headers["Authorization"] = False, certificate, f"Bearer {token}"
base = url + "/ga4gh/tes/v1"
models.Service.parse_obj(call.get(base + "/service-info").json())
for one in (made, bad):
    for view in ("MINIMAL", "BASIC", "FULL"):
        # Its model of a task needs executors, which MINIMAL does not have.
        answer = call.get(f"{base}/tasks/{one}?view={view}").json()
        if view != "MINIMAL":
            models.TesTask.parse_obj(answer)
for view in ("BASIC", "FULL"):
    models.TesListTasksResponse.parse_obj(call.get(f"{base}/tasks?view={view}").json())
models.TesCancelTaskResponse.parse_obj(call.post(f"{base}/tasks/{made}:cancel").json())
print("all parsed")
"""
PY_TES_OLD = """\
import sys, tes
url, token = sys.argv[1:]
client = tes.HTTPClient(url, token=token, timeout=30)
info = client.get_service_info()
assert info.name, info
task = tes.Task(executors=[tes.Executor(image="tools:1", command=["sh", "-c", "echo hi"])])
made = client.create_task(task)
client.wait(made, timeout=120)
for view in ("MINIMAL", "BASIC", "FULL"):
    found = client.get_task(made, view=view)
assert (found.state, found.logs[0].logs[0].exit_code) == ("COMPLETE", 0), found
assert found.logs[0].logs[0].stdout == "hi\\n"
client.list_tasks(view="FULL")
print("all parsed")
"""
# The steps of examples/phage, each with its inputs by their names in the collection of the data.
PY_TES_PHAGE = """\
import sys, tes
url, token, data = sys.argv[1:]
client = tes.HTTPClient(url, token=token, timeout=30)
urls = {name: f"keep:{data}/{name}" for name in ("reads_1.fq.gz", "reads_2.fq.gz",
        "lambda_phage.fa", *(f"steps/{n}.awk" for n in ("quality", "index", "place", "report")))}
def step(script, output, *inputs):
    shell = f"cd /in && {script.replace('OUT', '/out/' + output)}"
    made = client.create_task(tes.Task(
        inputs=[tes.Input(path=f"/in/{one}", url=urls[one], type="FILE") for one in inputs],
        outputs=[tes.Output(path=f"/out/{output}", url="keep:", type="FILE")],
        resources=tes.Resources(ram_gb=0.2, disk_gb=1.0), tags={"lading.reuse": "yes"},
        executors=[tes.Executor(image="phage:1", command=["sh", "-c", shell])]))
    client.wait(made, timeout=300)
    task = client.get_task(made, view="FULL")
    assert task.state == "COMPLETE", task
    urls[output] = task.logs[-1].outputs[0].url
    print(output, urls[output], "reused" if "reused" in task.logs[-1].metadata else "run")
step("gzip -dc reads_1.fq.gz reads_2.fq.gz | awk -v minimum=20 -v summary=/tmp/x"
     " -f steps/quality.awk >OUT", "kept.fq", "reads_1.fq.gz", "reads_2.fq.gz", "steps/quality.awk")
step("awk -v k=15 -f steps/index.awk <lambda_phage.fa >OUT", "kmers.txt", "lambda_phage.fa",
     "steps/index.awk")
step("awk -v size=2000 -v summary=/tmp/x -f steps/place.awk kmers.txt kept.fq | sort -n >OUT",
     "windows.txt", "kmers.txt", "kept.fq", "steps/place.awk")
step("awk -f steps/report.awk <windows.txt >OUT", "report.txt", "windows.txt", "steps/report.awk")
"""
SNAKEFILE = """\
rule report:
    input: "windows.txt", "steps/report.awk"
    output: "report.txt"
    shell: "awk -f {input[1]} <{input[0]} >{output}"
rule quality:
    input: "reads_1.fq.gz", "reads_2.fq.gz", "steps/quality.awk"
    output: "kept.fq"
    shell: "gzip -dc {input[0]} {input[1]} | awk -v minimum=20 -v summary=x -f {input[2]} >{output}"
rule index:
    input: "lambda_phage.fa", "steps/index.awk"
    output: "kmers.txt"
    shell: "awk -v k=15 -f {input[1]} <{input[0]} >{output}"
rule place:
    input: "kmers.txt", "kept.fq", "steps/place.awk"
    output: "windows.txt"
    shell: "awk -v size=2000 -v summary=x -f {input[2]} {input[0]} {input[1]} | sort -n >{output}"
"""
_KEYS = {"ACCESS_KEY": "test", "SECRET_KEY": "test"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_root()
    need_program("crun")
    with running_cluster(tmp_path_factory.mktemp("clients") / "data") as running:
        running.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "cat", "false")
        yield running


@dataclass(frozen=True)
class Programs:
    """The programs of an environment, run with the certificate of a server."""

    cluster: Cluster
    place: Path

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"https://{self.cluster.environment['ARVADOS_API_HOST']}"

    @property
    def certificate(self) -> str:
        """That of the server."""
        return str(self.cluster.data / "tls.crt")

    @property
    def token(self) -> str:
        """That of the administrator."""
        return self.cluster.environment["ARVADOS_API_TOKEN"]

    def run(self, *command: str, timeout: float = 300, **more: Any) -> str:
        """What the program says; it must succeed."""
        variables = {"REQUESTS_CA_BUNDLE": self.certificate, **more.pop("env", {})}
        variables["PATH"] = f"{self.place}:{os.environ['PATH']}"
        done = subprocess.run(
            command, env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=timeout, check=False, **more,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-6000:]
        return str(done.stdout)


@pytest.mark.quick
def test_py_tes_and_pydantic_tes_parse_every_answer(cluster: Cluster) -> None:
    programs = Programs(cluster, environment("ga4gh-clients"))
    told = programs.run("python", "-c", PY_TES, programs.url, programs.token, programs.certificate)
    assert told.endswith("all parsed\n")


def test_py_tes_runs_the_pipeline_and_the_second_time_all_is_reused(cluster: Cluster) -> None:
    programs = Programs(cluster, environment("ga4gh-clients"))
    cluster.lading("image", "add", "--name", "phage:1", "--from-host", "sh", "awk", "gzip", "sort")
    data = cluster.lading("put", str(PHAGE)).stdout.strip()
    command = ("python", "-c", PY_TES_PHAGE, programs.url, programs.token, data)
    first, second = (programs.run(*command).splitlines() for _ in range(2))
    assert [one.split()[2] for one in first] == ["run"] * 4
    assert second == [one.replace(" run", " reused") for one in first]
    report = cluster.lading("cat", first[-1].split()[1].removeprefix("keep:")).stdout
    assert report.startswith("Reads on the genome of phage lambda:")


def test_the_py_tes_of_tes_1_0(cluster: Cluster) -> None:
    programs = Programs(cluster, environment("snakemake-tes"))
    told = programs.run("python", "-W", "ignore", "-c", PY_TES_OLD, programs.url, programs.token)
    assert told.endswith("all parsed\n")


@contextmanager
def s3_on_another_host() -> Iterator[str]:
    """The address of an S3 service; containers reach no service of this machine."""
    with another_host() as (run, here):
        url = f"http://{here.rpartition('.')[0]}.2:5000"
        command = [*run, sys.executable, "-m", "moto.server", "-H", "0.0.0.0", "-p", "5000"]
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                deadline = time.monotonic() + 60
                while not _answers(url):
                    assert time.monotonic() < deadline
                    time.sleep(0.2)
                yield url
            finally:
                process.terminate()


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).ok
    except requests.ConnectionError:
        return False


@pytest.mark.long
def test_snakemake_with_its_tes_plugin(cluster: Cluster, tmp_path: Path) -> None:
    programs = Programs(cluster, environment("snakemake-tes"))
    # The plugin installs the storage plugin in each container. This image has it already.
    pip = tmp_path / "programs" / "pip"
    pip.parent.mkdir()
    pip.write_text("#!/bin/sh\nexit 0\n")
    pip.chmod(0o755)
    tools = ("bash", "sh", "mkdir", "cat", "awk", "sort", "gzip", "env", "uname")
    python = str(programs.place / "python")
    names = (python, str(pip), *tools)
    cluster.lading("image", "add", "--name", "snakemake:1", "--from-host", *names, timeout=900)
    with s3_on_another_host() as url:
        bucket = _bucket(url)
        place = tmp_path / "workflow"
        place.mkdir()
        (place / "Snakefile").write_text(SNAKEFILE)
        # The plugin reads this file when a job fails.
        (place / "funnel.log").touch()
        variables = {
            **{f"AWS_{name}": "test" for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")},
            **{f"SNAKEMAKE_STORAGE_S3_{name}": value for name, value in _KEYS.items()},
            "SNAKEMAKE_TES_TOKEN": programs.token,
            "GITHUB_WORKSPACE": str(place),
            "HOME": str(tmp_path),
        }
        command = (
            "snakemake", "--executor", "tes", "--tes-url", programs.url, "--jobs", "4",
            "--container-image", "snakemake:1", "--default-storage-provider", "s3",
            "--default-storage-prefix", f"s3://{bucket}/p", "--storage-s3-endpoint-url", url,
            "--default-resources", "mem_mb=500", "disk_mb=500",
            "--envvars", *(f"SNAKEMAKE_STORAGE_S3_{name}" for name in _KEYS),
        )  # fmt: skip
        told = programs.run(*command, env=variables, cwd=place, timeout=1200)
        assert "4 of 4 steps (100%) done" in told
        report = _client(url).get_object(Bucket=bucket, Key="p/report.txt")["Body"].read()
        assert report.startswith(b"Reads on the genome of phage lambda:")
        tasks = cluster.lading("request", "list", "--json").stdout.count('"uuid"')
        # Jobs store their results themselves: Snakemake finds these, and asks for nothing.
        assert "Nothing to be done" in programs.run(*command, env=variables, cwd=place)
        assert cluster.lading("request", "list", "--json").stdout.count('"uuid"') == tasks


def _client(url: str) -> Any:
    import boto3

    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys)


def _bucket(url: str) -> str:
    """A bucket with the data and the scripts of the pipeline."""
    client, bucket = _client(url), "phage"
    client.create_bucket(Bucket=bucket)
    for path in (*PHAGE.glob("*.fa"), *PHAGE.glob("*.fq.gz"), *PHAGE.glob("steps/*.awk")):
        client.upload_file(str(path), bucket, f"p/{path.relative_to(PHAGE)}")
    return bucket
