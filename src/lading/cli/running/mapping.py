"""`lading map`: one command for each of many files, or rows of a table.

`{}` and `{column}` are replaced in the command, in inputs, variables and names. Requests are
created by one call for each 1,000, all or none. Their outputs become one collection with a
directory for each.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from lading.cli import display
from lading.cli.exit_codes import INTERRUPTED
from lading.cli.hangup import unread
from lading.cli.options import PassingCommand, option_of
from lading.cli.references import (
    FileReference,
    check_storage_classes,
    find_project,
    find_request,
    find_tree,
)
from lading.cli.running.inputs import Input, parse_input
from lading.cli.running.map_items import MapItem, files_of, rows_of
from lading.cli.running.run import check_target, run, secret_mounts
from lading.cli.running.secrets import SecretOption
from lading.cli.running.submission import (
    RequestSpec,
    default_image,
    output_patterns,
    request_body,
    store_inputs,
    tell_image,
)
from lading.cli.runs.membership import join_run
from lading.cli.session import CliSession, tell_list, with_session
from lading.core.errors import Invalid, LadingError
from lading.core.placeholders import PLACEHOLDER, fill, fill_command

if TYPE_CHECKING:
    from lading.client.api import Record
    from lading.client.outcomes import RequestOutcome
    from lading.client.provenance.failures import FailureReport

_PIECES = "outputs_sha256"
"""The property of a collection of outputs that tells of what it was made."""
_PAGE = 1000
"""Requests of one call, the most that a server accepts."""
_UPLOADS = 8
"""Inputs that are stored at the same time. With more the disk of the server is the limit."""
_OWN = {
    "inputs",
    "output",
    "overwrite",
    "preview",
    "verbose",
    "detach",
    "json",
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
@_doing("--preview", is_flag=True, help="Show which would run and why, and submit nothing.")
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
    secrets: tuple[SecretOption, ...],
    properties: tuple[tuple[str, Any], ...],
    output_property: tuple[tuple[str, Any], ...],
    no_reuse: bool,
    stdin: bool,
    max_parallel: int | None,
    preview: bool,
    detach: bool,
    **options: Any,
) -> None:
    """Run COMMAND once for each file or row, and wait for all of them.

    \b
    lading map -i 'reads/*.fq' --input /in={} -- sh -c 'wc -l < /in > lines'
    lading map --table samples.csv --input /in={file} -- sort -k {column} -o sorted /in

    In the script of a shell each value is one word, whatever characters it has: {column} becomes a
    variable there. {column:q} is quoted for a shell, {column:raw} the text itself. A value that
    awk, sed or another interpreter would read as code is refused. Other braces stay as they are.
    The requests are named after --name, or after the program, with a number: sort.0, sort.1, ...;
    `lading wait --name 'sort.*'` waits for them. With --stdin every command reads all of our
    standard input, which is stored once. The exit code is 0 if all have succeeded, else that of the
    first that failed.
    """
    if bool(patterns) == (table is not None):
        raise click.UsageError("Give --items PATTERN or --table FILE.")
    check_target(output, overwrite=overwrite)
    items = rows_of(table) if table is not None else files_of(patterns)
    kept = output_patterns(options.pop("output_glob"), options["output_path"])
    spec = RequestSpec(
        command=command,
        output_glob=kept,
        environment=dict(environment),
        secret_mounts=secret_mounts(secrets, environment, stdin=stdin),
        properties=dict(properties),
        output_properties=dict(output_property),
        use_existing=not no_reuse,
        # A group of its own: two calls do not wait for each other.
        parallel_group=f"map {os.urandom(8).hex()}" if max_parallel else None,
        max_parallel=max_parallel or 0,
        **options,
    )
    specs = _bind_all(spec, inputs, items)

    async def action(session: CliSession) -> int:
        project = await find_project(session, spec.project) if spec.project else None
        placed = [structs.replace(spec, project=project) for spec in specs]
        if preview:
            return await _preview(session, placed)
        placed = await join_run(session, placed)
        uuids = await submit_all(session, placed)
        if detach:
            display.show(_show_detached(uuids, specs[0].name or ""))
        else:
            display.note(f"{len(uuids)} submitted as {specs[0].name} to {specs[-1].name}")
        if not display.is_json_command():
            tell_list(session, f"{_stem(specs[0])}.")
        if detach:
            return 0
        see = f"lading request list --name '{_stem(specs[0])}.*'"
        # Outputs of all are together where the outputs of each are.
        owned = structs.replace(spec, project=placed[0].project)
        return await _finish(session, uuids, owned, output=output, see=see)

    from lading.cli.running.standard_input import standard_input

    with ExitStack() as exit_stack:
        if stdin:
            piped = exit_stack.enter_context(standard_input())
            specs = [structs.replace(spec, inputs=(*spec.inputs, piped)) for spec in specs]
        sys.exit(with_session(action))


# All options of `lading run` that are the same for each item.
map.params += [option for option in run.params if option.name not in _OWN]


async def _preview(session: CliSession, specs: Sequence[RequestSpec]) -> int:
    """Show which requests would run and why; the inputs are stored. The exit code."""
    from lading.cli.provenance.preview import show_pipeline
    from lading.client.provenance.previewing import preview_pipeline

    bodies = await _prepare(session, specs)
    display.show(show_pipeline(await preview_pipeline(session.api, bodies)))
    return 0


async def _finish(
    session: CliSession,
    uuids: Sequence[str],
    spec: RequestSpec,
    *,
    output: Path | None,
    see: str,
) -> int:
    """Wait for the requests, combine their outputs, download and show them. The exit code.

    `spec` names the collection of all outputs and its project; `see` is the command that lists the
    requests.
    """
    # Imported here, as everywhere below: `lading map --detach` waits for nothing.
    from lading.cli.running.waiting import read_failures, tell_failure, worst

    ended, is_interrupted = await _await_all(session, uuids, see=see)
    combined = await _combine(session, ended, spec)
    written = ""
    if output is not None and combined is not None:
        tree = await find_tree(session, FileReference(combined["uuid"]))
        from lading.cli.files import data

        place, files, size = await data.write_node(session, tree, output, name="")
        written = f"wrote {data.count(files, 'file')}, {display.size(size)}, to {place}"
    failures = (
        {} if display.is_json_command() or is_interrupted else await read_failures(session, ended)
    )
    with unread():
        if display.is_json_command():
            _emit(ended, combined)
        else:
            _show(ended, failures, combined, is_interrupted=is_interrupted)
            if written:
                display.note(written)
            tell_failure(session, ended)
    code = worst(ended)
    return INTERRUPTED if is_interrupted and code else code


async def submit_all(session: CliSession, specs: Sequence[RequestSpec]) -> list[str]:
    """Store the inputs, each once, and create the requests; their uuids. Raises Invalid and the
    errors of the API, before any request of the same 1,000 is created.
    """
    bodies = await _prepare(session, specs)
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


async def _prepare(session: CliSession, specs: Sequence[RequestSpec]) -> list[dict[str, Any]]:
    """Store the inputs, each once; the attributes of the requests."""
    await check_storage_classes(session, specs[0].storage_class)
    if specs[0].image and specs[0].pull:
        # Imported here, as `data` above: most calls neither pull nor fetch.
        from lading.cli.images import pull_missing

        await pull_missing(session, specs[0].image)
    image = specs[0].image or await default_image(session)
    if specs[0].image:
        await tell_image(session, image)
    after = [str((await find_request(session, name))["uuid"]) for name in specs[0].after]
    mounted = await _store(session, specs)
    return [
        request_body(spec, image=image, mounts=mounts, after=after)
        for spec, mounts in zip(specs, mounted, strict=True)
    ]


async def _store(
    session: CliSession, specs: Sequence[RequestSpec]
) -> list[dict[str, dict[str, object]]]:
    """The mounts of each; a source that several have is stored once."""
    # The source of an input, and the first target that has it, for messages.
    sources: dict[Input, str] = {}
    for spec in specs:
        for source in spec.inputs:
            # Without the target, which differs from item to item where the source does not.
            sources.setdefault(structs.replace(source, target=""), source.target)
    stored: dict[Input, dict[str, object]] = {}
    # All tasks are made at once and wait here: progress knows the total from the start.
    gate = asyncio.Semaphore(_UPLOADS)
    # Imported here: `lading map --help` stores nothing.
    from lading.client.files.deposits import ContentSearch

    search = ContentSearch(session.api)
    with display.progress("inputs", is_bytes=False) as show:

        async def store(source: Input, target: str) -> None:
            async with gate:
                placed = structs.replace(source, target=target)
                mounts = await store_inputs(
                    session, [placed], is_quiet=True, links=specs[0].links, search=search
                )
                stored[source] = mounts[target]
            show(len(stored), len(sources))

        async with asyncio.TaskGroup() as group:
            for source, target in sources.items():
                group.create_task(store(source, target))
    mounted = []
    for spec in specs:
        mounts: dict[str, dict[str, object]] = {}
        for source in spec.inputs:
            if source.target in mounts:
                raise Invalid(f"--input {source.target}: given twice")
            mounts[source.target] = stored[structs.replace(source, target="")]
        mounted.append(mounts)
    return mounted


async def _await_all(
    session: CliSession, uuids: Sequence[str], *, see: str
) -> tuple[list[RequestOutcome], bool]:
    """Wait for the end of all; the first Ctrl-C cancels the requests that have not ended. The
    outcomes, and whether there was a Ctrl-C.
    """
    from lading.cli.interruption import interruptible
    from lading.cli.running.bulk_actions import act_on_each
    from lading.cli.running.waiting import wait_and_show

    cancelling: list[asyncio.Task[object]] = []

    async def cancel_all() -> None:
        # The last ones first, so that none of them starts in place of one that was cancelled.
        answers = await act_on_each(
            [*reversed(uuids)],
            lambda uuid: session.api.action("container_requests", uuid, "cancel"),
        )
        for answer in answers:
            if isinstance(answer, LadingError):
                raise answer

    def cancel() -> None:
        cancelling.append(asyncio.create_task(cancel_all(), name="cancel"))

    work = f"{len(uuids)} request{'s' if len(uuids) > 1 else ''}"
    async with interruptible(work, cancel, see=see) as was_interrupted:
        try:
            ended = await wait_and_show(session.api, uuids)
        finally:
            await asyncio.gather(*cancelling, return_exceptions=True)
    return ended, was_interrupted()


async def _combine(
    session: CliSession, ended: Sequence[RequestOutcome], spec: RequestSpec
) -> Record | None:
    """One collection with the output of each that succeeded, in a directory of its name."""
    pieces = {
        f"/{outcome.request['name'].replace('/', '_')}": f"{outcome.container['output']}/"
        for outcome in ended
        if not outcome.exit_code and outcome.container and outcome.container["output"]
    }
    if not pieces:
        return None
    import json

    # Of names and contents: another set of outputs is another collection.
    digest = hashlib.sha256(json.dumps(pieces, sort_keys=True).encode()).hexdigest()
    attributes: dict[str, Any] = {
        "name": spec.output_name or f"outputs of {_name(spec)}",
        "properties": {**spec.output_properties, _PIECES: digest},
    }
    if spec.project:
        attributes["owner_uuid"] = spec.project
    return await _made_before(session, attributes) or await session.api.create(
        "collections", attributes, replace_files=pieces, ensure_unique_name=True
    )


async def _made_before(session: CliSession, attributes: Mapping[str, Any]) -> Record | None:
    """The collection that the same call has made earlier, if nobody has changed that since."""
    filters = [[f"properties.<{_PIECES}>", "=", attributes["properties"][_PIECES]]]
    if "owner_uuid" in attributes:
        filters.append(["owner_uuid", "=", attributes["owner_uuid"]])
    for collection in await session.api.list("collections", filters=filters):
        is_as_made = collection["modified_at"] == collection["created_at"]
        # The server adds to a name that is taken.
        is_called_so = f"{collection['name']} (".startswith(f"{attributes['name']} (")
        if is_as_made and is_called_so and collection["properties"] == attributes["properties"]:
            return collection
    return None


def _emit(ended: Sequence[RequestOutcome], combined: Record | None) -> None:
    display.emit_json(
        {
            "requests": [
                {"uuid": outcome.request["uuid"], "exit_code": outcome.exit_code}
                for outcome in ended
            ],
            "output_uuid": combined["uuid"] if combined else None,
            "output": combined["portable_data_hash"] if combined else None,
        }
    )


def _show(
    ended: Sequence[RequestOutcome],
    failures: Mapping[str, FailureReport],
    combined: Record | None,
    *,
    is_interrupted: bool,
) -> None:
    from lading.cli.running.waiting import show_end

    show_end(ended, failures, is_interrupted=is_interrupted)
    if combined is not None:
        display.note(f"output {combined['uuid']} ({display.plain(combined['name'])})")


def _show_detached(uuids: Sequence[str], name: str) -> display.Output:
    yield uuids
    click.echo("\n".join(uuids))
    display.note(f"wait for them with: lading wait --name '{name.rpartition('.')[0]}.*'")


def _stem(spec: RequestSpec) -> str:
    """Common beginning of the names of all requests."""
    return (spec.name or "").rpartition(".")[0]


def _bind_all(
    spec: RequestSpec, inputs: Sequence[str], items: Sequence[MapItem]
) -> list[RequestSpec]:
    """The request of each item, numbered in its name. Raises Invalid that names the item."""
    specs = []
    for number, item in enumerate(items):
        try:
            specs.append(_bind(spec, inputs, item, number))
        except Invalid as error:
            raise Invalid(f"{display.plain(item.origin)}: {error.message}") from error
    return specs


def _bind(spec: RequestSpec, inputs: Sequence[str], item: MapItem, number: int) -> RequestSpec:
    """The request of one item. Raises Invalid for an input that is not there, and for a value that
    would be read as code.
    """
    values = {**item.texts, "number": str(number)}
    return structs.replace(
        spec,
        command=fill_command(spec.command, values),
        environment={name: fill(value, values) for name, value in spec.environment.items()},
        inputs=tuple(_input(option, item, values) for option in inputs),
        name=f"{fill(_name(spec), values)}.{number}",
        description=fill(spec.description, values) if spec.description else None,
    )


def _input(option: str, item: MapItem, values: Mapping[str, str]) -> Input:
    """The input of one item: its target is a text of the record, its source a path of this machine.

    Raises Invalid for a source that is missing, and for a placeholder that nothing replaces: no
    file has such a name.
    """
    target, equals, source = option.partition("=")
    source = fill(source, {**values, **item.values})
    left = PLACEHOLDER.search(source)
    if left is not None and not Path(source).exists():
        placeholders = ", ".join(f"{{{name}}}" for name in sorted(values) if name != "number")
        raise Invalid(f"--input {option}: {left[0]} is none of {placeholders}")
    return parse_input(f"{fill(target, values)}{equals}{source}")


def _name(spec: RequestSpec) -> str:
    return spec.name or Path(spec.command[0]).name
