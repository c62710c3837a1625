"""`lading map`, one command for each of many files or rows of a table; and `lading wait`.

`{}` and `{column}` are replaced in the command, in inputs, variables and names. Requests are
created by one call for each 1,000, all or none. Their outputs become one collection with a
directory for each.

`lading wait` waits for many requests and reports how they ended. The exit code is 0 if all of them
succeeded, else the exit code of the first that failed.
"""

from __future__ import annotations

import asyncio
import csv
import re
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from lading.cli import display
from lading.cli.exit_codes import TIMED_OUT
from lading.cli.options import DURATION, PassingCommand, option_of
from lading.cli.references import FileReference, find_project, find_request, find_tree
from lading.cli.running import selection
from lading.cli.running.run import check_target, interruptible, run, standard_input
from lading.cli.running.selection import RequestSelection, matching
from lading.cli.running.submission import (
    Input,
    RequestSpec,
    newest_image,
    parse_input,
    request_body,
    store_inputs,
)
from lading.cli.session import CliSession, with_session
from lading.client.api import ApiClient, Record
from lading.client.outcomes import RequestOutcome, wait_for_all
from lading.core.errors import Invalid, NotFound


@click.command(cls=PassingCommand)
@click.argument("requests", nargs=-1, metavar="[REQUEST]...")
@matching
@click.option("--timeout", type=DURATION, default="0", metavar="TIME", help="Wait no longer.")
@display.json_option
def wait(requests: tuple[str, ...], timeout: int, as_json: bool, **selected: Any) -> None:
    """Wait until requests have ended: those that are named, and those that match the options.

    The exit code is 0 if all have succeeded, else that of the first that failed; 124 after
    --timeout. Ctrl-C stops the wait; the requests go on.
    """
    wanted = RequestSelection(**selected)
    if not requests and wanted == RequestSelection():
        raise click.UsageError(
            "Name requests, or give --name, --project, --user, --property or --since."
        )

    async def action(session: CliSession) -> list[RequestOutcome]:
        found = await _find(session, requests, wanted)
        async with asyncio.timeout(timeout or None):
            return await wait_and_show(session.api, found, is_quiet=as_json)

    try:
        ended = with_session(action)
    except TimeoutError:
        display.note(f"some have not ended after {display.duration(timeout)}")
        sys.exit(TIMED_OUT)
    if as_json:
        display.emit_json([_row(one) for one in ended])
    else:
        show_end(ended)
    sys.exit(worst(ended))


async def wait_and_show(
    api: ApiClient, uuids: Sequence[str], *, is_quiet: bool
) -> list[RequestOutcome]:
    """Wait until all requests are Final, with a bar; as `wait_for_all`."""
    with display.progress("requests", is_quiet=is_quiet, is_bytes=False) as show:
        return await wait_for_all(api, uuids, show)


def show_end(ended: Sequence[RequestOutcome]) -> None:
    """Print how many have succeeded, and those that failed, one a line."""
    bad = [one for one in ended if one.exit_code]
    for one in bad:
        click.echo(_line(one))
    display.note(f"{len(ended) - len(bad)} of {len(ended)} succeeded")


def _line(one: RequestOutcome) -> str:
    name = display.plain(one.request["name"] or "")
    return f"failed  {one.request['uuid']}  {name + ': ' if name else ''}{one.fault}"


def worst(ended: Sequence[RequestOutcome]) -> int:
    """The exit code for all of them: of the first that failed."""
    return next((one.exit_code for one in ended if one.exit_code), 0)


async def _find(session: CliSession, named: Sequence[str], wanted: RequestSelection) -> list[str]:
    found = [str((await find_request(session, one))["uuid"]) for one in named]
    if wanted != RequestSelection():
        rows = await selection.find(session, wanted)
        submitted = [one.request for one in rows.requests if one.request["state"] != "Uncommitted"]
        # In the order of their creation.
        found += [row["uuid"] for row in reversed(submitted)]
        if not found:
            raise NotFound("no such request; see 'lading request list'")
    return list(dict.fromkeys(found))


def _row(one: RequestOutcome) -> Record:
    request, container = one.request, one.container or {}
    return {
        "uuid": request["uuid"],
        "name": request["name"],
        "exit_code": one.exit_code,
        "state": container.get("state"),
        "output": container.get("output"),
        "output_uuid": request["output_uuid"],
    }


_PAGE = 1000
"""Requests of one call, the most that a server accepts."""
_UPLOADS = 8
"""Inputs that are stored at a time: beyond that the server's disk is the limit."""
_PLACEHOLDER = re.compile(r"\{([\w.-]*)\}")
_OWN = {
    "inputs",
    "output",
    "overwrite",
    "preview",
    "detach",
    "as_json",
    "container",
    "command",
}
_data, _doing = option_of("Data"), option_of("What to do")


