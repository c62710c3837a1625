"""Snakemake with the plugins of plugins/, on real reads: the real program of the package index."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.reality import need_program, need_root
from tests.system.cluster import Cluster, running_cluster
from tests.system.environments import ROOT
from tests.system.snakemake_environment import PLUGINS, variables

pytestmark = pytest.mark.system
_EXAMPLE = ROOT / "examples" / "samples"
_OPTIONS = (
    *("--executor", "lading", "--jobs", "500", "--lading-image", "samples:1"),
    *("--lading-shell", "sh", "--default-resources", "mem_mb=100", "disk_mb=100"),
)


@dataclass(frozen=True)
class Workflow:
    """A working directory of Snakemake, and the server."""

    cluster: Cluster
    directory: Path
    given: Mapping[str, str] = field(default_factory=dict)
    """Further variables."""

    @property
    def environment(self) -> dict[str, str]:
        """For programs."""
        return {**self.cluster.environment, **variables(), **self.given}

    def write(self, text: str) -> None:
        """The Snakefile."""
        (self.directory / "Snakefile").write_text(text)

    def run(self, *more: str, code: int = 0) -> str:
        """Run it; what Snakemake said."""
        done = subprocess.run(
            ["snakemake", *_OPTIONS, *more],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def requests(self) -> list[dict[str, Any]]:
        """All requests, the newest first."""
        found: list[dict[str, Any]] = json.loads(
            self.cluster.lading("request", "list", "--json", "--limit", "1000").stdout
        )
        return found

    def read(self, path: str) -> str:
        """The text of a file there."""
        return (self.directory / path).read_text()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_root()
    need_program("crun")
    with running_cluster(tmp_path_factory.mktemp("snakemake") / "data") as it:
        programs = ("sh", "awk", "sort", "cat", "sleep", "mkdir", "wc")
        it.lading("image", "add", "--name", "samples:1", "--from-host", *programs)
        python = ("/usr/bin/python3", "bash", "cat", "mkdir")
        it.lading("image", "add", "--name", "python:1", "--from-host", *python)
        yield it


@pytest.fixture
def workflow(cluster: Cluster, tmp_path: Path) -> Workflow:
    return Workflow(cluster, tmp_path)


def test_fifty_samples(workflow: Workflow) -> None:
    subprocess.run(
        ["sh", str(_EXAMPLE / "prepare.sh"), "."],
        cwd=workflow.directory,
        env=workflow.environment,
        check=True,
    )
    workflow.write((_EXAMPLE / "Snakefile").read_text())
    workflow.run()
    plot = workflow.read("plot.svg")
    assert plot.count("<rect") == 25
    first = workflow.requests()
    assert len(first) == 53
    assert "Nothing to be done" in workflow.run()
    # Without its files everything is asked for again, and nothing is computed.
    shutil.rmtree(workflow.directory / "windows")
    for name in ("kmers", "merged", "plot.svg"):
        (workflow.directory / name).unlink()
    workflow.run()
    assert workflow.read("plot.svg") == plot
    containers = {one["container_uuid"] for one in first}
    assert {one["container_uuid"] for one in workflow.requests()} == containers
    workflow.run("--config", "quality=20")
    assert workflow.read("plot.svg") != plot
    # The index stays; samples, merge and plot are new.
    assert len({one["container_uuid"] for one in workflow.requests()}) == 53 + 52
    # Each execution that had something to do is an attempt of one run, each rule a step.
    run = json.loads(workflow.cluster.lading("runs", "show", "last", "--json").stdout)
    assert (run["attempt"], run["state"], run["params"]) == (3, "done", {"quality": 20})
    assert {step["name"] for step in run["steps"]} == {"count", "merge", "plot"}
    before = f"{run['uuid']}#2"
    again = json.loads(workflow.cluster.lading("runs", "show", before, "--json").stdout)
    assert again["counts"]["reused"] == again["counts"]["done"]


@pytest.mark.quick
def test_resources_logs_and_directories(workflow: Workflow) -> None:
    workflow.write("""
rule made:
    output: directory("d"), "b/c.txt"
    log: "logs/b.log"
    threads: 2
    resources: mem_mb=150, disk_mb=20, runtime=5
    shell: "mkdir -p d/e; echo {threads} >d/e/x; echo b >b/c.txt; echo said >{log}; echo more >d/y"
