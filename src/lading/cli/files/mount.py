"""`lading mount`: mount the store as a directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from lading.cli import display
from lading.cli.options import DURATION, SIZE
from lading.cli.references import find_project
from lading.cli.session import own_or_named_server, with_session
from lading.client.mount import mount_points, service
from lading.client.mount.layout import MountView
from lading.client.mount.service import MountSettings
from lading.client.servers.environment import (
    Server,
    cache_directory,
    default_data_directory,
    find_lender,
)
from lading.core.errors import Invalid
from lading.core.ids import is_uuid

_EXEC = "--exec"
_VIEWS = {
    "by_id": MountView.BY_ID,
    "by_pdh": MountView.BY_PDH,
    "home": MountView.HOME,
    "shared": MountView.SHARED,
    "by_tag": MountView.BY_TAG,
}


class _MountCommand(click.Command):
    """A command whose option --exec takes all arguments after it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remove the command of --exec before click parses the options."""
        if _EXEC in args:
            at = args.index(_EXEC)
            args, ctx.meta[_EXEC] = args[:at], tuple(args[at + 1 :])
        return super().parse_args(ctx, args)


@click.command(
    cls=_MountCommand, options_metavar="[OPTIONS]", epilog="--exec COMMAND... must come last."
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--collection", metavar="ID", help="Show one collection: its uuid or portable data hash."
)
@click.option("--project", metavar="PROJECT", help="Show one project.")
@click.option(
    "--by-id", "view", flag_value="by_id", help="Show any collection or project by its id."
)
@click.option(
    "--by-pdh", "view", flag_value="by_pdh", help="Show any collection by its portable data hash."
)
@click.option("--home", "view", flag_value="home", help="Show your own projects and collections.")
@click.option("--shared", "view", flag_value="shared", help="Show the projects shared with you.")
@click.option("--by-tag", "view", flag_value="by_tag", help="Show collections by their tags.")
@click.option(
    "--foreground", is_flag=True, help="Stay until Ctrl-C.  [default: continue in the background]"
)
@click.option("--allow-other", is_flag=True, help="Let other users of this machine read it.")
@click.option(
    "--cache-size",
    type=SIZE,
    default="10GiB",
    show_default=True,
    help="Disk for blocks, for all mounts.",
)
@click.option(
    "--cache-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the cached blocks.",
)
@click.option(
    "--timeout",
    type=DURATION,
    default="60s",
    show_default=True,
    help="Time-out of calls to the server.",
)
@click.option("--unmount", is_flag=True, help="Take the mount at DIRECTORY away, dead ones too.")
@display.json_option
def mount(
    directory: Path, view: str | None, collection: str | None, project: str | None, **options: Any
) -> None:
    """Show the collections of the store as files below DIRECTORY, read-only.

    Below it: by_id, home, shared, by_tag. New collections appear as they are made. Blocks are
    cached on disk for all mounts of a user. With `--exec COMMAND...` the mount lasts for one
    command, whose exit code is returned.
    """
    ctx = click.get_current_context()
    mountpoint = directory.absolute()
    if options["unmount"]:
        mount_points.unmount(mountpoint)
        display.show(_report({"unmounted": str(mountpoint)}, f"{mountpoint}: unmounted"))
        return
    command: Sequence[str] = ctx.meta.get(_EXEC, ())
    if _EXEC in ctx.meta and not command:
        raise click.UsageError("--exec needs a command")
    if project is not None and not is_uuid(project):
        project = with_session(partial(find_project, path=project))
    shown, id = _view(view, collection, project)
    # Told here: the process of the mount has no terminal.
    if find_spec("mfusepy") is None:
        raise ModuleNotFoundError(name="mfusepy")
    server = own_or_named_server()
    cache = (options["cache_dir"] or cache_directory(os.environ)).absolute()
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A mount for a command, or in the foreground, ends with this process (`tied`).
    stays = options["foreground"] or bool(command)
    settings = _settings(server, mountpoint, shown, id, cache, options, tied=stays)
    if stays:
        sys.exit(_stay(settings, command))
    with (cache / "mount.log").open("ab") as log:
        process = service.launch(settings, log=log)
    answer = {"mounted": str(mountpoint), "pid": process.pid, "log": str(cache / "mount.log")}
    # Set so that subprocess does not wait for it, or warn, at the end.
    process.returncode = 0  # It continues without this process.
    advice = f"take it away with 'lading mount --unmount {directory}'"
    display.show(_report(answer, f"{mountpoint}: mounted; {advice}"))


def _view(view: str | None, collection: str | None, project: str | None) -> tuple[MountView, str]:
    if sum(option is not None for option in (view, collection, project)) > 1:
        raise click.UsageError(
            "choose one of --collection, --project, --by-id, --by-pdh, --home, --shared, --by-tag"
        )
    if collection is not None:
        return MountView.COLLECTION, collection
    if project is not None:
        return MountView.PROJECT, project
    return (_VIEWS[view] if view else MountView.ALL), ""


def _settings(
    server: Server,
    mountpoint: Path,
    view: MountView,
    id: str,
    cache: Path,
    options: dict[str, Any],
    *,
    tied: bool,
) -> MountSettings:
    return MountSettings(
        mountpoint=str(mountpoint),
        token=server.token,
        cache_directory=str(cache / "blocks"),
        api_url=f"https://{server.address}",
        api_ca_file=str(server.authorities or ""),
        api_insecure=server.insecure,
        lender=str(
            find_lender(os.environ, default_data_directory(os.environ), server.address) or ""
        ),
        view=view,
        id=id,
        cache_size=options["cache_size"],
        allow_other=options["allow_other"],
        timeout=options["timeout"],
        tied=tied,
    )


def _stay(settings: MountSettings, command: Sequence[str]) -> int:
    """Mount, run the command or wait for Ctrl-C, unmount; return the exit code."""
    process = service.launch(settings)
    statistics: dict[str, Any] = {}
    code = 0
    try:
        if command:
            code = _run(command)
        else:
            # SIGTERM ends it like Ctrl-C.
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            display.note(f"{settings.mountpoint}: mounted; Ctrl-C unmounts it")
            statistics = service.wait(process)
    except KeyboardInterrupt:
        display.note("unmounting")
    finally:
        # Also after an error: nothing stays mounted.
        statistics = service.finish(process) or statistics
    if display.is_json_command():
        display.emit_json({"exit_code": code, "statistics": statistics})
    return code


def _run(command: Sequence[str]) -> int:
    """Run a command to its end; return its exit code as a shell shows it. Ctrl-C and SIGTERM are
    for the command.
    """
    try:
        running = subprocess.Popen(command)
    except OSError as error:
        raise Invalid(f"{command[0]}: cannot be run: {error.strerror}") from error
    signal.signal(signal.SIGTERM, lambda *_: running.terminate())
    while True:
        try:
            code = running.wait()
        # The command got the same Ctrl-C and decides itself.
        except KeyboardInterrupt:
            continue
        # Ended by a signal: 128 + its number.
        return code if code >= 0 else 128 - code


def _report(answer: dict[str, Any], message: str) -> display.Output:
    yield answer
    display.note(message)
