"""`python -m bench`: all measurements in one run, or the parts that are named; prints tables,
writes JSON.

The exit code is 1 when a promise was broken.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench import (
    account,
    backfill,
    cancellation,
    cascades,
    cli,
    cloud,
    collections,
    containers,
    cwl,
    fair_shares,
    hpc,
    kubelet,
    kubernetes,
    large_files,
    listeners,
    memory,
    mount,
    outputs,
    provenance,
    queue,
    quotas,
    report,
    runs,
    sessions,
    slurm,
    small_blocks,
    starts,
    steps,
    tes,
    uploads,
    vms,
)
from bench.api import measure as api
from bench.blocks import measure as blocks
from bench.engines import ENGINES
from bench.figures import Figure
from bench.machines import measure as machines
from bench.web.measure import PARTS as WEB_PARTS
from bench.web.measure import measure as web

_PARTS: Final[dict[str, Callable[[argparse.Namespace], list[Figure]]]] = {
    "containers": lambda options: containers.measure(
        sizes=containers.Sizes(
            rounds=options.container_rounds,
            containers=options.containers,
            samples=options.samples,
            docker_samples=options.docker_samples,
            sbatch_jobs=options.sbatch_jobs,
        ),
        with_floors=not options.no_floors,
        engine=options.engine,
    ),
    "machines": lambda options: machines.measure(
        sizes=machines.Sizes(
            rounds=options.machine_rounds,
            real=options.machine_containers,
            made_up=options.made_up_containers,
        )
    ),
    "account": lambda options: account.measure(containers=options.counted),
    "steps": lambda options: steps.measure(count=options.traces),
    "outputs": lambda options: outputs.measure(files=options.files, size=options.size),
    "kubernetes": lambda options: kubernetes.measure(
        pods=options.pods,
        samples=options.pod_samples,
        rounds=options.pod_rounds,
        kubelet_seconds=options.kubelet_seconds,
    ),
    "kubelet": lambda options: kubelet.measure(
        samples=options.pod_samples, rounds=options.pod_rounds, burst=options.kubelet_pods
    ),
    "slurm": lambda options: slurm.measure(jobs=options.jobs, rounds=options.slurm_rounds),
    "api": lambda options: api.measure(
        count=options.records,
        databases=options.database,
        parts=options.only,
        profile=options.profile,
    ),
    "blocks": lambda options: blocks.measure(rounds=options.rounds),
    "small-blocks": lambda options: small_blocks.measure(
        blocks=options.small_blocks, rounds=options.rounds
    ),
    "mount": lambda options: mount.measure(
        size=options.mount_size, files=options.mount_files, turns=options.mount_turns
    ),
    "collections": lambda options: collections.measure(files=options.many),
    "cloud": lambda options: [
        *cloud.measure(machines=options.machines, waiting=options.waiting),
        *vms.measure(starts=options.starts, kills=options.kills),
    ],
    "sessions": lambda options: sessions.measure(
        sessions=options.sessions, movers=options.movers, size=options.moved
    ),
    "hpc": lambda _: hpc.measure(),
    "put": lambda options: uploads.measure(files=options.small_files, rounds=options.put_rounds),
    "files": lambda options: large_files.measure(
        size=options.large_file << 20, rounds=options.put_rounds
    ),
    "starts": lambda options: starts.measure(starts=options.starts_in_turns),
    "cli": lambda options: cli.measure(rounds=options.calls),
    "cwl": lambda options: cwl.measure(rounds=options.cwl_rounds, cases=options.cwl_cases),
    "queue": lambda options: queue.measure(
        waiting=options.queued,
        restarts=options.restarts,
        created=options.created,
        turns=options.turns,
        databases=options.database,
    ),
    "backfill": lambda options: backfill.measure(containers=options.backfilled),
    "listeners": lambda options: listeners.measure(
        listeners=options.listeners,
        readers=options.readers,
        containers=options.heard_containers,
        rounds=options.listener_rounds,
        beside=options.beside,
    ),
    "quotas": lambda options: quotas.measure(waiting=options.queued, rounds=options.quota_rounds),
    "cascades": lambda options: cascades.measure(
        waiting=options.queued, databases=options.database, beside=options.beside
    ),
    "cancellation": lambda options: cancellation.measure(
        waiting=options.queued, databases=options.database, beside=options.beside
    ),
    "shares": lambda options: fair_shares.measure(
        waiting=options.queued, rounds=options.quota_rounds
    ),
    "memory": lambda options: memory.measure(files=options.million, log_size=options.log_size),
    "tes": lambda options: tes.measure(
        tasks=options.tasks, runs=options.task_runs, funnel=options.funnel
    ),
    "wes": lambda options: runs.measure(runs=options.workflow_runs),
    "provenance": lambda options: provenance.measure(
        nodes=options.nodes, steps=options.crate_steps
    ),
    "web": lambda options: web(
        count=options.records, databases=options.database, parts=options.web_parts
    ),
}
"""What is measured, by the name of the part, in this order."""


def main() -> int:
    """Measure; the exit code."""
    options = _parse()
    figures: list[Figure] = []
    for name, measure in _PARTS.items():
        if name not in options.parts:
            continue
        found = measure(options)
        figures += found
        if options.figures is not None:
            report.keep(options.figures, name, found, now=datetime.now(UTC))
    print(f"\n{report.table(figures)}")
    report.write(options.output, figures, now=datetime.now(UTC))
    print(f"\nwritten to {options.output}")
    return 1 if any(one.met is False for one in figures) else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", help=f"what to measure: {', '.join(_PARTS)}; all if none is named"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("build/bench.json"), help="where the JSON goes"
    )
    parser.add_argument(
        "--figures",
        type=Path,
        help="a folder, docs/figures, that keeps a JSON file of each part and the picture; tables"
        " of the page above it are made anew",
    )
    group = parser.add_argument_group("cloud")
    group.add_argument("--machines", type=int, default=3000, help="VMs of the simulated fleet")
    group.add_argument("--waiting", type=int, default=100_000, help="containers that wait")
    group.add_argument(
        "--starts", type=int, default=40, help="containers on a warm VM, one at a time"
    )
    group.add_argument("--kills", type=int, default=10, help="supervisors on a VM that are killed")
    group = parser.add_argument_group("queue")
    group.add_argument("--queued", type=int, default=100_000, help="requests that wait")
    group.add_argument(
        "--restarts", type=int, default=5, help="restarts of the server and its dispatcher"
    )
    group.add_argument(
        "--created", type=int, default=20_000, help="of these, requests that the API creates"
    )
    group.add_argument(
        "--backfilled", type=int, default=400, help="containers of each simulated machine"
    )
    group.add_argument(
        "--turns", type=int, default=2, help="turns of a long and a short queue; 0: none"
    )
    group = parser.add_argument_group("listeners (also --beside)")
    group.add_argument("--listeners", type=int, nargs="+", default=[200, 1000])
    group.add_argument("--readers", type=int, nargs="+", default=[1, 10, 100])
    group.add_argument("--heard-containers", type=int, default=40, help="containers of a round")
    group.add_argument("--listener-rounds", type=int, default=3)
    group = parser.add_argument_group("cascades and cancellation (also --queued and --database)")
    group.add_argument(
        "--beside", default="", metavar="PYTHON", help="interpreter of another Lading, in turns"
    )
    group = parser.add_argument_group("quotas")
    group.add_argument(
        "--quota-rounds",
        type=int,
        default=40,
        help="rounds with quotas or fair share and without, in turns",
    )
    group = parser.add_argument_group("starts")
    group.add_argument("--starts-in-turns", type=int, default=200)
    group = parser.add_argument_group("small-blocks (also --rounds)")
    group.add_argument("--small-blocks", type=int, default=300, help="new blocks of a round")
    group = parser.add_argument_group("cli")
    group.add_argument("--calls", type=int, default=20)
    group = parser.add_argument_group("cwl")
    group.add_argument("--cwl-rounds", type=int, default=2, help="rounds, each of both programs")
    group.add_argument("--cwl-cases", type=int, default=len(cwl.CASES), help="cases of a round")
    group = parser.add_argument_group("provenance")
    group.add_argument("--nodes", type=int, default=10_000, help="nodes of the graph")
    group.add_argument("--crate-steps", type=int, default=1000, help="steps of the crate")
    group = parser.add_argument_group("memory")
    group.add_argument(
        "--million", type=int, default=1_000_000, help="files of the large upload; 0: none"
    )
    group.add_argument(
        "--log-size", type=int, default=1400 << 20, help="bytes of the large log; 0: none"
    )
    group = parser.add_argument_group("containers")
    group.add_argument(
        "--container-rounds", type=int, default=5, help="rounds, each of all contenders in turns"
    )
    group.add_argument(
        "--containers", type=int, default=300, help="no-op containers of a burst, in each round"
    )
    group.add_argument(
        "--samples", type=int, default=30, help="containers one at a time, in each round"
    )
    group.add_argument(
        "--docker-samples", type=int, default=5, help="runs of docker and sbatch, in each round"
    )
    group.add_argument(
        "--sbatch-jobs", type=int, default=100, help="jobs of the loop of sbatch, in each round"
    )
    group.add_argument("--engine", choices=ENGINES, default="auto", help="what runs the containers")
    group.add_argument("--no-floors", action="store_true", help="measure Lading only")
    group = parser.add_argument_group("machines")
    group.add_argument(
        "--machine-rounds", type=int, default=3, help="rounds, each of all numbers of dispatchers"
    )
    group.add_argument(
        "--machine-containers", type=int, default=200, help="real containers of a burst"
    )
    group.add_argument(
        "--made-up-containers", type=int, default=600, help="containers of a burst that run nothing"
    )
    group = parser.add_argument_group("account")
    group.add_argument(
        "--counted", type=int, default=200, help="containers whose processes are looked at"
    )
    group = parser.add_argument_group("steps")
    group.add_argument("--traces", type=int, default=50, help="containers, one at a time")
    group = parser.add_argument_group("outputs")
    group.add_argument("--files", type=int, default=50_000, help="files of the output of many")
    group.add_argument("--size", type=int, default=5 << 30, help="bytes of the large output")
    group = parser.add_argument_group("slurm")
    group.add_argument("--jobs", type=int, default=200, help="jobs of one round")
    group.add_argument(
        "--slurm-rounds", type=int, default=7, help="rounds, each of bare sbatch and of the fleet"
    )
    group = parser.add_argument_group("kubernetes")
    group.add_argument("--pods", type=int, default=100, help="Pods of one burst")
    group.add_argument("--pod-samples", type=int, default=10, help="Pods one at a time in a round")
    group.add_argument("--pod-rounds", type=int, default=3, help="rounds, each of all contenders")
    group.add_argument(
        "--kubelet-seconds", type=float, default=1.0, help="time of the played kubelet for a Pod"
    )
    group = parser.add_argument_group("kubelet (also --pod-samples and --pod-rounds)")
    group.add_argument("--kubelet-pods", type=int, default=20, help="Pods of one burst")
    group = parser.add_argument_group("api")
    group.add_argument(
        "--records", type=int, default=1_000_000, help="finished requests in the databases"
    )
    group.add_argument(
        "--database",
        nargs="+",
        choices=api.DATABASES,
        default=api.DATABASES,
        help="which databases",
    )
    group.add_argument(
        "--only",
        nargs="+",
        choices=tuple(api.PARTS),
        default=tuple(api.PARTS),
        help="which of these",
    )
    group.add_argument(
        "--profile", type=Path, help="a directory for cProfile's account of the servers"
    )
    group = parser.add_argument_group("web (also --records and --database)")
    group.add_argument(
        "--web-parts",
        nargs="+",
        choices=tuple(WEB_PARTS),
        default=tuple(WEB_PARTS),
        help="which of these",
    )
    group = parser.add_argument_group("blocks")
    group.add_argument(
        "--rounds", type=int, default=2, help="rounds of three blocks, each beside the floor"
    )
    group = parser.add_argument_group("mount")
    group.add_argument("--mount-size", type=int, default=512, help="MiB of the file that is read")
    group.add_argument(
        "--mount-files", type=int, default=10_000, help="small files that are found and read"
    )
    group.add_argument("--mount-turns", type=int, default=3, help="mounts of each kind, in turns")
    group = parser.add_argument_group("collections")
    group.add_argument("--many", type=int, default=100_000, help="files of the collection")
    group = parser.add_argument_group("sessions")
    group.add_argument(
        "--sessions", type=int, default=200, help="sessions in one container at once"
    )
    group.add_argument("--movers", type=int, default=10, help="those of them that move data")
    group.add_argument(
        "--moved", type=int, default=100_000_000, help="bytes that each of these reads"
    )
    group = parser.add_argument_group("put, files")
    group.add_argument("--small-files", type=int, default=10_000, help="files of 4 KiB")
    group.add_argument(
        "--put-rounds", type=int, default=3, help="how often each program stores them"
    )
    group.add_argument("--large-file", type=int, default=1434, help="MiB of the large file")
    group = parser.add_argument_group("tes")
    group.add_argument("--tasks", type=int, default=100_000, help="tasks that are listed")
    group.add_argument("--task-runs", type=int, default=100, help="tasks that are run")
    group.add_argument("--workflow-runs", type=int, default=1000, help="runs of WES")
    group.add_argument("--funnel", type=Path, help="its program; else that on PATH, if any")
    options = parser.parse_args()
    unknown = [one for one in options.parts if one not in _PARTS]
    if unknown:
        parser.error(
            f"{unknown[0]}: nothing of that name is measured; there are {', '.join(_PARTS)}"
        )
    options.parts = options.parts or _PARTS
    return options


if __name__ == "__main__":
    sys.exit(main())
