"""`lading hpc`: clusters of containers that run MPI, and the daemon in each of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lading.cli import display
from lading.cli.options import ASSIGNMENT, DURATION, SECRET, SIZE, PassingCommand
from lading.cli.running.gpu_options import gpu_options
from lading.cli.running.inputs import Input
from lading.cli.running.secrets import SecretOption
from lading.cli.running.submission import RequestSpec
from lading.cli.session import with_session
from lading.core.hpc.daemon_configuration import file_name
from lading.core.hpc.gang import FILES, SHARE_VCPUS, FailurePolicy, Launcher

if TYPE_CHECKING:
    from rich.live import Live

# Directory of `--file` in the containers.
# File of the log with the states of the ranks.
_RANKS = "ranks.txt"


@click.group()
def hpc() -> None:
    """Run MPI programs, unchanged, in clusters of containers."""


@hpc.command(cls=PassingCommand, context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, metavar="[--] COMMAND...")
@click.option(
    "--size", type=click.IntRange(2), required=True, metavar="N", help="Number of containers."
)
@click.option(
    "--image",
    default="hpc:latest",
    show_default=True,
    metavar="IMAGE",
    help="Image made by `lading image hpc`.",
)
@click.option(
    "--param",
    type=ASSIGNMENT,
    multiple=True,
    metavar="K=V",
    help="Parameter of the code: K and PARAM_K.",
)
@click.option(
    "--secret", "secrets", type=SECRET, multiple=True, metavar="NAME[=VALUE|@FILE]",
    help="Variable of every rank, or /PATH, that no record shows; without a value it is asked for.",
)  # fmt: skip
@click.option(
    "--file", "files", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True, metavar="F", help=f"Give each container a copy of the file, in {FILES}.",
)  # fmt: skip
@click.option(
    "--launcher", type=click.Choice([launcher.value for launcher in Launcher]), default="mpirun",
    show_default=True, help="Start rank 0 with mpirun, rank 0 as it is, or every rank.",
)  # fmt: skip
@click.option(
    "--rank-failure", type=click.Choice([policy.value for policy in FailurePolicy]), default="any",
    show_default=True, help="Whether one rank's failure ends the others.",
)  # fmt: skip
@click.option(
    "--vcpus",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Virtual CPUs of each container; 0: all of them share one, if they are on one machine.",
)
@click.option(
    "--ram",
    type=SIZE,
    default="256MiB",
    show_default=True,
    metavar="SIZE",
    help="RAM of each container.",
)
@gpu_options("Options")
@click.option(
    "--max-run-time",
    type=DURATION,
    default="0",
    metavar="TIME",
    help="Stop it after, for example, 2h.",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Download the output.",
)
@click.option(
    "--overwrite",
    is_flag=True,
    help="Download into a directory that has files, and replace those of one name.",
)
@click.option("--no-reuse", is_flag=True, help="Run it even if it was run before.")
@click.option("--name", help="Name of the request.")
@display.json_option
def run(
    command: tuple[str, ...],
    size: int,
    image: str,
    param: tuple[tuple[str, str], ...],
    secrets: tuple[SecretOption, ...],
    files: tuple[Path, ...],
    launcher: str,
    rank_failure: str,
    vcpus: int,
    ram: int,
    max_run_time: int,
    output: Path | None,
    overwrite: bool,
    no_reuse: bool,
    name: str | None,
    **gpus: Any,
) -> None:
    """Run COMMAND in a cluster of N containers, show its output, and exit with its exit code.

    Every container reaches every other as container-0, container-1 ... over ssh without a password.
    The command starts in /out, a directory that all ranks share and that becomes the output;
    /hpcaas/results of a rank becomes ranks/RANK/results of the output. An equal cluster is not run
    twice.

    \b
    lading hpc run --size 4 -- ./heat field.txt 1000 500
    lading hpc run --size 4 --launcher all -- sh -c 'hostname > $WORLD_RANK'
    """
    from lading.cli.running.run import check_target, follow_to_end, secret_mounts

    spec = RequestSpec(
        command=command,
        image=image,
        secret_mounts=secret_mounts(secrets, param, stdin=False),
        inputs=tuple(Input(target=f"{FILES}/{file_name(file.name)}", path=file) for file in files),
        has_writable_inputs=True,
        environment=dict(param),
        vcpus=vcpus or 1,
        ram=ram,
        **gpus,
        max_run_time=max_run_time,
        gang={
            "nodes": size,
            "launcher": launcher,
            "rank_failure": rank_failure,
            **({SHARE_VCPUS: True} if not vcpus else {}),
        },
        name=name,
        use_existing=not no_reuse,
    )
    check_target(output, overwrite=overwrite)
    with RankTable(live=sys.stderr.isatty() and not display.is_json_command()) as table:
        code = with_session(
            lambda session: follow_to_end(session, spec, output, further={_RANKS: table})
        )
    sys.exit(code)


class RankTable:
    """The states of the ranks, from their lines in the log: a live table on a terminal, otherwise
    the lines.
    """

    def __init__(self, *, live: bool) -> None:
        self._is_live = live
        self._live: Live | None = None
        self._ranks: dict[int, str] = {}
        self._tail = b""

    def __enter__(self) -> RankTable:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def write(self, data: bytes) -> None:
        """Take bytes of the log; a line may be split between two calls."""
        *lines, self._tail = (self._tail + data).split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace"))

    def flush(self) -> None:
        """Show the table."""
        if not self._is_live or not self._ranks:
            return
        from rich.console import Console
        from rich.live import Live
        from rich.table import Table

        shown = Table("RANK", "STATE", box=None)
        for rank, state in sorted(self._ranks.items()):
            shown.add_row(str(rank), state)
        if self._live is None:
            self._live = Live(console=Console(stderr=True), auto_refresh=False)
            self._live.start()
        self._live.update(shown, refresh=True)

    def _take(self, line: str) -> None:
        words = line.split(" ", 2)
        # Lines "rank N STATE"; all others are messages.
        if words[0] == "rank" and len(words) == 3 and words[1].isdigit():
            self._ranks[int(words[1])] = words[2]
            if self._is_live:
                return
        display.note(line)


@hpc.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def daemon(options: tuple[str, ...]) -> None:
    """Serve one container of a cluster: configure, start, watch and end its code.

    Options: --port N (443), --host ADDRESS (all), --root DIR (/). TLS_PUBLIC_CERT, TLS_PRIVATE_KEY
    and AUTHORIZATION come with the environment.
    """
    # Replaces this process, so that the daemon does not keep the command line's modules in memory.
    os.execv(sys.executable, [sys.executable, "-m", "lading.hpc.daemon", *options])  # noqa: S606


@hpc.command()
@click.argument("file", type=click.Path(dir_okay=False, writable=True, path_type=Path))
def package(file: Path) -> None:
    """Write the daemon alone to FILE, a program for any image with Python 3.11 or newer."""
    from lading.hpc.package import write_package

    with file.open("wb") as opened:
        write_package(opened)
    file.chmod(0o755)
    display.note(f"wrote {file}, {display.size(file.stat().st_size)}")
