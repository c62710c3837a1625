"""`lading template save`: a run as a template."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from lading.cli import display
from lading.cli.references import find_project, find_request
from lading.cli.session import CliSession, with_session
from lading.client.run_records.reading import find_run
from lading.client.templates import records, saving
from lading.client.templates.records import Template
from lading.client.templates.saving import SavedSource
from lading.core.errors import Invalid, NotFound
from lading.core.ids import Infix, is_uuid
from lading.core.quantities import format_time
from lading.core.templates.making import ParameterWish

_TYPES: Final = ("string", "integer", "number", "boolean")


@click.command("save")
@click.argument("run")
@click.option("--name", metavar="NAME", help="Name of the template.  [default: that of the run]")
@click.option(
    "--param", "params", multiple=True, metavar="NAME[=VALUE]",
    help="Parameter; VALUE is its value in the run, or the path of an input there.  "
    "[default: the run's own parameter of this name]",
)  # fmt: skip
@click.option(
    "--bind", "binds", multiple=True, metavar="NAME=STEP:PLACE",
    help="Place of a parameter: an argument align:3, a variable align:env.K, an input "
    "align:/in/reads.",
)  # fmt: skip
@click.option("--type", "types", multiple=True, metavar="NAME=TYPE",
              help=f"Type of a parameter: {', '.join(_TYPES)}.")  # fmt: skip
@click.option("--choice", "choices", multiple=True, metavar="NAME=VALUE",
              help="A value that a parameter may have, once for each.")  # fmt: skip
@click.option("--min", "least", multiple=True, metavar="NAME=NUMBER",
              help="Least value of a parameter.")  # fmt: skip
@click.option("--max", "most", multiple=True, metavar="NAME=NUMBER",
              help="Largest value of a parameter.")  # fmt: skip
@click.option("--about", "abouts", multiple=True, metavar="NAME=TEXT",
              help="Help for a parameter, which forms show.")  # fmt: skip
@click.option("--schema", "schema_file", type=click.Path(path_type=Path), metavar="FILE",
              help="JSON Schema with further keywords of the parameters.")  # fmt: skip
@click.option("--description", default="", help="Description of the template.")
@click.option("--note", default="", help="What is new in this version.")
@click.option("--project", metavar="PROJECT", help="Project that owns it.  [default: yours]")
@click.option(
    "--preview", is_flag=True, help="Show the parameters with their places; save nothing."
)
@display.with_json
def save_template(
    run: str,
    name: str | None,
    params: tuple[str, ...],
    project: str | None,
    description: str,
    note: str,
    preview: bool,
    schema_file: Path | None,
    **keywords: tuple[str, ...],
) -> display.Output:
    """Save RUN, or a request, as a template: its steps with their commands, images and inputs.

    A template that has the name gets a further version; older ones can still be run. Images and
    inputs are kept by content. A parameter is a whole argument, a variable or an input: nothing is
    put into the script of a shell. Secrets are left out: whoever runs the template gives them.

    \b
    lading template save cohort-7 --name align --param k --param reads=/in/reads.fq
    lading template save cohort-7 --name align --param k --min k=11 --max k=63
    """
    source = with_session(lambda session: _source(session, run))
    wishes = _wishes(params, schema_file, keywords)
    draft = saving.version_of(source, wishes, note)
    title = name or source.name
    if not title:
        raise Invalid("the request has no name; give the template one with --name")
    for sentence in draft.notes:
        display.note(sentence)
    if preview:
        yield draft.version.document()
        return
    now = format_time(datetime.now(UTC))

    async def action(session: CliSession) -> Template:
        return await records.save_version(
            session.api,
            title,
            draft.version,
            project=await find_project(session, project) if project else "",
            description=description,
            now=now,
        )

    saved = with_session(action)
    yield saved.document()
    click.echo(f"{saved.name}@{saved.versions[-1].number}")
    name = shlex.quote(saved.name)
    display.note(f"'lading template run {name}' runs it; 'lading template show {name}' explains it")


async def _source(session: CliSession, named: str) -> SavedSource:
    """The run, else the request, of this name. Raises NotFound."""
    if not is_uuid(named, Infix.REQUEST):
        try:
            return await saving.of_run(session.api, await find_run(session.api, named))
        except NotFound as error:
            try:
                request = await find_request(session, named)
            except NotFound:
                raise error from None
        return await saving.of_request(session.api, request)
    request = await session.api.get("container_requests", named)
    if (request["scheduling_parameters"] or {}).get("supervisor"):
        return await saving.of_run(session.api, await find_run(session.api, named))
    return await saving.of_request(session.api, request)


def _wishes(
    params: Sequence[str], schema_file: Path | None, keywords: Mapping[str, tuple[str, ...]]
) -> list[ParameterWish]:
    """The parameters of the options. Raises Invalid for an option of one that is not there."""
    values: dict[str, Any] = {}
    for written in params:
        name, separator, word = written.partition("=")
        values[name] = _json(word) if separator else None
    schemas = _schemas(values, schema_file, keywords)
    bindings: dict[str, list[str]] = {name: [] for name in values}
    for written in keywords["binds"]:
        name, binding = _pair("--bind", written)
        _own(schemas, name, "--bind")
        bindings[name].append(binding)
    return [
        ParameterWish(
            name=name, value=value, bindings=tuple(bindings[name]), keywords=schemas[name]
        )
        for name, value in values.items()
    ]


def _schemas(
    values: Mapping[str, Any], schema_file: Path | None, keywords: Mapping[str, tuple[str, ...]]
) -> dict[str, dict[str, Any]]:
    """The keywords of the JSON Schema of each parameter. Raises Invalid."""
    schemas: dict[str, dict[str, Any]] = {name: {} for name in values}
    if schema_file is not None:
        for name, schema in _properties(schema_file).items():
            _own(schemas, name, str(schema_file)).update(schema)
    for written in keywords["types"]:
        name, kind = _pair("--type", written)
        if kind not in _TYPES:
            raise Invalid(f"--type {written}: must be one of {', '.join(_TYPES)}")
        _own(schemas, name, "--type")["type"] = kind
    for option, key in (("least", "minimum"), ("most", "maximum")):
        for written in keywords[option]:
            name, number = _pair("--min and --max", written)
            _own(schemas, name, "--min and --max")[key] = _json(number)
    for written in keywords["abouts"]:
        name, words = _pair("--about", written)
        _own(schemas, name, "--about")["description"] = words
    for written in keywords["choices"]:
        name, choice = _pair("--choice", written)
        own = _own(schemas, name, "--choice")
        is_text = own.get("type") == "string" or isinstance(values[name], str)
        own.setdefault("enum", []).append(choice if is_text else _json(choice))
    return schemas


def _own(schemas: dict[str, dict[str, Any]], name: str, option: str) -> dict[str, Any]:
    if name not in schemas:
        raise Invalid(f"{option}: {name[:60]} is no parameter; add --param {name[:60]}")
    return schemas[name]


def _pair(option: str, written: str) -> tuple[str, str]:
    name, separator, value = written.partition("=")
    if not separator or not value:
        raise Invalid(f"{option} {written[:80]}: is not NAME=VALUE")
    return name, value


def _json(word: str) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(word)
    except (msgspec.DecodeError, UnicodeError):
        return word


def _properties(file: Path) -> dict[str, dict[str, Any]]:
    """The schemas of the parameters in a file. Raises Invalid."""
    import msgspec

    try:
        document = msgspec.json.decode(file.read_bytes())
    except OSError as error:
        raise Invalid(f"--schema {file}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Invalid(f"--schema {file}: is not JSON") from None
    properties = document.get("properties") if isinstance(document, dict) else None
    if not isinstance(properties, dict) or not all(
        isinstance(schema, dict) for schema in properties.values()
    ):
        raise Invalid(f"--schema {file}: has no object 'properties' with a schema for each")
    return properties
