"""The installed program `lading`: starts the HPC daemon, or else the command line.

The daemon (`lading hpc daemon`) uses the standard library only, so that `pip install --no-deps` in
an image is enough for it. Therefore nothing else may be imported here.
"""

from __future__ import annotations

import gc
import os
import sys

_DAEMON = ["hpc", "daemon"]


def main() -> int:
    """The entry point of the installed command; returns its exit code."""
    open_streams()
    if sys.argv[1:3] == _DAEMON:
        from lading.hpc.daemon import main as serve

        return serve(sys.argv[3:])
    # A command keeps most of its objects until its end, its modules among them: with the usual
    # thresholds the search for garbage took a third of the time of large commands.
    gc.set_threshold(20_000, 20, 20)
    try:
        from lading.cli.main import main as run
    except ModuleNotFoundError as error:
        sys.stderr.write(
            f"lading: {error.name} is not installed, so that there is nothing but "
            "`lading hpc daemon`; `pip install lading` brings what the other commands need\n"
        )
        return 1
    return run()


def open_streams() -> None:
    """Open /dev/null in place of standard streams that were closed by the caller (`>&-`). Else the
    next files and sockets that are opened would have their numbers.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It stays open until the process ends.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
