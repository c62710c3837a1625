"""`arvados-cwl-runner` on Lading beside `cwltool` alone: 20 of the cases of `tests/cwl`, in turns.

cwltool runs the commands as processes of this machine, without containers, and stores nothing. The
runner looks at its containers 12 seconds after its start and then every 12 seconds
(`arvados_cwl/executor.py`, `poll_interval`; no option sets it, and it listens to no websocket). So
the wall time of a case is that wait for each level of its steps. Cases wait side by side, so all of
them are also run 16 at a time. The server holds its looks until there is an end to tell
(`API.MaxPollHold`): that helps longer steps, of which there is a chain.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from bench.figures import Figure, absent, percentile
from bench.paired import processor_time
from bench.service import SERVER_PID, serving
from tests.cwl.runs import CWLTOOL, IMAGE, LOCAL, PARALLEL, PROGRAMS, Way, run_cases
from tests.system.arvados_client.environment import client_environment
from tests.system.cluster import LADING

CASES: Final = (
    "bind-positions", "bind-records", "stdin-file", "exit-success-codes", "shell-pipe",
    "env-variables", "javascript-library", "file-literal", "file-array", "load-contents",
    "output-json", "glob-patterns", "directory-in", "directory-out", "secondary-patterns",
    "workdir-file", "workdir-writable-directory", "flow-expressions", "flow-scatter", "flow-chain",
)  # fmt: skip


_STEPS, _SECONDS = 3, 17


@dataclass
class _Runner:
    """One way to run the cases; seconds of each round, of each case, and of processor time of a
    case, that of the server included.
    """

    name: str
    way: Way
    rounds: list[float] = field(default_factory=list)
    cases: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def run(self, folder: Path, environment: dict[str, str], names: Sequence[str]) -> None:
        """All cases once. Raises RuntimeError naming those that failed."""
        server = int(environment[SERVER_PID])
        used, began = _children_time() + processor_time(server) / 1000, time.monotonic()
        faults = run_cases(self.way, folder, environment=environment, names=names)
        self.rounds.append(time.monotonic() - began)
        used = _children_time() + processor_time(server) / 1000 - used
        self.processor.append(used / len(names))
        failed = sorted(name for name in names if faults.get(name, "not run"))
        if failed:
            raise RuntimeError(f"{self.name}: {', '.join(failed)} failed: {faults}")
        cases = ElementTree.parse(folder / "results.xml").iter("testcase")
        self.cases += [float(case.get("time", "0")) for case in cases]

    def figures(self, count: int) -> list[Figure]:
        """Its rows."""
        return [
            Figure(
                name=f"{self.name}, one case",
                unit="ms",
                count=len(self.cases),
                p50=percentile(self.cases, 0.5) * 1000,
                p99=percentile(self.cases, 0.99) * 1000,
            ),
            Figure(
                name=f"{self.name}, {count} cases, {self.way.parallel} at a time",
                unit="cases/s",
                count=count * len(self.rounds),
                rate=count / percentile(self.rounds, 0.5),
                client=percentile(self.processor, 0.5) * 1000,
                note=f"{percentile(self.rounds, 0.5):.1f} s; "
                "processor time of all, with server and containers",
            ),
        ]


def measure(*, rounds: int, cases: int) -> list[Figure]:
    """The figures of the first `cases` of the cases. Raises RuntimeError when one of them fails."""
    if os.geteuid() != 0:
        return [absent("arvados-cwl-runner", "the engine of its containers needs root")]
    names = CASES[:cases]
    floor = _Runner("cwltool, no containers", CWLTOOL)
    two = _Runner("arvados-cwl-runner", replace(LOCAL, parallel=CWLTOOL.parallel))
    many = _Runner("arvados-cwl-runner", replace(LOCAL, parallel=PARALLEL))
    with (
        tempfile.TemporaryDirectory(prefix="lading-bench-") as folder,
        serving(Path(folder) / "data") as environment,
    ):
        _add_image(environment)
        runners = (floor, two, many)
        for number in range(rounds):
            for place, one in enumerate(runners):
                one.run(Path(folder) / f"{number}-{place}", environment, names)
        figures = _measure_hold(Path(folder), environment)
    figures += [
        *floor.figures(len(names)), *two.figures(len(names)), *many.figures(len(names))[1:]
    ]  # fmt: skip
    for one in (two, many):
        ratio = percentile(one.rounds, 0.5) / percentile(floor.rounds, 0.5)
        figures.append(
            Figure(
                name=f"wall time of arvados-cwl-runner, {one.way.parallel} at a time, of cwltool",
                unit="times",
                count=rounds,
                rate=ratio,
            )
        )
    return figures


def _measure_hold(folder: Path, environment: dict[str, str]) -> list[Figure]:
    """The wall time of a workflow of long steps, side by side on a server that holds polls and on
    one that does not; both mostly wait.
    """
    document = folder / "chain.cwl"
    document.write_text(json.dumps(_chain()))
    config = json.dumps({"API": {"MaxPollHold": 0}})
    with serving(folder / "plain" / "data", config=config) as plain, ThreadPoolExecutor() as pool:
        _add_image(plain)
        found = pool.map(lambda one: _time_chain(document, one), (plain, environment))
        at_once, held = found
    note = f"{_STEPS} steps of {_SECONDS} s, one after another: {_STEPS * _SECONDS} s of work"
    return [
        Figure(name=name, unit="s", count=1, p50=seconds * 1000, note=note)
        for name, seconds in (
            ("chain of long steps, polls answered at once", at_once),
            ("chain of long steps, polls held", held),
        )
    ]


def _chain() -> dict[str, object]:
    """A workflow whose steps sleep one after another."""
    tool = {
        "class": "CommandLineTool",
        "hints": {"DockerRequirement": {"dockerPull": IMAGE}},
        "baseCommand": ["sh", "-c", f"sleep {_SECONDS}; echo done", "sh"],
        "inputs": {"before": {"type": "File?", "inputBinding": {}}},
        "outputs": {"after": "stdout"},
    }
    steps = {
        f"step{number}": {
            "run": tool,
            "in": {"before": f"step{number - 1}/after"} if number else {},
            "out": ["after"],
        }
        for number in range(_STEPS)
    }
    last = {"type": "File", "outputSource": f"step{_STEPS - 1}/after"}
    kind = {"cwlVersion": "v1.2", "class": "Workflow"}
    return {**kind, "inputs": {}, "outputs": {"last": last}, "steps": steps}


def _time_chain(document: Path, environment: dict[str, str]) -> float:
    programs = client_environment()
    kept = {
        name: value for name, value in environment.items() if not name.startswith(("COV", "PYTHON"))
    }
    command = [str(programs / "arvados-cwl-runner"), "--local", "--disable-reuse", str(document)]
    began = time.monotonic()
    done = subprocess.run(
        command,
        cwd=document.parent,
        env={**kept, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"arvados-cwl-runner failed: {done.stderr[-1000:]}")
    return time.monotonic() - began


def _children_time() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _add_image(environment: dict[str, str]) -> None:
    command = [LADING, "image", "add", "--name", IMAGE, "--from-host", *PROGRAMS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"lading image add failed: {done.stderr.strip()[-500:]}")
