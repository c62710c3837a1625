"""`lading template`: list, show and remove; other commands are imported when they are called."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import click

from lading.cli import display
from lading.cli.runs.commands import user_names
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.client.templates import records
from lading.client.templates.records import Template
from lading.core.errors import Invalid
from lading.core.quantities import shorten
from lading.core.runs.report import show_value
from lading.core.templates.document import TemplateVersion

_USUAL: Final = 50
_COMMANDS: Final = {
    "save": "lading.cli.templates.saving",
    "run": "lading.cli.templates.running",
}
"""Commands with the module that has each as a function of its name."""


class _TemplateGroup(click.Group):
    """A group that imports some of its commands when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of the help."""
        return [*_COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now."""
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(_COMMANDS[cmd_name])
        command: click.Command = getattr(module, f"{cmd_name}_template")
        return command


@click.group(cls=_TemplateGroup)
def template() -> None:
    """Templates: pipelines that are run again with other values of their parameters.

    A template is saved from a run; each save under the same name is a further version. TEMPLATE is
    a name, as align, or a uuid; align@2 is its second version. CWL workflows of the site are in the
    same list.

    \b
    lading template save cohort-7 --name align --param k --param reads=/in/reads.fq
    lading template run align --set k=31 --run cohort-8
    """


@template.command("list")
@click.option("--name", default="", metavar="TEXT", help="List those with this text in their name.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), default=_USUAL, show_default=True,
    help="List so many at most.",
)  # fmt: skip
@display.with_json
def list_(name: str, limit: int) -> display.Output:
    """List the templates and CWL workflows that you can read, the last changed first.

    \b
    lading template list --name align
    """

    async def action(session: CliSession) -> tuple[list[Template], dict[str, str]]:
        listed = await records.list_templates(session.api, limit=limit, name=name)
        return listed, await user_names(session, [each.owner_uuid for each in listed])

    listed, names = with_session(action)
    yield [_brief(each) for each in listed]
    now = datetime.now(UTC)
    display.table(
        ("TEMPLATE", "KIND", "VERSION", "AGE", "OWNER", "PARAMETERS"),
        [
            (
                each.name,
                each.kind,
                str(each.versions[-1].number) if each.versions else "",
                display.age(each.modified_at, now),
                names.get(each.owner_uuid, ""),
                (each.fault and f"({each.fault})") or _parameters(each.versions[-1]),
            )
            for each in listed
        ],
        optional=("OWNER",),
    )
    if not listed:
        display.note("no template; 'lading template save RUN --param NAME' makes one")


def _brief(listed: Template) -> Record:
    document = listed.document()
    return {name: document[name] for name in document if name not in ("requests", "bindings")}


def _parameters(version: TemplateVersion) -> str:
    """The parameters as one line: `k=25 reads`."""
    words = (
        f"{name}={shorten(show_value(schema['default']), 30)}" if "default" in schema else name
        for name, schema in version.properties.items()
    )
    return shorten(" ".join(words), 200)


@template.command()
@click.argument("which", metavar="TEMPLATE")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the values alone.")
@display.with_json
def show(which: str, schema: bool) -> display.Output:
    """Show the parameters of TEMPLATE, where each stands, its steps and its versions.

    \b
    lading template show align
    lading template show align@1 --schema
    """
    chosen, number = with_session(lambda session: records.find_template(session.api, which))
    document = chosen.document(number)
    if schema:
        version = chosen.version(number)
        yield version.schema()
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(version.schema()), indent=2))
        return
    yield document
    _show_head(chosen, document)
    if chosen.fault:
        return
    version = chosen.version(number)
    _show_parameters(version)
    click.echo()
    display.table(
        ("STEP", "IMAGE", "COMMAND"),
        [
            (
                str(request.get("name") or ""),
                shorten(str(request.get("container_image") or ""), 20),
                shorten(shlex.join(request.get("command") or ()), 200),
            )
            for request in version.requests[:100]
        ],
    )


def _show_head(chosen: Template, document: Mapping[str, Any]) -> None:
    origin: Mapping[str, Any] = next(
        (each["origin"] for each in document["versions"] if each["number"] == document["version"]),
        {},
    )
    display.fields(
        [
            ("template", f"{chosen.name}  ({chosen.uuid})"),
            ("kind", chosen.kind),
            ("description", chosen.description),
            ("fault", chosen.fault),
            ("version", str(document["version"] or "")),
            ("versions", ", ".join(str(each.number) for each in chosen.versions)),
            ("saved from", str(origin.get("name") or origin.get("uuid") or "")),
            ("API access", "its containers act in your name" if document["uses_api"] else ""),
        ]
    )


def _show_parameters(version: TemplateVersion) -> None:
    from lading.core.templates.bindings import label

    click.echo()
    display.table(
        ("PARAMETER", "TYPE", "DEFAULT", "PLACE", "HELP"),
        [
            (
                name,
                type_text(schema),
                shorten(show_value(schema["default"]), 60) if "default" in schema else "(needed)",
                ", ".join(
                    dict.fromkeys(
                        label(binding, version.requests[binding.step])
                        for binding in version.bindings.get(name, ())[:5]
                    )
                ),
                str(schema.get("description") or ""),
            )
            for name, schema in version.properties.items()
        ],
        optional=("HELP",),
    )


def type_text(schema: Mapping[str, Any]) -> str:
    """The type of a parameter with its bounds: `integer, 1 to 63`, `one of 21, 25`."""
    if "enum" in schema:
        choices = ", ".join(show_value(choice) for choice in schema["enum"])
        return f"one of {shorten(choices, 60)}"
    kind = {"lading-input": "input", "cwl-file": "file"}.get(
        schema.get("format", ""), schema["type"]
    )
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is None and most is None:
        return str(kind)
    if most is None:
        return f"{kind}, at least {least}"
    return f"{kind}, at most {most}" if least is None else f"{kind}, {least} to {most}"


@template.command()
@click.argument("which", metavar="TEMPLATE")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@display.with_json
def rm(which: str, yes: bool) -> display.Output:
    """Delete TEMPLATE, or one version of it: align@1. Runs that were made from it stay. There is no
    trash for templates.

    \b
    lading template rm align@1
    """
    chosen, number = with_session(lambda session: records.find_template(session.api, which))
    if chosen.kind != "template":
        raise Invalid(f"{chosen.name}: is a CWL workflow, which its owner removes")
    title = f"version {number} of {chosen.name}" if number else chosen.name
    if not yes:
        display.confirm(f"delete {title}?")
    with_session(lambda session: records.remove(session.api, chosen, number))
    yield {"uuid": chosen.uuid, "name": chosen.name, "version": number}
    display.note(f"deleted {title}")
