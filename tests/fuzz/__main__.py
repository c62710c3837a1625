"""`python -m tests.fuzz [--calls N] [--bodies N] [--manifests N] [--daemon N] [--ga4gh N]
[--seed N]`: what is made up at random.

Spoiled manifests; generated calls to the daemon of HPC containers, to TES and WES, and to an API in
this process, on both databases. A part whose number is 0 is left out. Each says when it begins,
since on a busy machine it is silent for many minutes; one that breaks off does not keep the others
from running.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.fuzz.bodies import try_bodies
from tests.fuzz.daemon import try_daemon
from tests.fuzz.document import try_document
from tests.fuzz.ga4gh import KINDS, try_ga4gh
from tests.fuzz.manifests import too_slow, try_manifests
from tests.fuzz.site import populated
from tests.hpc_daemon import Rig
from tests.postgres import running_postgres


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all; print what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument(
        "--calls", type=int, default=20_000, help="calls by the OpenAPI document (20000)"
    )
    parser.add_argument(
        "--bodies", type=int, default=5_000, help="calls with spoiled bodies (5000)"
    )
    parser.add_argument(
        "--manifests", type=int, default=1_000_000, help="spoiled manifests (1000000)"
    )
    parser.add_argument(
        "--daemon", type=int, default=10_000, help="calls to the daemon of HPC containers (10000)"
    )
    parser.add_argument(
        "--ga4gh", type=int, default=10_000, help="calls to each of TES and WES (10000)"
    )
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), help="repeats a run (the time)"
    )
    parser.add_argument(
        "--database", action="append", choices=["sqlite", "postgresql"], help="one of them (both)"
    )
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    print(f"seed {options.seed}", flush=True)
    parts: dict[str, Callable[[], bool]] = {}
    if options.manifests:
        parts["manifests"] = partial(_try_manifests, options.manifests, options.seed)
    if options.daemon:
        parts["HPC daemon"] = partial(try_calls, options.daemon, options.seed)
    if options.ga4gh:
        parts |= {kind: partial(_try_kind, kind, options.ga4gh, options.seed) for kind in KINDS}
    if options.calls or options.bodies:
        for name in options.database or ["sqlite", "postgresql"]:
            parts[name] = partial(_try_api, name, options.calls, options.bodies, options.seed)
    failed = [name for name, part in parts.items() if _run(name, part)]
    return 1 if failed else 0


def _run(name: str, part: Callable[[], bool]) -> bool:
    """Whether anything went wrong in a part."""
    print(f"{name}: begins", flush=True)
    try:
        return part()
    except Exception:  # noqa: BLE001 (whatever it is, the other parts are to run)
        traceback.print_exc(file=sys.stdout)
        print(f"{name}: broken off", flush=True)
        return True


def _try_api(name: str, calls: int, bodies: int, seed: int) -> bool:
    """Whether any answer on this database was not as its document says."""
    faults: list[str] = []
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        where = stack.enter_context(running_postgres()) if name == "postgresql" else None
        site = stack.enter_context(populated(root, seed=seed, server=where))
        if calls:
            faults += try_document(site, calls=calls, number=seed)
        if bodies:
            faults += try_bodies(site, calls=bodies, number=seed)
    for fault in faults[:50]:
        print(fault)
    statuses = ", ".join(f"{status}: {count}" for status, count in sorted(site.statuses.items()))
    print(
        f"{name}: {sum(site.statuses.values())} calls ({statuses}), {len(faults)} faults",
        flush=True,
    )
    return bool(faults)


def try_calls(calls: int, seed: int) -> bool:
    """Whether any answer was not as its document says."""
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(Path(folder))
        rig.up()
        try:
            faults, statuses = try_daemon(rig, calls=calls, number=seed)
        finally:
            rig.down()
    for fault in faults[:50]:
        print(fault)
    told = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
    print(f"HPC daemon: {sum(statuses.values())} calls ({told}), {len(faults)} faults", flush=True)
    return bool(faults)


def _try_kind(kind: str, calls: int, seed: int) -> bool:
    """Whether any answer of TES or WES was not as its document says."""
    with tempfile.TemporaryDirectory() as folder:
        faults, statuses = try_ga4gh(kind, Path(folder), calls=calls, number=seed)
    for fault in faults[:50]:
        print(fault)
    told = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
    print(f"{kind}: {sum(statuses.values())} calls ({told}), {len(faults)} faults", flush=True)
    return bool(faults)


def _try_manifests(count: int, seed: int) -> bool:
    """Whether any broke a rule."""
    began = time.monotonic()
    faults, taken = try_manifests(count=count, number=seed)
    faults += too_slow()
    for fault in faults[:50]:
        print(fault)
    seconds = time.monotonic() - began
    print(
        f"manifests: {count} spoiled, {taken} taken, the others refused, {len(faults)} faults, "
        f"{seconds:.0f} s",
        flush=True,
    )
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
