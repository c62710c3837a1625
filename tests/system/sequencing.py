"""Made-up long reads of a phage that differs from the known genome in places that are known."""

from __future__ import annotations

import gzip
import random
import resource
import subprocess
from dataclasses import dataclass
from pathlib import Path

LENGTH = 4000
_ERRORS = 0.04
_ENDS = 500
_TRIAL = 20
_TRIALS = 3
_COMPLEMENT = str.maketrans("ACGT", "TGCA")


@dataclass(frozen=True)
class Sample:
    """The genome of one phage. `variants` has the base that stands at each position (from 1) where
    it differs.
    """

    genome: str
    variants: dict[int, str]


def read_genome(path: Path) -> str:
    """The one sequence of a FASTA file."""
    return "".join(
        line for line in path.read_text().splitlines() if not line.startswith(">")
    ).upper()


def make_sample(genome: str, *, variants: int, seed: int) -> Sample:
    """Change single bases, none near the ends, where few reads come to lie."""
    draw = random.Random(seed)
    places = draw.sample(range(_ENDS, len(genome) - _ENDS), variants)
    changed, found = list(genome), {}
    for place in sorted(places):
        found[place + 1] = changed[place] = _another(genome[place], draw)
    return Sample("".join(changed), found)


def write_reads(path: Path, sample: Sample, *, count: int, seed: int) -> None:
    """Reads from everywhere and both strands with one wrong base in 25, as FASTQ compressed with
    gzip.
    """
    draw = random.Random(seed)
    with gzip.open(path, "wt", compresslevel=1) as file:
        for number in range(count):
            file.write(f"@{number}\n{_read(sample.genome, draw)}\n+\n{'I' * LENGTH}\n")


def processor_seconds(genome: Path, sample: Sample, work: Path) -> float:
    """What `bowtie2` on this machine takes for one such read: the least of a few trials."""
    reads = work / "trial.fq.gz"
    write_reads(reads, sample, count=_TRIAL, seed=0)
    subprocess.run(["bowtie2-build", "-q", genome, work / "trial"], check=True)
    command: list[str | Path] = ["bowtie2", "-x", work / "trial", "-U", reads, "-S", "/dev/null"]
    return min(_processor_seconds(command) for _ in range(_TRIALS)) / _TRIAL


def _read(genome: str, draw: random.Random) -> str:
    start = draw.randrange(len(genome) - LENGTH + 1)
    bases = list(genome[start : start + LENGTH])
    for place in draw.sample(range(LENGTH), int(LENGTH * _ERRORS)):
        bases[place] = _another(bases[place], draw)
    text = "".join(bases)
    return text.translate(_COMPLEMENT)[::-1] if draw.random() < 0.5 else text


def _another(base: str, draw: random.Random) -> str:
    return draw.choice("ACGT".replace(base, ""))


def _processor_seconds(command: list[str | Path]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
