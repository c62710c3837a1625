"""One run of `cwltest` over the cases, and what became of each."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.cwl.table import write_table
from tests.system.arvados_client.environment import client_environment
from tests.system.cluster import Cluster

IMAGE = "cwl-cases:1"
PROGRAMS = (
    "sh",
    "awk",
    "basename",
    "cat",
    "dirname",
    "find",
    "head",
    "sha256sum",
    "sleep",
    "sort",
    "tr",
    "wc",
    "xargs",
)
# arvados-cwl-runner looks at its containers every 12 seconds and waits the rest of the time: many
# fit on a processor.
PARALLEL = 16
_TIMEOUT = 1500


@dataclass(frozen=True)
class Way:
    """A program that runs CWL documents, with its options. `parallel` cases go on at the same
    time.
    """

    name: str
    program: str
    options: tuple[str, ...]
    parallel: int


# The image holds programs of this machine, so cwltool runs the same ones without a container.
CWLTOOL = Way(
    "cwltool",
    "cwltool",
    ("--no-container", "--enable-ext", "--relax-path-checks"),
    os.cpu_count() or 2,
)
LOCAL = Way(
    "local", "arvados-cwl-runner", ("--local", "--compute-checksum", "--disable-reuse"), PARALLEL
)
SUBMIT = Way("submit", "arvados-cwl-runner", ("--submit", "--compute-checksum"), PARALLEL)


def add_image(cluster: Cluster) -> None:
    """Add the image that every tool of the cases names."""
    cluster.lading("image", "add", "--name", IMAGE, "--from-host", *PROGRAMS)


def run_cases(
    way: Way, folder: Path, *, environment: dict[str, str], names: Collection[str]
) -> dict[str, str]:
    """Run the cases of these names; for each its fault, "" for none. Works below `folder`."""
    programs = client_environment()
    folder.mkdir(parents=True, exist_ok=True)
    write_table(folder / "table.yml", names)
    results = folder / "results.xml"
    command = [str(programs / "cwltest"), "--test", str(folder / "table.yml"), "--junit-verbose"]
    command += ["--tool", str(programs / way.program), "-j", str(way.parallel), "--timeout", "300"]
    kept = {
        name: value for name, value in environment.items() if not name.startswith(("COV", "PYTHON"))
    }
    own = {
        "HOME": str(folder),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with (folder / "log").open("wb") as log:
        subprocess.run(
            [*command, "--junit-xml", str(results), "--", *way.options],
            cwd=folder,
            env=kept | own,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT,
            check=False,
        )
    return read_results(results)


def read_results(path: Path) -> dict[str, str]:
    """For each case of a JUnit file its fault, "" for none."""
    found = {}
    for case in ElementTree.parse(path).iter("testcase"):
        fault = next(
            (one for name in ("failure", "skipped") if (one := case.find(name)) is not None), None
        )
        heard = (case.findtext("system-err") or "")[-4000:]
        found[str(case.get("file"))] = (
            "" if fault is None else f"{''.join(fault.itertext())}\n{heard}"
        )
    return found
