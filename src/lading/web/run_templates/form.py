"""The page of a template: a form made from the schema of its parameters, which runs it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from lading.client import sharing
from lading.client.templates import records, starting
from lading.client.templates.records import Template
from lading.client.templates.starting import StartOptions
from lading.core.errors import Invalid, LadingError, NotFound
from lading.core.ids import Infix, is_pdh, is_uuid
from lading.core.quantities import shorten
from lading.core.runs.parameters import parse_number
from lading.core.runs.report import show_value
from lading.core.templates.bindings import label
from lading.core.templates.document import TemplateVersion
from lading.core.templates.parameters import CWL_FILE, INPUT, check_value, parse_value
from lading.web.requests import input_choice
from lading.web.visit import Visit

_VALUE: Final = "value:"
_MOST_STEPS: Final = 100
_HINTS: Final[Mapping[str, str]] = {
    INPUT: "hash or uuid of a collection, /path for a part of it",
    CWL_FILE: "HASH/path of a file, or an object of CWL",
    "integer": "a whole number",
    "number": "a number",
    "array": "a list, as JSON",
    "object": "an object, as JSON",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """A parameter as a field: `value` is what it shows, `choices` are those of a select."""

    name: str
    title: str
    value: str
    hint: str
    help: str
    kind: str
    choices: tuple[str, ...]
    least: str
    most: str
    is_required: bool
    is_input: bool


async def show(visit: Visit) -> Response:
    """The form, with the defaults of the version of the address."""
    template = await _find(visit)
    number = parse_number(visit.query("version"), name="version")
    return await _page(visit, template, number, {})


async def run(visit: Visit) -> Response:
    """Run the template and go to its run; a form with faults is shown again with them."""
    template = await _find(visit)
    number = parse_number(visit.field("version"), name="version")
    version = template.version(number)
    texts = {name: visit.field(f"{_VALUE}{name}") for name in version.properties}
    more = {name: visit.field(name).strip() for name in ("run", "project", "reuse", "consent")}
    texts = {**texts, **{f"form {name}": value for name, value in more.items()}}
    faults = await _find_inputs(visit, version, texts)
    values, wrong = _read(version, texts)
    faults = {**wrong, **faults}
    if not faults:
        try:
            options = StartOptions(
                run=more["run"],
                project=await sharing.find_project(visit.api, more["project"]),
                reuse=bool(more["reuse"]),
                secrets={
                    name: visit.field(f"secret:{name}") for name in starting.secrets_of(version)
                },
                may_act=bool(more["consent"]),
            )
            started = await starting.start(visit.api, template, version, values, options)
        except LadingError as error:
            if error.status >= 500:
                raise
            return await _page(
                visit, template, number, texts, refused=error.message, status=error.status
            )
        return visit.redirect(f"/ui/runs/{started.uuid}")
    return await _page(visit, template, number, texts, faults=faults, status=422)


async def _find(visit: Visit) -> Template:
    uuid = visit.parts["uuid"]
    if not is_uuid(uuid, Infix.WORKFLOW):
        raise NotFound(f"{uuid[:80]!r} is no uuid of a template; see the list of templates")
    template, _ = await records.find_template(visit.api, uuid)
    return template


async def _find_inputs(
    visit: Visit, version: TemplateVersion, texts: dict[str, str]
) -> dict[str, str]:
    """Replace names of collections by what they stand for; the faults of those that name none."""
    faults: dict[str, str] = {}
    for name, schema in version.properties.items():
        word = texts[name].strip()
        collection = word.removeprefix("keep:").partition("/")[0]
        is_stored = is_pdh(collection) or is_uuid(collection)
        if schema.get("format") != INPUT or not word or is_stored:
            continue
        try:
            texts[name] = await input_choice.find_collection(visit.api, word)
        except LadingError as error:
            if error.status >= 500:
                raise
            faults[name] = error.message
    return faults


def _read(
    version: TemplateVersion, texts: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The values of the form, and the faults of those that are wrong. An empty field is the
    default, except that of a text without a least length.
    """
    values: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for name, schema in version.properties.items():
        word = texts[name]
        is_plain_text = schema["type"] == "string" and "format" not in schema
        if not word.strip() and not (is_plain_text and schema.get("default") == ""):
            if "default" not in schema:
                faults[name] = "is needed"
            continue
        try:
            word = word if is_plain_text else word.strip()
            values[name] = check_value(name, parse_value(name, word, schema), schema)
        except Invalid as error:
            faults[name] = error.message
    return values, faults


async def _page(
    visit: Visit,
    template: Template,
    number: int | None,
    texts: Mapping[str, str],
    *,
    faults: Mapping[str, str] | None = None,
    refused: str = "",
    status: int = 200,
) -> Response:
    version = None if template.fault else template.version(number)
    fields = _fields(version, texts) if version else []
    has_input = any(field.is_input for field in fields)
    return visit.page(
        "template.html",
        status=status,
        pipeline=template,
        version=version,
        is_latest=version is not None and version is template.versions[-1],
        fields=fields,
        faults=faults or {},
        refused=refused,
        run=texts.get("form run", ""),
        project=texts.get("form project", ""),
        reuse=bool(texts.get("form reuse", "yes")),
        secrets=starting.secrets_of(version) if version else [],
        collections=await input_choice.suggestions(visit) if has_input else [],
        steps=[
            (
                str(request.get("name") or ""),
                shorten(str(request.get("container_image") or ""), 50),
                shorten(shlex.join(request.get("command") or ()), 300),
            )
            for request in (version.requests[:_MOST_STEPS] if version else ())
        ],
        step_count=len(version.requests) if version else 0,
        bindings=_bindings(version) if version else [],
    )


def _bindings(version: TemplateVersion) -> list[tuple[str, str]]:
    return [
        (
            name,
            ", ".join(
                dict.fromkeys(
                    label(binding, version.requests[binding.step]) for binding in bindings[:5]
                )
            ),
        )
        for name, bindings in version.bindings.items()
    ]


def _fields(version: TemplateVersion, texts: Mapping[str, str]) -> list[FormField]:
    return [_field(name, schema, texts) for name, schema in version.properties.items()]


def _field(name: str, schema: Mapping[str, Any], texts: Mapping[str, str]) -> FormField:
    default = schema.get("default")
    kind = str(schema["type"])
    form = schema.get("format", "")
    choices: list[Any] = schema.get("enum") or ([True, False] if kind == "boolean" else [])
    hint = "" if choices else _HINTS.get(form, _HINTS.get(kind, ""))
    least, most = schema.get("minimum"), schema.get("maximum")
    bounds = [f"at least {show_value(least)}"] if least is not None else []
    bounds += [f"at most {show_value(most)}"] if most is not None else []
    return FormField(
        name=name,
        title=str(schema.get("title") or name),
        value=texts.get(name, "" if default is None else show_value(default)),
        hint=", ".join(filter(None, (hint, *bounds))),
        help=str(schema.get("description") or ""),
        kind=kind,
        choices=tuple(show_value(choice) for choice in choices),
        least="" if least is None else show_value(least),
        most="" if most is None else show_value(most),
        is_required="default" not in schema,
        is_input=form == INPUT,
    )
