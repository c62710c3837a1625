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
    given = _parser().parse_args(arguments)
    telemetry.configure()
    try:
        if given.uuid and not ids.is_uuid(given.uuid, ids.Infix.CONTAINER):
            raise Invalid(f"{given.uuid!r} is not the uuid of a container")
        if given.list:
            return _list(given)
        if given.kill is not None:
            return _kill(given)
        if given.annex:
            return _annex(given)
        if given.line:
            return _line()
        return _clean(given) if given.clean else _run(given)
    except (LadingError, OSError) as error:
        text = error.message if isinstance(error, LadingError) else str(error)
        _say(f"lading: {' '.join(text.split())}")
        return 2 if isinstance(error, Invalid) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lading.supervisor", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--detach", action="store_true", help="continue in the background")
    what.add_argument(
        "--list", action="store_true", help="print the containers that are supervised here"
    )
    what.add_argument(
        "--kill",
        metavar="SIGNAL",
        type=_signal,
        help="send a supervisor a signal, by number or name",
    )
    what.add_argument("--clean", action="store_true", help="undo the steps of a dead supervisor")
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
    what.add_argument(
        "--annex",
        metavar="ADDRESS",
        default="",
        help="prepare a rank of the gang of a supervisor there",
    )
    what.add_argument(
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


def _annex(given: argparse.Namespace) -> int:
    with _importing():
        from lading.supervisor.engines import find_engines
        from lading.supervisor.gang.remote_rank import main

    return main(given.annex, engines=find_engines().make)


def _line() -> int:
    from lading.supervisor.gang.remote_rank_client import main

    return main()


def _run(given: argparse.Namespace) -> int:
    with _importing():
        from lading.supervisor.process.standalone import run

    text = sys.stdin.buffer.read()
    return run(
        text,
        uuid=given.uuid,
        register=given.lock_directory,
        detach=given.detach,
        log=given.log,
        gpus=given.gpus,
    )


def _list(given: argparse.Namespace) -> int:
    register = Register(given.lock_directory)
    if given.stdin_prices:
        register.write_prices(sys.stdin.buffer.read())
    for found in register.look(_clean_up):
        _print(found.line)
    # With this line the dispatcher starts nothing more on this machine.
    if register.broken:
        _print("broken")
    return 0


def _kill(given: argparse.Namespace) -> int:
    gone = Register(given.lock_directory).kill(_named(given), given.kill)
    _say(f"{given.uuid}: {'not running' if gone else 'still running'}")
    return 0 if gone else 1


def _clean(given: argparse.Namespace) -> int:
    uuid = _named(given)
    left = [
        one for one in Register(given.lock_directory).look(_clean_up, only=uuid) if one.uuid == uuid
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


def _named(given: argparse.Namespace) -> str:
    if not given.uuid:
        raise Invalid("name the container by its uuid")
    return str(given.uuid)


def _signal(text: str) -> signal.Signals:
    if text.isdigit():
        return signal.Signals(int(text))
    try:
        return signal.Signals[f"SIG{text.upper().removeprefix('SIG')}"]
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no signal") from error


def _print(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def _say(line: str) -> None:
    os.write(2, f"{line}\n".encode())


if __name__ == "__main__":
    # Programs in containers that are not root must be able to read the trees that are made for
    # them.
    os.umask(0o022)
    sys.exit(main())
