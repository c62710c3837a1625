"""Commands that serve: `lading up`, and `lading dispatch` for a further dispatcher.

`lading up` is the whole system on this machine; its work is in `wiring.up`, that of `lading
dispatch` in `wiring.dispatcher`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from lading.cli import display
from lading.cli.options import DURATION
from lading.client.servers.environment import default_data_directory
from lading.core.errors import Conflict

if TYPE_CHECKING:
    from lading.wiring.further_dispatcher import DispatcherReady, Membership
    from lading.wiring.up import ServerReady


_file = click.Path(dir_okay=False, exists=True, path_type=Path)


@click.command()
@click.option("--join", type=_file, help="The file that 'lading admin dispatcher-token' wrote.")
@click.option(
    "--api", metavar="URL", help="Address of the server, in place of --join: https://HOST:PORT."
)
@click.option("--token-file", type=_file, help="With --api: a file with the dispatcher's token.")
@click.option(
    "--ca-file", type=_file, help="With --api: the certificate to know the server by, PEM."
)
@click.option(
    "--fleet",
    default="local",
    show_default=True,
    help="Fleet that runs the containers: local, slurm, batch, cloud ...",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Directory for running containers and a cache.",
)
@click.option(
    "--config",
    type=_file,
    help="Configuration of this dispatcher: its sections Local and Containers.",
)
@display.json_option
def dispatch(
    join: Path | None,
    api: str | None,
    token_file: Path | None,
    ca_file: Path | None,
    fleet: str,
    data: Path,
    config: Path | None,
) -> None:
    """Run containers of a server on this machine, or through this machine's Slurm, until stopped.

    Several dispatchers share one server: each has a token of its own. Containers that this one
    cannot run stay queued for others.
    """
    from lading.supervisor.limits.user_scope import enter_scope
    from lading.wiring.further_dispatcher import run_further as main

    enter_scope([sys.executable, "-m", "lading", *sys.argv[1:]], os.environ)

    def announce(ready: DispatcherReady) -> None:
        if display.is_json_command():
            display.emit_json({"api": ready.api, "fleet": ready.fleet, "data": str(ready.data)})
        else:
            click.echo(f"lading: dispatching to {ready.fleet} for {ready.api} from {ready.data}")
        sys.stdout.flush()

    membership = _membership(join, api, token_file, ca_file)
    sys.exit(main(membership, fleet=fleet, data=data, config=config, on_ready=announce))


def _membership(
    join: Path | None, api: str | None, token_file: Path | None, ca_file: Path | None
) -> Membership:
    from lading.wiring.further_dispatcher import Membership, read_membership

    if join is not None:
        if api or token_file or ca_file:
            raise click.UsageError(
                "--join has all that --api, --token-file and --ca-file say; give one or the others"
            )
        return read_membership(join)
    if not api or token_file is None:
        raise click.UsageError(
            "name the server with --join FILE, or with --api URL and --token-file FILE"
        )
    certificate = ca_file.read_text() if ca_file is not None else ""
    return Membership(
        api=api.rstrip("/"), token=token_file.read_text().strip(), certificate=certificate
    )


@click.command()
@click.option(
    "--data",
    envvar="LADING_DATA",
    type=click.Path(file_okay=False, path_type=Path),
    help="Data directory.  [default: $LADING_DATA, else ~/.local/share/lading]",
)
@click.option(
    "--listen",
    default="127.0.0.1:9440",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to serve on; port 0 picks a free one.",
)
@click.option(
    "--also", multiple=True, metavar="HOST:PORT", help="A further server there; needs PostgreSQL."
)
@click.option(
    "--log",
    type=click.Choice(("files", "stderr")),
    default="files",
    show_default=True,
    help="Logs of the services: files in DIR/log, or standard error, as for a journal.",
)
@click.option("--detach", is_flag=True, help="Serve in the background; return when it serves.")
@click.option(
    "--until-idle",
    is_flag=True,
    help="End after Local.IdleShutdown without work, as a site that 'lading run' starts.",
)
@display.json_option
@click.pass_context
def up(
    ctx: click.Context,
    data: Path | None,
    listen: str,
    also: tuple[str, ...],
    log: str,
    detach: bool,
    until_idle: bool,
) -> None:
    """Serve the API, the block store and the dispatcher from this machine, until stopped with
    Ctrl-C or TERM.

    No configuration is needed. DIR/env has the address and the token for clients, to be sourced;
    the commands of this user find the server without it when --data is not given.

    With --detach it serves in the background until 'lading down', and is left as it is where it
    serves already; its messages are in DIR/log/up.log. 'lading service' starts it with the machine.

    Without --listen it takes the port of its last start, or 9440, or another one if that is taken.
    """
    from lading.cli.service import take_manager, tell_manager
    from lading.supervisor.limits.user_scope import enter_scope
    from lading.wiring.up import main

    directory = data or default_data_directory(os.environ)
    if until_idle and also:
        raise click.UsageError("--until-idle: watches one server; leave out --also")
    is_chosen = ctx.get_parameter_source("listen") is not ParameterSource.DEFAULT
    if detach:
        if log == "stderr":
            raise click.UsageError("--detach: has no standard error; leave out --log stderr")
        address = listen if is_chosen else ""
        arguments = ["--until-idle"] if until_idle else []
        arguments += _addresses(address, also)
        display.show(_start(directory.absolute(), arguments, listen=address))
        return
    enter_scope([sys.executable, "-m", "lading", *sys.argv[1:]], os.environ)
    manager = take_manager(os.environ)

    def announce(ready: ServerReady) -> None:
        if display.is_json_command():
            display.emit_json(
                {
                    "address": ready.address,
                    "data": str(ready.data),
                    "seconds": ready.seconds,
                    "engine": str(ready.engine) if ready.engine is not None else None,
                }
            )
        else:
            click.echo(
                f"lading: serving https://{ready.address}/ from {ready.data}, "
                f"ready in {ready.seconds:.1f} s; clients: . {ready.data / 'env'}"
            )
            _tell_engine(ready)
        sys.stdout.flush()
        engine = str(ready.engine) if ready.engine is not None and ready.engine.name else ""
        status = f"serving https://{ready.address}/, engine: {engine or 'none'}"
        tell_manager(manager, status=status)

    has_files = log == "files"
    sys.exit(
        main(
            directory,
            listen,
            also=also,
            on_ready=announce,
            has_log_files=has_files,
            until_idle=until_idle,
            may_move=not is_chosen,
        )
    )


def _addresses(listen: str, also: tuple[str, ...]) -> list[str]:
    """The options that name the addresses of servers."""
    first = (("--listen", listen),) if listen else ()
    named = (*first, *(("--also", address) for address in also))
    return [word for pair in named for word in pair]


def _start(data: Path, arguments: list[str], *, listen: str) -> display.Output:
    """Serve in the background, and say where. `arguments` are those of `lading up` beside --data;
    `listen` is the address that was asked for, "" for any.
    """
    from lading.wiring.directory import DataDirectory
    from lading.wiring.process import private_files, say
    from lading.wiring.serving_process import start_serving

    directory = DataDirectory(data)
    with private_files():
        directory.prepare(say=say)
        serving = start_serving(directory, ["--data", str(data), *arguments])
    process = serving.process
    engine = serving.status.rpartition("engine: ")[2] if "engine: " in serving.status else ""
    if listen and not serving.is_new and not _is_at(process.address, listen):
        raise Conflict(
            f"{data}: is served at {process.address} already; 'lading down' first to serve {listen}"
        )
    yield {
        "address": process.address,
        "data": str(data),
        "pid": process.pid,
        "log": str(serving.log),
        "started": serving.is_new,
        "engine": engine if engine and engine != "none" else None,
    }
    how = "serving" if serving.is_new else "serves already:"
    click.echo(
        f"lading: {how} https://{process.address}/ from {data}, process {process.pid}; "
        f"clients: . {data / 'env'}"
    )
    if engine and engine != "none":
        click.echo(f"lading: engine: {engine}")
    elif engine:
        display.note("no engine: containers wait until there is one; see 'lading doctor'")
    click.echo(f"lading: log: {serving.log}; to stop it: lading down{_named(data)}")


def _is_at(address: str, listen: str) -> bool:
    """Whether an address is the one that was asked for; port 0 is any."""
    host, _, port = listen.rpartition(":")
    return address == listen or (port == "0" and address.rpartition(":")[0] == host)


def _named(data: Path) -> str:
    """The option that names a data directory, unless commands take it without."""
    return "" if data == default_data_directory(os.environ).absolute() else f" --data {data}"


@click.command()
@click.option(
    "--data",
    envvar="LADING_DATA",
    type=click.Path(file_okay=False, path_type=Path),
    help="Data directory.  [default: $LADING_DATA, else ~/.local/share/lading]",
)
@click.option(
    "--timeout",
    type=DURATION,
    default="90s",
    show_default=True,
    metavar="TIME",
    help="Wait no longer for its end.",
)
@display.with_json
def down(data: Path | None, timeout: int) -> display.Output:
    """Stop the 'lading up' that serves a data directory, and wait until it has ended.

    Containers go on, and are found again by the next 'lading up'. Where none serves, nothing is
    done, and the exit code is 0, too.
    """
    from lading.wiring.directory import DataDirectory
    from lading.wiring.serving_process import stop_serving

    directory = (data or default_data_directory(os.environ)).absolute()
    stopped = stop_serving(DataDirectory(directory), timeout=timeout)
    yield {"data": str(directory), "stopped": stopped.pid if stopped is not None else None}
    if stopped is None:
        display.note(f"nothing serves {directory}")
    else:
        display.note(f"stopped: process {stopped.pid} serves {directory} no more")


def _tell_engine(ready: ServerReady) -> None:
    """Say what runs containers, or what has to be done for that."""
    if ready.engine is None:
        return
    if ready.engine.name:
        click.echo(f"lading: engine: {ready.engine}")
        if ready.engine.warning:
            display.note(ready.engine.warning)
    else:
        display.note(
            "no engine: data is served, containers wait until there is one; "
            f"to get one: {ready.engine.mend}"
        )
