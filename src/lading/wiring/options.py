"""Command-line arguments of the child processes of `lading up`; without secrets, since process
lists show them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lading.wiring.directory import DataDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a child: data directory, address of the server, parent process, descriptor for
    readiness.
    """

    directory: DataDirectory
    listen: str
    parent: int
    ready: int


def parse_options(name: str, arguments: Sequence[str] | None = None) -> Options:
    """Read the command line of the child `name`; raises SystemExit on errors."""
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--listen", required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--ready-fd", type=int, required=True)
    parser.add_argument(
        "--socket", type=Path, help="for one more server on the directory: its own local socket"
    )
    found = parser.parse_args(arguments)
    return Options(
        directory=DataDirectory(found.data, found.socket),
        listen=found.listen,
        parent=found.parent,
        ready=found.ready_fd,
    )
