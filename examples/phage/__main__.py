"""The demonstration: a pipeline of four containers, run three times with the `lading` command
alone.

First everything runs; then the same again, and every step is reused; then with one parameter
changed, and only what depends on it runs. It starts its own `lading up` in a temporary directory
and leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LADING = str(Path(sys.executable).with_name("lading"))
IMAGE = "phage-tools:1"
PROGRAMS = ("sh", "awk", "gzip", "sort")


@dataclass(frozen=True)
class Outcome:
    """Result of one step of one pass."""

    step: str
    request: str
    output: str
    reused: bool
    seconds: float


class Pipeline:
    """The four steps, each one `lading run`."""

    def __init__(self, environment: dict[str, str], *, minimum_quality: int) -> None:
        self._environment = environment
        self._quality = minimum_quality
        self.outcomes: list[Outcome] = []

    def run(self) -> str:
        """Run every step; the report."""
        self._step(
            "quality",
            {"/in": f"{HERE}/reads_1.fq.gz", "/in2": f"{HERE}/reads_2.fq.gz"},
            "gzip -dc /in /in2 | awk -v minimum=$QUALITY -v summary=summary.txt -f /step >kept.fq",
            QUALITY=str(self._quality),
        )
        self._step(
            "index", {"/in": f"{HERE}/lambda_phage.fa"}, "awk -v k=15 -f /step </in >kmers.txt"
        )
        self._step(
            "place",
            {"/index": self._output("index"), "/reads": self._output("quality")},
            "awk -v size=2000 -v summary=summary.txt -f /step /index/kmers.txt /reads/kept.fq"
            " | sort -n >windows.txt",
        )
        self._step(
            "report", {"/in": self._output("place")}, "awk -f /step </in/windows.txt >report.txt"
        )
        return lading(self._environment, "cat", f"{self._output('report')}/report.txt").stdout

    def _output(self, step: str) -> str:
        return next(one.output for one in self.outcomes if one.step == step)

    def _step(self, name: str, inputs: dict[str, str], script: str, **variables: str) -> None:
        mounts = {**inputs, "/step": f"{HERE}/steps/{name}.awk"}
        options = [f"--input={target}={source}" for target, source in mounts.items()]
        options += [f"--env={key}={value}" for key, value in variables.items()]
        began = time.monotonic()
        done = lading(
            self._environment,
            "run",
            "--json",
            f"--image={IMAGE}",
            *options,
            "--",
            "sh",
            "-ec",
            script,
        )
        result = json.loads(done.stdout)
        self.outcomes.append(
            Outcome(
                name, result["uuid"], result["output"], result["reused"], time.monotonic() - began
            )
        )


def lading(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one `lading` command. Ends the demonstration with the command's own words when it
    fails.
    """
    done = subprocess.run(
        [LADING, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(
            f"{done.stderr}'lading {' '.join(arguments)}' ended with exit code {done.returncode}"
        )
    return done


def check_machine() -> None:
    """Leave with what `lading doctor` says where no container can run."""
    done = subprocess.run([LADING, "doctor"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)


@contextlib.contextmanager
def server(data: Path) -> Iterator[dict[str, str]]:
    """`lading up` on a free port, stopped at the end; the environment for its clients."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [LADING, "up", "--data", str(data), "--listen", address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise SystemExit(f"'lading up' did not start (exit code {process.wait()})")
            print(line, end="", flush=True)
            yield os.environ | read_env(data / "env")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def read_env(path: Path) -> dict[str, str]:
    """The variables that a shell would have after sourcing the file."""
    lines = (line.removeprefix("export ") for line in path.read_text().splitlines())
    return dict(line.split("=", 1) for line in lines)


def show(title: str, pipeline: Pipeline, seconds: float) -> None:
    """Print what ran, how long it took and what was reused."""
    print(f"\n{title}: {seconds:.2f} s")
    print(f"  {'step':9} {'':7} {'seconds':>7}  output")
    for one in pipeline.outcomes:
        print(
            f"  {one.step:9} {'reused' if one.reused else 'ran':7} {one.seconds:7.2f}  {one.output}"
        )


def run_pass(
    title: str, environment: dict[str, str], *, minimum_quality: int, expect_run: set[str]
) -> tuple[Pipeline, str]:
    """Run the pipeline once, print it, and check that exactly the expected steps ran."""
    began = time.monotonic()
    pipeline = Pipeline(environment, minimum_quality=minimum_quality)
    report = pipeline.run()
    show(title, pipeline, time.monotonic() - began)
    ran = {one.step for one in pipeline.outcomes if not one.reused}
    if ran != expect_run:
        raise SystemExit(f"expected to run {sorted(expect_run)}, ran {sorted(ran)}")
    return pipeline, report


def explain(environment: dict[str, str], pipeline: Pipeline) -> None:
    """Print why each step of a pass ran."""
    for one in pipeline.outcomes:
        if one.reused:
            continue
        why: dict[str, Any] = json.loads(
            lading(environment, "request", "why", "--json", one.request).stdout
        )
        for difference in why["decision"]["nearest"]["differences"]:
            print(
                f"  {one.step:8} {difference['field']}: "
                f"{difference['container']} -> {difference['request']}"
            )


def main() -> None:
    """Run the demonstration."""
    check_machine()
    with (
        tempfile.TemporaryDirectory(prefix="lading-demo-") as directory,
        server(Path(directory)) as environment,
    ):
        print(f"\nAn image of this machine's own programs: {', '.join(PROGRAMS)}", flush=True)
        lading(environment, "image", "add", "--name", IMAGE, "--from-host", *PROGRAMS)
        everything = {"quality", "index", "place", "report"}
        _, report = run_pass("First pass", environment, minimum_quality=15, expect_run=everything)
        print(f"\n{report}")
        run_pass("Second pass, nothing changed", environment, minimum_quality=15, expect_run=set())
        changed, _ = run_pass(
            "Third pass, minimum quality 15 -> 20",
            environment,
            minimum_quality=20,
            expect_run=everything - {"index"},
        )
        print("\nReason (`lading request why`):")
        explain(environment, changed)


if __name__ == "__main__":
    main()