@click.command(cls=PassingCommand, context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, metavar="[--] COMMAND...")
@_data(
    "-i",
    "--items",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="The files here that match, as 'reads/*.fq'; {} is the path, {name} and {stem} its name.",
)
@_data(
    "--table",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A row each of a CSV or TSV file with headings; {} is the first column.",
)
@_data(
    "--input",
    "inputs",
    multiple=True,
    metavar="TARGET=SOURCE",
    help="Mount SOURCE there, as /in/reads={}.",
)
@_data(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Download the outputs, a directory for each.",
)
@_data(
    "--overwrite",
    is_flag=True,
    help="Download into a directory that has files, and replace those of one name.",
)
@_doing(
    "--max-parallel",
    type=click.IntRange(1, 1 << 31),
    metavar="N",
    help="Run at most N at a time, also after this command has left.",
)
@_doing("--detach", is_flag=True, help="Submit them, print their uuids and leave.")
@display.json_option
def map(
    command: tuple[str, ...],
    patterns: tuple[str, ...],
    table: Path | None,
    inputs: tuple[str, ...],
    output: Path | None,
    overwrite: bool,
    environment: tuple[tuple[str, str], ...],
    properties: tuple[tuple[str, Any], ...],
    output_property: tuple[tuple[str, Any], ...],
    no_reuse: bool,
    stdin: bool,
    max_parallel: int | None,
    detach: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Run COMMAND once for each file or row, and wait for all of them.

    \b
    lading map -i 'reads/*.fq' --input /in={} -- sh -c 'wc -l < /in > lines'
    lading map --table samples.csv --input /in={file} -- sort -k {column} -o sorted /in

    Other braces stay as they are. The requests are named after --name, or after the program, with a
    number: sort.0, sort.1, ...; `lading wait --name 'sort.*'` waits for them. With --stdin every
    command reads all of our standard input, which is stored once. The exit code is 0 if all have
    succeeded, else that of the first that failed.
    """
    if bool(patterns) == (table is not None):
        raise click.UsageError("Give --items PATTERN or --table FILE.")
    check_target(output, overwrite=overwrite)
    rows = list(_rows_of(table) if table is not None else _files(patterns))
    if not rows:
        raise Invalid(f"{', '.join(patterns) or table}: nothing to do: no file or row")
    spec = RequestSpec(
        command=command,
        environment=dict(environment),
        properties=dict(properties),
        output_properties=dict(output_property),
        use_existing=not no_reuse,
        # A group of its own: two calls do not wait for each other.
        parallel_group=f"map {secrets.token_hex(8)}" if max_parallel else None,
        max_parallel=max_parallel or 0,
        **options,
    )
    specs = [_bind(spec, inputs, {**row, "number": str(number)}) for number, row in enumerate(rows)]

    async def action(session: CliSession) -> int:
        project = await find_project(session, spec.project) if spec.project else None
        placed = [replace(one, project=project) for one in specs]
        uuids = await submit_all(session, placed, is_quiet=as_json)
        if detach:
            _show_detached(uuids, specs[0].name or "", as_json=as_json)
            return 0
        display.note(f"{len(uuids)} submitted as {specs[0].name} to {specs[-1].name}")
        ended = await _await_all(session, uuids, is_quiet=as_json)
        combined = await _combine(session, ended, replace(spec, project=project))
        if output is not None and combined is not None:
            tree = await find_tree(session, FileReference(combined["uuid"]))
            from lading.cli.files import data

            await data.write_node(session, tree, output, name="", is_quiet=as_json)
        _show(ended, combined, as_json=as_json)
        return worst(ended)

    with ExitStack() as held:
        if stdin:
            piped = held.enter_context(standard_input())
            specs = [replace(one, inputs=(*one.inputs, piped)) for one in specs]
        sys.exit(with_session(action))


# All options of `lading run` that are the same for each item.
map.params += [one for one in run.params if one.name not in _OWN]


async def submit_all(
    session: CliSession, specs: Sequence[RequestSpec], *, is_quiet: bool = False
) -> list[str]:
    """Store the inputs, each once, and create the requests; their uuids. Raises Invalid and the
    errors of the API, before any request of the same 1,000 is created.
    """
    image = specs[0].image
    if not image:
        chosen = await newest_image(session)
        image = chosen.pdh
        display.note(f"image {', '.join(chosen.names) or chosen.digest}, the one added last")
    elif specs[0].pull:
        # Imported here, as `data` above: most calls neither pull nor fetch.
        from lading.cli.images import pull_missing

        await pull_missing(session, image, is_quiet=is_quiet)
    after = [str((await find_request(session, text))["uuid"]) for text in specs[0].after]
    mounted = await _store(session, specs, is_quiet=is_quiet)
    bodies = [
        request_body(spec, image=image, mounts=mounts, after=after)
        for spec, mounts in zip(specs, mounted, strict=True)
    ]
    uuids: list[str] = []
    for start in range(0, len(bodies), _PAGE):
        answer = await session.api.action(
            "container_requests",
            None,
            "batch",
            body={"container_requests": bodies[start : start + _PAGE], "select": ["uuid"]},
        )
        uuids += [str(row["uuid"]) for row in answer["items"]]
    return uuids


async def _store(
    session: CliSession, specs: Sequence[RequestSpec], *, is_quiet: bool
) -> list[dict[str, dict[str, object]]]:
    """The mounts of each; a source that several have is stored once."""
    sources = dict.fromkeys(replace(one, target="/") for spec in specs for one in spec.inputs)
    stored: dict[Input, dict[str, object]] = {}
    gate = asyncio.Semaphore(_UPLOADS)
    with display.progress("inputs", is_quiet=is_quiet, is_bytes=False) as show:

        async def store(source: Input) -> None:
            async with gate:
                stored[source] = (await store_inputs(session, [source], is_quiet=True))["/"]
            show(len(stored), len(sources))

        async with asyncio.TaskGroup() as group:
            for source in sources:
                group.create_task(store(source))
    mounted = []
    for spec in specs:
        mounts: dict[str, dict[str, object]] = {}
        for one in spec.inputs:
            if one.target in mounts:
                raise Invalid(f"--input {one.target}: given twice")
            mounts[one.target] = stored[replace(one, target="/")]
        mounted.append(mounts)
    return mounted


async def _await_all(
    session: CliSession, uuids: Sequence[str], *, is_quiet: bool
) -> list[RequestOutcome]:
    """Wait for the end of all; the first Ctrl-C cancels the requests that have not ended."""
    cancelling: list[asyncio.Task[None]] = []

    async def cancel_all() -> None:
        for uuid in uuids:
            await session.api.action("container_requests", uuid, "cancel")

    def cancel() -> None:
        cancelling.append(asyncio.create_task(cancel_all(), name="cancel"))

    async with interruptible(f"{len(uuids)} requests", cancel):
        try:
            return await wait_and_show(session.api, uuids, is_quiet=is_quiet)
        finally:
            await asyncio.gather(*cancelling, return_exceptions=True)


async def _combine(
    session: CliSession, ended: Sequence[RequestOutcome], spec: RequestSpec
) -> Record | None:
    """One collection with the output of each that succeeded, in a directory of its name."""
    pieces = {
        f"/{one.request['name'].replace('/', '_')}": f"{one.container['output']}/"
        for one in ended
        if not one.exit_code and one.container and one.container["output"]
    }
    if not pieces:
        return None
    attributes = {
        "name": spec.output_name or f"outputs of {_name(spec)}",
        "properties": dict(spec.output_properties),
    }
    if spec.project:
        attributes["owner_uuid"] = spec.project
    return await session.api.create(
        "collections", attributes, replace_files=pieces, ensure_unique_name=True
    )


def _show(ended: Sequence[RequestOutcome], combined: Record | None, *, as_json: bool) -> None:
    if as_json:
        display.emit_json(
            {
                "requests": [
                    {"uuid": one.request["uuid"], "exit_code": one.exit_code} for one in ended
                ],
                "output_uuid": combined["uuid"] if combined else None,
                "output": combined["portable_data_hash"] if combined else None,
            }
        )
        return
    show_end(ended)
    if combined is not None:
        display.note(f"output {combined['uuid']} ({display.plain(combined['name'])})")


def _show_detached(uuids: Sequence[str], name: str, *, as_json: bool) -> None:
    if as_json:
        display.emit_json(uuids)
        return
    click.echo("\n".join(uuids))
    display.note(f"wait for them with: lading wait --name '{name.rpartition('.')[0]}.*'")


def _files(patterns: Sequence[str]) -> Iterator[dict[str, str]]:
    """The files that match, each once, with the values of their placeholders."""
    found = dict.fromkeys(path for pattern in patterns for path in _matching(pattern))
    for path in found:
        yield {"": path, "name": Path(path).name, "stem": Path(path).stem}


def _matching(pattern: str) -> list[str]:
    """The paths that match, sorted. A pattern is relative to the working directory, or absolute."""
    path = Path(pattern)
    root = Path(path.anchor) if path.is_absolute() else Path()
    return sorted(str(one) for one in root.glob(str(path.relative_to(path.anchor))))


def _rows_of(table: Path) -> Iterator[dict[str, str]]:
    """The rows of a table by heading. Raises Invalid for one without headings."""
    with table.open(newline="") as file:
        first = file.readline()
        file.seek(0)
        rows = csv.DictReader(file, delimiter="\t" if "\t" in first else ",")
        names = [name.strip() for name in rows.fieldnames or ()]
        if not names or not all(names):
            raise Invalid(f"{table}: its first line must have the names of the columns")
        rows.fieldnames = names
        for line, row in enumerate(rows, 2):
            if None in row or None in row.values():
                raise Invalid(f"{table}: line {line} has not {len(names)} columns")
            yield {"": row[names[0]], **row}


def _bind(spec: RequestSpec, inputs: Sequence[str], values: Mapping[str, str]) -> RequestSpec:
    """The request of one item. Raises Invalid for an input that is not there."""

    def fill(text: str) -> str:
        return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)

    return replace(
        spec,
        command=tuple(fill(word) for word in spec.command),
        environment={name: fill(value) for name, value in spec.environment.items()},
        inputs=tuple(parse_input(fill(text)) for text in inputs),
        name=f"{fill(_name(spec))}.{values['number']}",
        description=fill(spec.description) if spec.description else None,
    )


def _name(spec: RequestSpec) -> str:
    return spec.name or Path(spec.command[0]).name
