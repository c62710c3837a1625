"""`python -m bench.samples`: 50 samples, a merge and a plot (`examples/samples`) by several
programs, in turns: from submission to the plot, for the first time, with nothing changed, and with
one parameter changed.

Lading's three ways each have a server of their own, with nothing computed before. The others are
what is installed: `xargs -P2 docker run`, Snakemake alone (on this machine's programs, without
containers) and `hq`. Nothing is reused by xargs and hq, as nothing in them can.

First runs are compared with two floors. The containers' own time is what their records have from
started_at to finished_at: that of index, merge and plot, which run alone, and half of that of the
samples, two of which run at a time. It grows with whatever else the two processors do meanwhile, of
Lading and of others, and a ratio to it looks better for that. The other floor is bare `crun run` of
the same steps, two at a time, level by level, from bundles that were made before, in the same turns
(`bench.sample_floor`): nothing is stored, hashed or logged, so nothing can come close to it.
Wall times grow with other load, too; the processor time of everything that took part (client,
server, dispatcher, supervisors, containers) hardly does. A second table has it by part for first
runs. A supervisor that was retired meanwhile counts as `crun and commands` (`bench.account`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from bench.account import CHILDREN, KINDS, counters
from bench.floors import find_daemon, own_daemon
from bench.paired import processor_time
from bench.sample_floor import crun_command, unpack_image, write_bundles
from bench.service import SERVER_PID, connected, serving
from lading.client.api import Record

EXAMPLE = Path(__file__).parents[1] / "examples" / "samples"
_PASSES = ((15, "first"), (15, "nothing changed"), (20, "one parameter changed"))
_FIRST = (
    "processor time, first",
    "of the server",
    "containers' own time by records",
    "first, of the containers' own",
    "first, of crun's",
    "processor time, of crun's",
)
_AT_ONCE = 2
_ALONE = frozenset({"index", "merge", "plot"})
"""Steps beside which no other step of the pipeline can run."""
_FLOOR = "crun run, two at a time"
_SNAKEMAKE = (
    *("--executor", "lading", "--jobs", "500", "--lading-image", "samples:1"),
    *("--lading-shell", "sh", "--default-resources", "mem_mb=100", "disk_mb=100"),
)
# What a shell does for one sample, before and after which the genome and all samples are done.
_COUNT = (
    "awk -v minimum=$QUALITY -v summary=/dev/null -f steps/quality.awk reads/$1 >kept.$1 && "
    "awk -v size=2000 -v summary=/dev/null -f steps/place.awk kmers kept.$1 | sort -n >windows/$1"
)
_INDEX = "mkdir -p windows && awk -v k=15 -f steps/index.awk lambda_phage.fa >kmers"
_MERGE = "awk -f steps/merge.awk windows/* | sort -n >merged"
_PLOT = "awk -f steps/plot.awk merged >plot.svg"
_HQ = """
import os, sys
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
cores, index, count, merge, plot, quality = sys.argv[1:]
with LocalCluster(worker_config=WorkerConfig(cores=int(cores))) as cluster:
    client = cluster.client()
    job = Job(default_workdir=os.getcwd(), default_env={"QUALITY": quality})
    def run(script, *words, deps=()):
        return job.program(["sh", "-ec", script, "sh", *words], stdout=None, stderr=None, deps=deps)
    first = run(index)
    counts = [run(count, name, deps=[first]) for name in sorted(os.listdir("reads"))]
    run(plot, deps=[run(merge, deps=counts)])
    client.wait_for_jobs([client.submit(job)])
