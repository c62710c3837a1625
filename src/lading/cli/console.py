"""The installed program `lading`: starts the HPC daemon, or else the command line.

The daemon (`lading hpc daemon`) uses the standard library only, so that `pip install --no-deps` in
an image is enough for it. Therefore nothing else may be imported here.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys

_DAEMON = ["hpc", "daemon"]


def main() -> int:
    """The entry point of the installed command; returns its exit code."""
    open_streams()
    if sys.argv[1:3] == _DAEMON:
        from lading.hpc.daemon import main as serve

        return serve(sys.argv[3:])
    # Ctrl-C ends the program at once while it imports: nothing is begun, and Python would show the
    # line that was interrupted. `main.cli` ends this.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # A command keeps most of its objects until its end, its modules among them: with the usual
    # thresholds the search for garbage took a third of the time of large commands.
    gc.set_threshold(20_000, 20, 20)
    try:
        from lading.cli.main import main as run
    except ModuleNotFoundError as error:
        sys.stderr.write(
            f"lading: {error.name} is not installed, so that there is nothing but "
            "`lading hpc daemon`; an installation without --no-deps brings the other commands\n"
        )
        return 1
    return run()


def open_streams() -> None:
    """Open /dev/null in place of standard streams that were closed by the caller (`>&-`). Else the
    next files and sockets that are opened would have their numbers.

    Output has every character that its encoding lacks in another form: a locale without the lines
    of tables and trees, or a name that is no UTF-8, is no reason to fail.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It stays open until the process ends.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # ASCII is the locale of who has chosen none, at a terminal of today.
            if stream.encoding.lower() in ("utf-8", "ascii"):
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")
            else:
                stream.reconfigure(errors="replace")
