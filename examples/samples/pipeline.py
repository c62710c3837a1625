"""pipeline.py [MINIMUM_QUALITY]: reads/*.fq -> plot.svg, in a directory made by prepare.sh."""

from __future__ import annotations

import sys
from pathlib import Path

import lading

COUNT = """
awk -v minimum=$QUALITY -v summary=summary -f /steps/quality.awk /in >/tmp/kept
awk -v size=2000 -v summary=placed -f /steps/place.awk /index /tmp/kept | sort -n >windows
"""
MERGE = "awk -f /step /in/* | sort -n >merged"


def pipeline(site: lading.Site, quality: int) -> tuple[lading.Runs, lading.Run]:
    """Submit it all; the samples, and the plot. Nobody has to wait for it."""
    index = site.run(
        ["sh", "-ec", "awk -v k=15 -f /step /in >kmers"],
        name="index",
        image="samples:1",
        inputs={"/in": "lambda_phage.fa", "/step": "steps/index.awk"},
    )
    counts = site.map(
        ["sh", "-ec", COUNT],
        sorted(Path("reads").glob("*.fq")),
        name=f"count-q{quality}",
        image="samples:1",
        inputs={"/in": "{}", "/index": index.output["kmers"], "/steps": "steps"},
        env={"QUALITY": str(quality)},
    )
    merge = site.run(
        ["sh", "-ec", MERGE],
        name="merge",
        image="samples:1",
        inputs={
            "/step": "steps/merge.awk",
            **{f"/in/{number}": one.output["windows"] for number, one in enumerate(counts)},
        },
    )
    plot = site.run(
        ["sh", "-ec", "awk -f /step /in >plot.svg"],
        name="plot",
        image="samples:1",
        inputs={"/in": merge.output["merged"], "/step": "steps/plot.awk"},
    )
    return counts, plot


def main() -> None:
    """Run it, and fetch the plot."""
    with lading.connect() as site:
        _, plot = pipeline(site, int(sys.argv[1]) if len(sys.argv) > 1 else 15)
        Path("plot.svg").write_bytes(plot.result().output["plot.svg"].read_bytes())


if __name__ == "__main__":
    main()