""")
    workflow.run("--cores", "2")
    assert (workflow.read("d/e/x"), workflow.read("d/y")) == ("2\n", "more\n")
    assert (workflow.read("b/c.txt"), workflow.read("logs/b.log")) == ("b\n", "said\n")
    uuid = workflow.requests()[0]["uuid"]
    shown = json.loads(workflow.cluster.lading("request", "show", "--json", uuid).stdout)
    request = shown.get("request", shown)
    assert request["runtime_constraints"]["vcpus"] == 2
    assert request["runtime_constraints"]["ram"] == 150_000_000
    assert request["mounts"]["/out"]["capacity"] == 20_000_000
    assert request["scheduling_parameters"]["max_run_time"] == 300


def test_a_failure_is_explained_and_tried_again(workflow: Workflow) -> None:
    workflow.write("""
rule bad:
    output: "a.txt"
    log: "logs/a.log"
    retries: 1
    resources: mem_mb=lambda wildcards, attempt: 70 * attempt
    shell: "echo in the log >{log}; echo no such column >&2; exit 3"
""")
    said = workflow.run(code=1)
    assert said.count("bad: exit code 3") == 2
    assert "  no such column" in said
    assert "why: Its container ended with exit code 3." in said
    assert workflow.read("logs/a.log") == "in the log\n"
    (log, *_) = sorted((workflow.directory / ".snakemake" / "lading" / "logs").iterdir())
    assert "no such column" in log.read_text()


def test_scripts(workflow: Workflow) -> None:
    scripts = workflow.directory / "scripts"
    scripts.mkdir()
    (workflow.directory / "a.txt").write_text("1\n2\n")
    (scripts / "count.py").write_text(
        "import helper\n"
        "with open(snakemake.input[0]) as table, open(snakemake.output.n, 'w') as out:\n"
        "    print(helper.total(table) * snakemake.params.factor, file=out)\n"
    )
    (scripts / "helper.py").write_text("def total(lines):\n    return sum(map(int, lines))\n")
    (scripts / "twice.sh").write_text('cat "${snakemake_input[0]}"{,} >"${snakemake_output[0]}"\n')
    (scripts / "bad.py").write_text("raise ValueError('no such column')\n")
    workflow.write("""
rule twice:
    input: "n.txt"
    output: "twice.txt"
    script: "scripts/twice.sh"
rule count:
    input: "a.txt", "scripts/helper.py"
    output: n="n.txt"
    params: factor=1.5
    script: "scripts/count.py"
rule bad:
    output: "bad.txt"
    script: "scripts/bad.py"
""")
    python = ("--lading-image", "python:1", "--lading-shell", "bash")
    workflow.run(*python)
    assert workflow.read("twice.txt") == "4.5\n" * 2
    assert "Nothing to be done" in workflow.run(*python)
    said = workflow.run(*python, "--", "bad.txt", code=1)
    assert "ValueError: no such column" in said
    assert 'File "scripts/bad.py", line 1' in said


@pytest.mark.long
def test_a_notebook(workflow: Workflow) -> None:
    # All packages of this environment, a kernel among them: some 700 MB.
    arguments = ("--name", "kernel:1", "--from-host", sys.executable, "sh", "mkdir")
    workflow.cluster.lading("image", "add", *arguments)
    (workflow.directory / "a.txt").write_text("once\n")
    source = (
        "text = open(snakemake.input[0]).read()\nopen(snakemake.output[0], 'w').write(text * 2)"
    )
    cell: dict[str, Any] = {
        "cell_type": "code",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
        "id": "a",
    }
    notebook = {
        "cells": [{**cell, "source": source}],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (workflow.directory / "notes.ipynb").write_text(json.dumps(notebook))
    workflow.write("""
rule noted:
    input: "a.txt"
    output: "noted.txt"
    log: notebook="logs/noted.ipynb"
    resources: mem_mb=500
    notebook: "notes.ipynb"
