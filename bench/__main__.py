"""`python -m bench`: floors, latency and throughput in one run; prints a table, writes JSON.

The exit code is 1 when a promise was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from bench import floors, latency, report, throughput
from bench.figures import Figure
from bench.requests import Watch
from bench.service import add_image, connected, serving


def main() -> int:
    """Measure everything; the exit code."""
    options = _parse()
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
        work = Path(folder)
        figures = [] if options.no_floors else _floors(work, options)
        with serving(work / "data") as environment:
            figures += asyncio.run(_lading(environment, options))
    print(report.table(figures))
    report.write(options.output, figures, now=datetime.now(UTC))
    print(f"\nwritten to {options.output}")
    return 1 if any(one.met is False for one in figures) else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--containers", type=int, default=300, help="no-op containers for the throughput")
    parser.add_argument("--samples", type=int, default=100, help="containers for the latency, one at a time")
    parser.add_argument("--docker-samples", type=int, default=10, help="runs of docker")
    parser.add_argument("--no-floors", action="store_true", help="measure Lading only")
    parser.add_argument("--output", type=Path, default=Path("build/bench.json"), help="where the JSON goes")
    return parser.parse_args()


def _floors(work: Path, options: argparse.Namespace) -> list[Figure]:
    return [
        *floors.measure_crun(work, count=options.samples),
        floors.measure_docker(work, count=options.docker_samples),
    ]


async def _lading(environment: dict[str, str], options: argparse.Namespace) -> list[Figure]:
    image = await asyncio.to_thread(add_image, environment)
    async with connected(environment) as client:
        watch = Watch(client)
        following = asyncio.create_task(watch.follow())
        await watch.listening.wait()
        figures = await latency.measure(client, watch, image, count=options.samples)
        figures += await throughput.measure(client, watch, image, count=options.containers)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    return figures


if __name__ == "__main__":
    sys.exit(main())
