"""The list of templates and of the CWL workflows of the site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from lading.client.templates import records
from lading.client.templates.records import Template
from lading.core.errors import Invalid
from lading.core.runs.report import show_value
from lading.web.runs.rows import names_of
from lading.web.visit import Visit

LIST: Final = "/ui/templates"
_PAGE: Final = 20
"""Templates of a page: each may have a definition of half a megabyte."""
_FARTHEST: Final = 10_000
_MOST_PARAMETERS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateRow:
    """A template as the list shows it; `parameters` are names with defaults."""

    template: Template
    version: int | None
    parameters: tuple[tuple[str, str], ...]
    more: int
    owner: str


async def show(visit: Visit) -> Response:
    """A page of the list."""
    asked = visit.query("q").strip()[:200]
    offset = _offset(visit.query("offset"))
    listed = await records.list_templates(visit.api, limit=_PAGE + 1, name=asked, offset=offset)
    page = listed[:_PAGE]
    owners = await names_of(visit, {each.owner_uuid for each in page})
    following = offset + _PAGE
    has_more = len(listed) > _PAGE and following <= _FARTHEST
    return visit.page(
        "templates.html",
        rows=[_row(each, owners) for each in page],
        q=asked,
        offset=offset,
        older=address(q=asked, offset=str(following)) if has_more else "",
        newest=address(q=asked),
    )


def address(**chosen: str) -> str:
    """The address of the list with these filters."""
    query = urlencode({name: value for name, value in chosen.items() if value})
    return f"{LIST}?{query}" if query else LIST


def _offset(written: str) -> int:
    if not written:
        return 0
    if not (written.isascii() and written.isdecimal() and int(written[:6]) <= _FARTHEST):
        raise Invalid(f"offset: must be a number up to {_FARTHEST:,}")
    return int(written[:6])


def _row(template: Template, owners: dict[str, str]) -> TemplateRow:
    version = template.versions[-1] if template.versions else None
    parameters = tuple(
        (name, show_value(schema["default"]) if schema.get("default") is not None else "")
        for name, schema in (version.properties.items() if version else ())
    )
    return TemplateRow(
        template=template,
        version=version.number if version else None,
        parameters=parameters[:_MOST_PARAMETERS],
        more=max(0, len(parameters) - _MOST_PARAMETERS),
        owner=owners.get(template.owner_uuid, template.owner_uuid),
    )