""")
    workflow.run("--lading-image", "kernel:1")
    assert workflow.read("noted.txt") == "once\n" * 2
    assert "snakemake-job-properties" in workflow.read("logs/noted.ipynb")


def test_other_rules_are_refused(workflow: Workflow) -> None:
    workflow.write('rule py:\n    output: "a"\n    run:\n        open("a", "w")\n')
    assert "rule py: rules with shell:, script: and notebook: run in" in workflow.run(code=1)
    workflow.write('rule out:\n    output: "../a"\n    shell: "echo >{output}"\n')
    assert "not below the working directory" in workflow.run(code=1)


def test_an_unknown_image(workflow: Workflow) -> None:
    workflow.write(
        'rule a:\n    output: "a"\n    container: "docker://no/such:1"\n    shell: "true"\n'
    )
    assert "no/such:1" in workflow.run(code=1)


def test_interrupted_jobs_are_cancelled(workflow: Workflow) -> None:
    workflow.write("""
rule all:
    input: expand("s{n}", n=range(5))
rule slow:
    output: "s{n}"
    shell: "sleep 600; echo {wildcards.n} >{output}"
""")
    with subprocess.Popen(
        ["snakemake", *_OPTIONS],
        cwd=workflow.directory,
        env=workflow.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        _until(lambda: len(_named(workflow, "slow")) == 5)
        # As Ctrl-C does.
        os.kill(process.pid, signal.SIGINT)
        process.wait(60)
    _until(lambda: all(one["state"] == "Final" for one in _named(workflow, "slow")))


def test_a_group_is_one_container(workflow: Workflow) -> None:
    workflow.write("""
rule second:
    input: "first.txt"
    output: "second.txt"
    group: "both"
    shell: "cat {input} {input} >{output}"
rule first:
    output: "first.txt"
    group: "both"
    shell: "echo grouped >{output}"
""")
    before = len(workflow.requests())
    workflow.run()
    assert workflow.read("second.txt") == "grouped\n" * 2
    assert len(workflow.requests()) == before + 1


def test_storage(workflow: Workflow) -> None:
    (workflow.directory / "in").mkdir()
    for name in ("x", "y"):
        (workflow.directory / "in" / f"{name}.txt").write_text(f"{name}\n")
    workflow.cluster.lading("put", "--name", "stored", str(workflow.directory / "in"))
    workflow.write("""
rule all:
    input: storage("lading://results/all.txt")
rule one:
    input: storage("lading://stored/{name}.txt")
    output: storage("lading://results/{name}.one")
    shell: "cat {input} {input} >{output}"
rule join:
    input: [storage(f"lading://results/{name}.one") for name in "xy"]
    output: storage("lading://results/all.txt")
    shell: "cat {input} >{output}"
""")
    workflow.run()
    assert workflow.cluster.lading("cat", "results/all.txt").stdout == "x\nx\ny\ny\n"
    assert "Nothing to be done" in workflow.run()
    before = len(workflow.requests())
    # The same content again does not look new.
    workflow.run("--forcerun", "one", "--until", "one")
    assert len(workflow.requests()) == before + 2
    assert "Nothing to be done" in workflow.run()


@pytest.mark.parametrize("name", ["executor", "storage"])
def test_the_tests_of_the_plugins(name: str) -> None:
    plugin = PLUGINS / f"snakemake-{name}-plugin-lading"
    done = subprocess.run(
        [
            "python",
            "-m",
            "pytest",
            "-q",
            "-c",
            str(plugin / "pyproject.toml"),
            str(plugin / "tests"),
        ],
        env=os.environ | variables(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _named(workflow: Workflow, name: str) -> list[dict[str, Any]]:
    return [one for one in workflow.requests() if str(one["name"]).startswith(name)]


def _until(condition: Any) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.2)


def test_secrets_are_given_and_not_recorded(workflow: Workflow) -> None:
    given = {"DB_PASSWORD": "canary-of-a-variable", "HF_TOKEN": "shown"}
    workflow = replace(workflow, given=given)
    (workflow.directory / "key").write_text("canary-of-a-file\n")
    workflow.write("""
envvars: "DB_PASSWORD", "HF_TOKEN"
rule secret:
    output: "length.txt"
    shell: 'echo "${{#DB_PASSWORD}} $(wc -c </etc/key)" >{output}'
""")
    said = workflow.run("--lading-secret", "DB_PASSWORD", "/etc/key=@key")
    assert workflow.read("length.txt") == "20 17\n"
    assert "HF_TOKEN: envvars: are shown to everybody" in said
    uuid = workflow.requests()[0]["uuid"]
    record = workflow.cluster.lading("request", "show", "--json", uuid).stdout
    assert "canary" not in record + said
    assert '"HF_TOKEN": "shown"' in record
