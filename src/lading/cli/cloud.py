"""Commands on cloud VMs: `lading instance`, and `lading cloud test`.

`lading instance` uses the management interface of a cloud dispatcher. `lading cloud test` tests a
cloud configuration with real VMs; its work is in `wiring.trials.cloudtest`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import click

from lading.cli import display
from lading.cli.interruption import run_in_loop
from lading.cli.options import site_config_option
from lading.cli.selftests import run_selftest
from lading.core.errors import Invalid, LadingError, from_status

_PATH = "/arvados/v1/dispatch/instances"
# Headings, and the fields of the interface.
_COLUMNS = (
    ("INSTANCE", "instance"),
    ("ADDRESS", "address"),
    ("STATE", "worker_state"),
    ("BEHAVIOR", "idle_behavior"),
    ("TYPE", "arvados_instance_type"),
    ("PROVIDER TYPE", "provider_instance_type"),
    ("PRICE", "price"),
    ("COST", "cost"),
)
_file = click.Path(dir_okay=False, exists=True, path_type=Path)
_url = click.option(
    "--url", metavar="URL", help="Management interface, in place of --data: http://HOST:PORT."
)
_token = click.option(
    "--token-file", type=_file, help="With --url: a file with the ManagementToken."
)
_data = click.option(
    "--data",
    envvar="LADING_DATA",
    type=click.Path(file_okay=False, path_type=Path),
    help="Data directory of that 'lading up'.  [default: $LADING_DATA, else as 'lading up']",
)


@click.group()
def instance() -> None:
    """List, keep and release the VMs of a cloud dispatcher."""


@instance.command("list")
@_url
@_token
@_data
@display.with_json
def list_(url: str | None, token_file: Path | None, data: Path | None) -> display.Output:
    """List the VMs with what they run and cost."""
    answer = run_in_loop(_ask(_way(url, token_file, data), "GET", _PATH))
    items: list[dict[str, Any]] = answer["items"]
    yield items
    rows = [
        [
            *(_cell(item[key]) for _, key in _COLUMNS),
            str(len(item["running_container_uuids"])),
            item["fault"] or "-",
        ]
        for item in items
    ]
    display.table([*(name for name, _ in _COLUMNS), "CONTAINERS", "NOTE"], rows)


def _change(name: str, help: str) -> None:
    @instance.command(name, help=help)
    @click.argument("ids", metavar="INSTANCE...", nargs=-1, required=True)
    @click.option("--reason", default="", help="The reason, for the record.")
    @_url
    @_token
    @_data
    def change(
        ids: Sequence[str], reason: str, url: str | None, token_file: Path | None, data: Path | None
    ) -> None:
        refused = run_in_loop(_change_all(_way(url, token_file, data), name, ids, reason))
        if refused:
            raise click.exceptions.Exit(1)


_change("hold", "Keep VMs whatever happens, and start nothing on them.")
_change("drain", "Start nothing more on VMs, and remove them once they are empty.")
_change("run", "Use VMs as usual again.")
_change("kill", "Remove VMs at once, with all that runs there.")


@instance.command()
@click.argument("id", metavar="[INSTANCE]", required=False)
@_url
@_token
@_data
@display.with_json
def logs(
    id: str | None, url: str | None, token_file: Path | None, data: Path | None
) -> display.Output:
    """Show console and supervisors' log of a VM that is gone, or list such VMs.

    The dispatcher keeps the last 64 KiB of each log, of the latest 200 VMs, for 14 days: the
    console of VMs that failed or disappeared, the supervisors' log of every VM that has one.
    """
    path = f"{_PATH}/logs{'?' + urlencode({'instance_id': id}) if id else ''}"
    answer = run_in_loop(_ask(_way(url, token_file, data), "GET", path))
    yield answer if id else answer["items"]
    if id is None:
        fields = ("instance", "arvados_instance_type", "at", "fault")
        rows = [
            [*(item[key] for key in fields), ", ".join(item["logs"]) or "-"]
            for item in answer["items"]
        ]
        display.table(["INSTANCE", "TYPE", "GONE", "NOTE", "LOGS"], rows)
        return
    click.echo(f"{id} ({answer['arvados_instance_type']}) gone {answer['at']}: {answer['fault']}")
    for name, log in answer["texts"].items():
        # What a VM has written may be meant for the terminal of the reader.
        shown = "\n".join(display.plain(line) for line in log.splitlines())
        click.echo(f"\n==> {name} <==\n{shown}")


async def _change_all(way: tuple[str, str], name: str, ids: Sequence[str], reason: str) -> int:
    refused = 0
    # A refusal does not stop the others; the exit code shows that there was one.
    for instance_id in ids:
        try:
            await _ask(
                way,
                "POST",
                f"{_PATH}/{name}?{urlencode({'instance_id': instance_id, 'reason': reason})}",
            )
            click.echo(f"lading: {instance_id}: {name}", err=True)
        except LadingError as error:
            refused += 1
            click.echo(f"lading: {error.message}", err=True)
    return refused


async def _ask(way: tuple[str, str], method: str, path: str) -> dict[str, Any]:
    import msgspec

    from lading.client.transport import HttpTransport

    url, token = way
    async with HttpTransport(url) as transport:
        answer = await transport.request(method, path, headers={"Authorization": f"Bearer {token}"})
    # Decoded before the status is examined: another kind of server shows by its answer.
    try:
        document = msgspec.json.decode(answer.body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Invalid(f"{url}: this is no management interface of a cloud dispatcher") from error
    if answer.status != 200:
        raise from_status(
            answer.status, "; ".join(document.get("errors") or [f"answered {answer.status}"])
        )
    return document


def _way(url: str | None, token_file: Path | None, data: Path | None) -> tuple[str, str]:
    """Address of the interface, and its token."""
    if url is not None:
        if token_file is None:
            raise click.UsageError("--url needs --token-file with the ManagementToken")
        return url.rstrip("/"), token_file.read_text().strip()
    import os

    from lading.client.servers.environment import default_data_directory
    from lading.wiring.directory import DataDirectory

    directory = DataDirectory((data or default_data_directory(os.environ)).absolute())
    if not (directory.root / "secrets.json").exists():
        raise Invalid(
            f"{directory.root}: no 'lading up' keeps its data here; "
            "name --data, or --url and --token-file"
        )
    secrets = directory.secrets()
    address = directory.config(secrets, address="").Containers.CloudVMs.ManagementAddress
    if not address:
        raise Invalid(
            f"{directory.root}/config.yml: Containers.CloudVMs.ManagementAddress is empty; "
            "set it to HOST:PORT and start the dispatcher anew"
        )
    return f"http://{address}", secrets.management_token


def _cell(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value) or "-"


@click.group()
def cloud() -> None:
    """Test the configuration of a cloud before containers depend on it."""


@cloud.command()
@site_config_option
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="NAME",
    help="An instance type to try; more than once, or 'all'.",
)
@click.option("--command", default="", help="A command to run on each VM in the end.")
@click.option(
    "--set-id", default="", help="InstanceSetID of the test, for several at a time on this machine."
)
@click.option(
    "--listen",
    default="",
    metavar="HOST:PORT",
    help="Address at which VMs reach the server of the test.  "
    "[default: the address of this machine that faces them]",
)
@click.option(
    "--no-server",
    is_flag=True,
    help="Start no server: no request is run, its shell and port not tried.",
)
@display.with_json
def test(
    config: Path,
    types: tuple[str, ...],
    command: str,
    set_id: str,
    listen: str,
    no_server: bool,
) -> display.Output:
    """Make VMs as the dispatcher would, check that they can run containers, and remove them.

    A server is started here for the time of the test. A request runs on each VM, and the test uses
    a shell and a port of its container.

    Without --type the cheapest one is tried. The VMs are paid for while the test runs. Each fault
    is shown with its remedy. The exit code is 0 without faults, else 1; after Ctrl-C 130, once the
    VMs are removed.
    """
    from lading.wiring.trials.cloudtest import CloudTestOptions, main

    options = CloudTestOptions(
        config=config,
        types=types,
        command=command,
        set_id=set_id,
        listen=listen,
        with_server=not no_server,
    )
    yield from run_selftest(
        lambda tell, doing: main(options, tell=tell, doing=doing), created="VMs"
    )
