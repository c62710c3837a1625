"""`python -m lading.supervisor`: run, list, signal and clean up the supervisors of this machine.

    python -m lading.supervisor [--detach] [--log FILE] [UUID] < assignment
        run a container
    python -m lading.supervisor --list [--stdin-prices]
        list the containers that are supervised here
    python -m lading.supervisor --kill SIGNAL UUID
        send a signal, wait at most a second for the end
    python -m lading.supervisor --clean UUID
        undo the steps of a dead supervisor
    python -m lading.supervisor --annex ADDRESS
        prepare a rank of the gang of a supervisor at ADDRESS
    python -m lading.supervisor --line
        connect to such a rank

All take `--lock-directory DIR`. Exit code 0 on success, 1 on failure, 2 for a command line or an
assignment that cannot be read. Described in `docs/supervisor.md`.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lading.core import ids
from lading.core.errors import Invalid, LadingError
from lading.process import telemetry
from lading.supervisor.process.register import DEFAULT, Register, RegisterEntry


def main(arguments: list[str] | None = None) -> int:
    """Carry out one command line; the exit code is described above."""
    options = _parser().parse_args(arguments)
    telemetry.configure()
    try:
        if options.uuid and not ids.is_uuid(options.uuid, ids.Infix.CONTAINER):
            raise Invalid(f"{options.uuid!r} is not the uuid of a container")
        if options.list:
            return _list(options)
        if options.kill is not None:
            return _kill(options)
        if options.annex:
            return _annex(options)
        if options.line:
            return _line()
        return _clean(options) if options.clean else _run(options)
    except (LadingError, OSError) as error:
        message = error.message if isinstance(error, LadingError) else str(error)
        _say(f"lading: {' '.join(message.split())}")
        return 2 if isinstance(error, Invalid) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lading.supervisor", description=__doc__)
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--detach", action="store_true", help="continue in the background")
    modes.add_argument(
        "--list", action="store_true", help="print the containers that are supervised here"
    )
    modes.add_argument(
        "--kill",
        metavar="SIGNAL",
        type=_signal,
        help="send a supervisor a signal, by number or name",
    )
    modes.add_argument("--clean", action="store_true", help="undo the steps of a dead supervisor")
    parser.add_argument(
        "--stdin-prices", action="store_true", help="with --list: read a price history"
    )
    parser.add_argument(
        "--lock-directory",
        metavar="DIR",
        type=Path,
        default=Path(DEFAULT),
        help="of the lock files",
    )
    parser.add_argument(
        "--log", metavar="FILE", default="", help="with --detach: where its messages go"
    )
    modes.add_argument(
        "--annex",
        metavar="ADDRESS",
        default="",
        help="prepare a rank of the gang of a supervisor there",
    )
    modes.add_argument(
        "--line", action="store_true", help="connect to the rank launcher that standard input names"
    )
    parser.add_argument(
        "--gpus", metavar="N,N", default="", help="numbers of the GPUs that the container may use"
    )
    parser.add_argument("uuid", metavar="UUID", nargs="?", default="")
    return parser


# A listing comes every few seconds and a supervisor takes long to import: only a command that needs
# one imports it.


@contextmanager
def _importing() -> Iterator[None]:
    """Import modules without garbage collections, which take a tenth of the time: they look at all
    objects of the modules again and again, and find none to free.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _annex(options: argparse.Namespace) -> int:
    with _importing():
        from lading.supervisor.engines import find_engines
        from lading.supervisor.gang.remote_rank import main

    return main(options.annex, engines=find_engines().make)


def _line() -> int:
    from lading.supervisor.gang.remote_rank_client import main

    return main()


def _run(options: argparse.Namespace) -> int:
    with _importing():
        from lading.supervisor.process.standalone import run

    config_text = sys.stdin.buffer.read()
    return run(
        config_text,
        uuid=options.uuid,
        register=options.lock_directory,
        detach=options.detach,
        log=options.log,
        gpus=options.gpus,
    )


def _list(options: argparse.Namespace) -> int:
    register = Register(options.lock_directory)
    if options.stdin_prices:
        register.write_prices(sys.stdin.buffer.read())
    for entry in register.look(_clean_up):
        _print(entry.line)
    # With this line the dispatcher starts nothing more on this machine.
    if register.broken:
        _print("broken")
    return 0


def _kill(options: argparse.Namespace) -> int:
    gone = Register(options.lock_directory).kill(_named(options), options.kill)
    _say(f"{options.uuid}: {'not running' if gone else 'still running'}")
    return 0 if gone else 1


def _clean(options: argparse.Namespace) -> int:
    uuid = _named(options)
    left = [
        entry
        for entry in Register(options.lock_directory).look(_clean_up, only=uuid)
        if entry.uuid == uuid
    ]
    if left:
        _say(f"{uuid}: {left[0].condition}")
    return 1 if left else 0


def _clean_up(entry: RegisterEntry) -> None:
    from lading.supervisor.process.standalone import clean

    # A supervisor that died is cleaned up by the next listing, so a listing needs these modules
    # only then.
    try:
        clean(entry)
    except (LadingError, OSError) as error:
        _say(f"{entry.UUID}: cannot be cleaned: {error}")
        raise


def _named(options: argparse.Namespace) -> str:
    if not options.uuid:
        raise Invalid("name the container by its uuid")
    return str(options.uuid)


def _signal(name: str) -> signal.Signals:
    if name.isdigit():
        return signal.Signals(int(name))
    try:
        return signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"{name!r} is no signal") from error


def _print(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def _say(line: str) -> None:
    os.write(2, f"{line}\n".encode())


if __name__ == "__main__":
    # Programs in containers that are not root must be able to read the trees that are made for
    # them.
    os.umask(0o022)
    sys.exit(main())
