"""`lading template run`: a template with other values, as a new run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from lading.cli import display
from lading.cli.options import secret_option
from lading.cli.references import find_project, parse_reference
from lading.cli.running.secrets import SecretOption, read_needed
from lading.cli.session import CliSession, with_session
from lading.client.templates import records, starting
from lading.client.templates.starting import StartedRun, StartOptions
from lading.core.errors import Invalid
from lading.core.templates.document import TemplateVersion, bind
from lading.core.templates.parameters import CWL_FILE, INPUT, check_value, parse_value

_STORED: Final = (INPUT, CWL_FILE)


@click.command("run")
@click.argument("which", metavar="TEMPLATE")
@click.option(
    "--set", "values", multiple=True, metavar="NAME=VALUE",
    help="Value of a parameter; of an input a file here, or stored data.  [default: that of the "
    "template]",
)  # fmt: skip
@click.option("--run", "run", default="", metavar="NAME",
              help="Name of the run; one that is there gets a further attempt.  "
              "[default: name of the template]")  # fmt: skip
@click.option("--project", metavar="PROJECT", help="Project that owns the run.  [default: yours]")
@click.option("--priority", type=click.IntRange(1, 1000), default=500, show_default=True)
@click.option("--no-reuse", is_flag=True, help="Run all steps, also those with an earlier result.")
@click.option(
    "--allow-api", is_flag=True,
    help="Let its containers act on the server in your name, as a CWL workflow has to.",
)  # fmt: skip
@secret_option
@click.option("--preview", is_flag=True, help="Show which steps would run and why; submit nothing.")
@display.with_json
def run_template(
    which: str,
    values: tuple[str, ...],
    run: str,
    project: str | None,
    priority: int,
    no_reuse: bool,
    allow_api: bool,
    secrets: tuple[SecretOption, ...],
    preview: bool,
) -> display.Output:
    """Run TEMPLATE with other values, as a run of yours; its commands run with your rights.

    Values are checked before anything is submitted. With --run NAME the run is called so; without
    it, it is the next attempt of the run with the template's name.

    \b
    lading template run align --set k=31 --set reads=sample_8.fq --run cohort-8
    lading template run align@1
    """
    chosen, number = with_session(lambda session: records.find_template(session.api, which))
    version = chosen.version(number)
    written = _written(version, values)
    # A wrong value is found before a file is stored.
    _check(version, written)
    contents = read_needed(secrets, version.requests)
    given = with_session(lambda session: _stored(session, version, written))
    if preview:
        yield from _preview(version, given, reuse=not no_reuse)
        return

    async def action(session: CliSession) -> StartedRun:
        options = StartOptions(
            run=run,
            project=await find_project(session, project) if project else "",
            priority=priority,
            reuse=not no_reuse,
            secrets=contents,
            may_act=allow_api,
        )
        return await starting.start(session.api, chosen, version, given, options)

    started = with_session(action)
    yield {
        "uuid": started.uuid,
        "name": started.name,
        "attempt": started.attempt,
        "template": chosen.uuid,
        "version": version.number,
        "requests": list(started.requests),
    }
    click.echo(f"{started.name}#{started.attempt}" if started.attempt > 1 else started.name)
    count = len(started.requests)
    display.note(
        f"{count} request{'' if count == 1 else 's'} submitted; "
        f"'lading runs watch {started.uuid}' shows the run"
    )


def _written(version: TemplateVersion, values: Sequence[str]) -> dict[str, str]:
    written: dict[str, str] = {}
    for value in values:
        name, separator, word = value.partition("=")
        if not separator:
            raise Invalid(f"--set {value[:80]}: is not NAME=VALUE")
        if name not in version.properties:
            known = ", ".join(version.properties) or "none"
            raise Invalid(f"--set {name[:60]}: the template has the parameters {known[:180]}")
        if name in written:
            raise Invalid(f"--set {name}: is given twice")
        written[name] = word
    return written


def _check(version: TemplateVersion, written: Mapping[str, str]) -> None:
    """Check all values but those of inputs, which may name files here. Raises Invalid."""
    for name, schema in version.properties.items():
        if name in written and schema.get("format") not in _STORED:
            check_value(name, parse_value(name, written[name], schema), schema)
        elif name in written:
            _input_path(name, written[name], schema)
        elif "default" not in schema:
            raise Invalid(f"{name}: has no default; give it with --set {name}=VALUE")


def _input_path(name: str, word: str, schema: Mapping[str, Any]) -> Path | None:
    """The file here that an input names; None for stored data. Raises Invalid for neither."""
    # A file of this name has precedence over stored data.
    if word and (path := Path(word)).exists():
        return path
    if word.startswith("{") and schema.get("format") == CWL_FILE:
        return None
    if not word or word.startswith(("/", ".", "~")) or parse_reference(word) is None:
        raise Invalid(f"--set {name}={word[:80]}: is no file here, and no hash or uuid of stored "
                      "data")  # fmt: skip
    return None


async def _stored(
    session: CliSession, version: TemplateVersion, written: Mapping[str, str]
) -> dict[str, Any]:
    """The values, with files of this machine stored. Raises Invalid."""
    from lading.client.files.deposits import arrange, deposit, label_of

    values: dict[str, Any] = {}
    for name, word in written.items():
        schema = version.properties[name]
        path = _input_path(name, word, schema) if schema.get("format") in _STORED else None
        if path is None:
            values[name] = parse_value(name, word, schema)
            continue
        sources = arrange([path])
        made = await deposit(session.api, session.blocks, sources, label=label_of(path))
        inner = "" if "" in sources else f"/{next(iter(sources))}"
        values[name] = f"{made.portable_data_hash}{inner}"
    return values


def _preview(version: TemplateVersion, values: Mapping[str, Any], *, reuse: bool) -> display.Output:
    from lading.cli.provenance.preview import show_pipeline
    from lading.client.provenance.previewing import preview_pipeline

    requests, _ = bind(version, values)
    bodies = [
        {**{key: value for key, value in request.items() if key != "secrets_needed"},
         "state": "Committed", "priority": 1, "use_existing": reuse}
        for request in requests
    ]  # fmt: skip
    yield from show_pipeline(with_session(lambda session: preview_pipeline(session.api, bodies)))
