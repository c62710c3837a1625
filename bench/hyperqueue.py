"""HyperQueue as a peer: its server and a worker on this machine run `crun run` of the floor's
bundle.

The package `hyperqueue` of the Python Package Index has no program `hq`: its one binary is an
extension module that holds server and worker. So one Python process starts both through its
`LocalCluster`, without a journal: nothing is saved, not even the streams of a task.

`wait_for_jobs` looks once a second. Therefore the end of a burst is the moment at which a last
task, which depends on all others, has made a file.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, TypeVar

import msgspec

from bench.floors import beside_unified
from tests.system.environments import environment

AT_ONCE: Final = 2
_Answer = TypeVar("_Answer")
_DRIVER: Final = """
import json, os, sys, time
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
bundle, work, cores = sys.argv[1], sys.argv[2], int(sys.argv[3])
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
number = 0
def run(job, action, **more):
    global number
    number += 1
    name = f"lading-bench-hq-{os.getpid()}-{number}"
    words = ["crun", "--cgroup-manager=disabled", "run", "--bundle", bundle]
    config = ["--config", os.path.join(bundle, action + ".json")]
    return job.program([*words, *config, name], stderr=None, **more)
def await_file(path, size):
    while not (os.path.exists(path) and os.path.getsize(path) >= size):
        time.sleep(0.002)
def burst(client, count):
    job, done = Job(default_workdir=work), os.path.join(work, "done")
    tasks = [run(job, "true", stdout=None) for _ in range(count)]
    job.program(["touch", done], stdout=None, stderr=None, deps=tasks)
    began = time.time()
    submitted = client.submit(job)
    client.wait_for_jobs([submitted])
    seconds = os.stat(done).st_mtime - began
    os.unlink(done)
    return seconds
def single(client):
    job, out = Job(default_workdir=work), os.path.join(work, "out")
    run(job, "date", stdout=out)
    began = time.time()
    client.submit(job)
    await_file(out, 20)
    ran = int(open(out).read()) / 1e9
    os.unlink(out)
    return ran - began
with LocalCluster(worker_config=WorkerConfig(cores=cores)) as cluster:
    client = cluster.client()
    answers.write("ready\\n"); answers.flush()
    for line in sys.stdin:
        kind, count = line.split()
        if kind == "burst":
            found = burst(client, int(count))
        else:
            found = [single(client) for _ in range(int(count))]
        answers.write(json.dumps(found) + "\\n"); answers.flush()
"""


class HyperQueue:
    """A running server with one worker."""

    def __init__(self, to: IO[str], answers: IO[str]) -> None:
        self._to, self._answers = to, answers

    def burst(self, count: int) -> float:
        """Seconds from the submission of one job with `count` tasks to the end of the last one.
        Raises RuntimeError.
        """
        return self._ask(f"burst {count}", float)

    def singles(self, count: int) -> list[float]:
        """Seconds from the submission of a job with one task to its user code, one at a time.
        Raises RuntimeError.
        """
        return self._ask(f"single {count}", list[float])

    def _ask(self, what: str, kind: type[_Answer]) -> _Answer:
        self._to.write(f"{what}\n")
        self._to.flush()
        answer = self._answers.readline()
        if not answer:
            raise RuntimeError(f"HyperQueue ended at {what!r}")
        return msgspec.json.decode(answer, type=kind)


@contextlib.contextmanager
def running_hyperqueue(bundle: Path, work: Path) -> Iterator[HyperQueue]:
    """A server and a worker with two cores, with their files below `work`. Raises RuntimeError with
    what they said when they do not start.
    """
    work.mkdir()
    python = environment("hyperqueue") / "python"
    command = [str(python), "-c", _DRIVER, str(bundle), str(work), str(AT_ONCE)]
    with (work / "log").open("w+") as log:
        driver = subprocess.Popen(
            beside_unified(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=work,
            text=True,
        )
        assert driver.stdin is not None
        assert driver.stdout is not None
        with driver.stdin, driver.stdout:
            try:
                if driver.stdout.readline() != "ready\n":
                    log.seek(0)
                    raise RuntimeError(f"HyperQueue did not start: {log.read()[-500:]}")
                yield HyperQueue(driver.stdin, driver.stdout)
            finally:
                driver.stdin.close()
                try:
                    driver.wait(30)
                except subprocess.TimeoutExpired:
                    driver.kill()
                    driver.wait()
