"""The installed program `lading`: starts the HPC daemon, or else the command line.

The daemon (`lading hpc daemon`) uses the standard library only, so that `pip install --no-deps` in
an image is enough for it. Therefore nothing else may be imported here.
"""

from __future__ import annotations

import sys

_DAEMON = ["hpc", "daemon"]


def main() -> int:
    """The entry point of the installed command; returns its exit code."""
    if sys.argv[1:3] == _DAEMON:
        from lading.hpc.daemon import main as serve

        return serve(sys.argv[3:])
    try:
        from lading.cli.main import main as run
    except ModuleNotFoundError as error:
        sys.stderr.write(
            f"lading: {error.name} is not installed, so that there is nothing but "
            "`lading hpc daemon`; `pip install lading` brings what the other commands need\n"
        )
        return 1
    return run()