"""


@dataclass
class Contender:
    """One way to the plot: a command for a minimum quality, in its own directory."""

    name: str
    directory: Path
    environment: dict[str, str]
    command: Callable[[int], Sequence[str]]
    seconds: list[float] = field(default_factory=list)
    recorded: list[float] = field(default_factory=list)
    """Seconds of its containers by their records for each pass (`_own_seconds`)."""
    processor: list[float] = field(default_factory=list)
    """Seconds of processor time for each pass, of its server, too."""
    served: list[float] = field(default_factory=list)
    """Seconds of processor time of the API server alone, for each pass."""
    parts: list[dict[str, float]] = field(default_factory=list)
    """Seconds of processor time by part, for each pass through a server."""

    def run(self, quality: int) -> None:
        """Run it, and note what it took. Raises RuntimeError with what it said."""
        plot = self.directory / "plot.svg"
        plot.unlink(missing_ok=True)
        used, served = self._processor_time(), self._served(is_all=False)
        before = self._parts()
        began = time.monotonic()
        done = subprocess.run(
            self.command(quality),
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - began
        if done.returncode or not plot.exists():
            raise RuntimeError(f"{self.name}: {(done.stdout + done.stderr).strip()[-500:]}")
        self.seconds.append(seconds)
        self.processor.append(self._processor_time() - used)
        self.served.append(self._served(is_all=False) - served)
        self.parts.append({part: now - before[part] for part, now in self._parts().items()})

    def _parts(self) -> dict[str, float]:
        if not (up := self.environment.get(SERVER_PID)):
            return {}
        ticks, second = counters(int(up)), os.sysconf("SC_CLK_TCK")
        kinds = (*KINDS.values(), CHILDREN)
        parts = {kind: (ticks[f"{kind} user"] + ticks[f"{kind} system"]) / second for kind in kinds}
        return {"client": _of_children(), **parts}

    def _processor_time(self) -> float:
        return _of_children() + self._served()

    def _served(self, *, is_all: bool = True) -> float:
        up = self.environment.get(SERVER_PID)
        if not up:
            return 0.0
        return processor_time(int(up) if is_all else _server_of(int(up))) / 1000


def _of_children() -> float:
    """Seconds of processor time of the programs that were run here and have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def main() -> int:
    """Measure, and print a table; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.samples", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("--snakemake", type=Path, help="the directory of Snakemake's programs")
    parser.add_argument("--hq", type=Path, help="a Python that has the package hyperqueue")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder, ExitStack() as stack:
        contenders = list(_contenders(Path(folder), stack, options))
        for quality, _ in _PASSES:
            for one in contenders:
                began = time.time()
                one.run(quality)
                if "lading" in one.name:
                    one.recorded.append(asyncio.run(_recorded_seconds(one.environment, began)))
    _show(contenders)
    return 0


def _contenders(folder: Path, stack: ExitStack, options: argparse.Namespace) -> Iterator[Contender]:
    shell = ("sh", str(EXAMPLE / "pipeline.sh"))
    python = (sys.executable, str(EXAMPLE / "pipeline.py"))
    yield _lading("lading, shell", folder / "shell", stack, lambda q: (*shell, str(q)))
    yield _lading("lading, Python", folder / "python", stack, lambda q: (*python, str(q)))
    snakemake = options.snakemake and str(options.snakemake / "snakemake")
    if snakemake:
        one = _lading(
            "lading, Snakemake",
            folder / "snakemake",
            stack,
            lambda q: (snakemake, *_SNAKEMAKE, "--config", f"quality={q}"),
        )
        plugins = (EXAMPLE.parents[1] / "plugins").iterdir()
        modules = (EXAMPLE.parents[1] / "src", *plugins)
        one.environment["PYTHONPATH"] = ":".join(map(str, modules))
        shutil.copy(EXAMPLE / "Snakefile", one.directory)
        yield one
        alone = _prepared(folder / "alone", folder / "shell")
        shutil.copy(EXAMPLE / "Snakefile", alone)
        yield Contender(
            "Snakemake alone",
            alone,
            dict(os.environ),
            lambda q: (snakemake, "--cores", str(_AT_ONCE), "--config", f"quality={q}"),
        )
    archive = _image_archive(folder)
    if shutil.which("crun"):
        yield _crun(archive, folder)
    if docker := _docker(archive, folder, stack):
        yield docker
    if options.hq:
        yield _hq(options.hq, folder)


def _lading(
    name: str, directory: Path, stack: ExitStack, command: Callable[[int], Sequence[str]]
) -> Contender:
    """A way through a server of its own."""
    directory.mkdir()
    environment = stack.enter_context(serving(directory / "data"))
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    work = directory / "work"
    subprocess.run(
        ["sh", str(EXAMPLE / "prepare.sh"), str(work)],
        env=environment,
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return Contender(name, work, environment, command)


def _prepared(directory: Path, prepared: Path) -> Path:
    """A directory with the samples of another."""
    shutil.copytree(prepared / "work", directory)
    return directory


def _image_archive(folder: Path) -> Path:
    """The image that Lading made, as `docker save` would write it."""
    shell = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with (folder / "shell" / "data" / "env").open() as file:
        lines = (line.removeprefix("export ").strip().split("=", 1) for line in file)
        shell |= dict(lines)
    image = folder / "image"
    found = subprocess.run(
        ["sh", "-c", "lading image ls | awk 'NR == 2 { print $NF }'"],
        env=shell,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    subprocess.run(["lading", "get", found, str(image)], env=shell, check=True, stderr=-3)
    (archive,) = image.glob("*.tar")
    return archive


def _crun(archive: Path, folder: Path) -> Contender:
    """The floor: `crun run` of the same steps."""
    work = _prepared(folder / "crun-work", folder / "shell")
    rootfs = unpack_image(archive, folder / "rootfs")
    samples = {one.name: (_COUNT, one.name) for one in sorted((work / "reads").iterdir())}
    scripts = {"index": (_INDEX,), **samples, "merge": (_MERGE,), "plot": (_PLOT,)}
    bundles = folder / "bundles"
    for quality in {quality for quality, _ in _PASSES}:
        write_bundles(
            bundles / str(quality), rootfs=rootfs, work=work, quality=quality, scripts=scripts
        )
    return Contender(
        _FLOOR, work, dict(os.environ), lambda quality: crun_command(bundles / str(quality))
    )


def _docker(archive: Path, folder: Path, stack: ExitStack) -> Contender | None:
    """`xargs -P2 docker run`, with the image that Lading made."""
    host = find_daemon() or stack.enter_context(own_daemon(folder))
    if not host:
        return None
    loaded = subprocess.run(
        ["docker", "--host", host, "load", "-q", "-i", str(archive)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()[-1]
    work = _prepared(folder / "docker-work", folder / "shell")
    run = f"docker run --rm --network none -e QUALITY -v {work}:/w -w /w {loaded} sh -ec"
    script = (
        f"{run} '{_INDEX}' && "
        f"ls reads | xargs -P{_AT_ONCE} -n1 {run} '{_COUNT}' sh && "
        f"{run} '{_MERGE}' && {run} '{_PLOT}'"
    )
    return Contender(
        f"xargs -P{_AT_ONCE} docker run",
        work,
        {**os.environ, "DOCKER_HOST": host},
        lambda q: ("sh", "-ec", f"export QUALITY={q}; {script}"),
    )


def _hq(python: Path, folder: Path) -> Contender:
    """HyperQueue through its Python package; the start of its server and worker counts, too."""
    work = _prepared(folder / "hq-work", folder / "shell")
    words = [str(python), "-c", _HQ, str(_AT_ONCE), _INDEX, _COUNT, _MERGE, _PLOT]
    return Contender("hq", work, dict(os.environ), lambda q: (*words, str(q)))


def _server_of(up: int) -> int:
    """The process id of the API server of a `lading up`."""
    children = Path(f"/proc/{up}/task/{up}/children").read_text().split()
    return next(
        int(one)
        for one in children
        if b"wiring.server" in Path(f"/proc/{one}/cmdline").read_bytes()
    )


async def _recorded_seconds(environment: dict[str, str], began: float) -> float:
    """The containers' own time of a pass, in seconds."""
    requests: list[Record] = []
    containers: list[Record] = []
    async with connected(environment) as api:
        async for page in api.pages("container_requests", select=("name", "container_uuid")):
            requests += page
        async for page in api.pages("containers", filters=[["state", "=", "Complete"]]):
            containers += page
    names = {one["container_uuid"]: one["name"] for one in requests}
    return own_seconds(
        (names[one["uuid"]], *_span(one)) for one in containers if began <= _span(one)[0]
    )


