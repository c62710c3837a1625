"""Runs the probe of networks in a container of an ordinary user, and prints what it reached.

    python -m tests.security.user_network DIRECTORY PROGRAM REACH TARGETS

PROGRAM connects the container with the internet. REACH and TARGETS are JSON. It is a program, since
a process with several threads cannot enter a user namespace.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lading.supervisor import linux, rootless
from lading.supervisor.engines import NetworkAccess
from lading.supervisor.engines.rootless_engine import RootlessEngine
from lading.supervisor.network import uplink
from lading.testing.conformance.engines import Kit
from tests.security.network_probe import run_probe


def main(directory: Path, program: str, reach: str, targets: str) -> None:
    """Run the probe, and print its results as JSON."""

    programs = tuple(one for one in (uplink.PASTA, uplink.SLIRP4NETNS) if one.name == program)

    def chosen(*, is_root: bool) -> tuple[uplink.UplinkProgram, ...]:
        return () if is_root else programs

    uplink.usable_programs = chosen
    rootless.enter(directory)
    linux.leave_mount_namespace()
    kit = Kit(RootlessEngine, directory)
    fields = json.loads(reach)
    access = NetworkAccess(
        api=tuple(fields["api"]), internet=fields["internet"], refused=tuple(fields["refused"])
    )
    sys.stdout.write(json.dumps(run_probe(kit, access, targets)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