def _span(container: Record) -> tuple[float, float]:
    start, end = (
        datetime.fromisoformat(container[name]).timestamp()
        for name in ("started_at", "finished_at")
    )
    return start, end


def own_seconds(containers: Iterable[tuple[str, float, float]]) -> float:
    """The seconds of containers, each with the name of its request, its start and its end, when two
    samples run at a time and the other steps alone.
    """
    return sum(
        (end - start) / (1 if name in _ALONE else _AT_ONCE) for name, start, end in containers
    )


def _show(contenders: Sequence[Contender]) -> None:
    floor = next((one for one in contenders if one.name == _FLOOR), None)
    print(f"| | {' | '.join(title for _, title in _PASSES)} | {' | '.join(_FIRST)} |")
    print("|" + "---|" * (1 + len(_PASSES) + len(_FIRST)))
    for one in contenders:
        cells = [f"{seconds:.2f} s" for seconds in one.seconds]
        cells += [f"{one.processor[0]:.2f} s", f"{one.served[0]:.2f} s" if one.recorded else ""]
        cells += [f"{one.recorded[0]:.2f} s"] if one.recorded else [""]
        cells += [f"{one.seconds[0] / one.recorded[0]:.2f}"] if one.recorded else [""]
        cells += [f"{one.seconds[0] / floor.seconds[0]:.2f}"] if floor else [""]
        cells += [f"{one.processor[0] / floor.processor[0]:.2f}"] if floor else [""]
        print(f"| {one.name} | {' | '.join(cells)} |")
    parts = ("client", *KINDS.values(), CHILDREN)
    print(f"\n| processor time, first | {' | '.join(parts)} |\n|{'---|' * (1 + len(parts))}")
    for one in contenders:
        if one.parts[0]:
            cells = [f"{one.parts[0][part]:.2f} s" for part in parts]
            print(f"| {one.name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    sys.exit(main())
