"""Templates on the server: found, listed, saved as a further version, removed.

A template is a record of `workflows`; registered CWL workflows are in the same list. A save changes
the record that was read, or nothing: a version that somebody saved meanwhile is not lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from lading.client.api import ApiClient, Record
from lading.core.errors import Invalid, LadingError, NotFound, RequestError
from lading.core.ids import Infix, is_uuid
from lading.core.quantities import shorten
from lading.core.templates.document import (
    TemplateVersion,
    check_template_name,
    find_version,
    is_template,
    parse_template,
    read_versions,
    write_versions,
)
from lading.core.templates.workflow_inputs import is_workflow, workflow_version

_PLURAL: Final = "workflows"
_FIELDS: Final = ("uuid", "name", "description", "owner_uuid", "modified_at", "etag", "definition")
_PAGE: Final = 20
"""Records of one call: each may have a definition of half a megabyte."""
_MOST_SAME: Final = 20
_TRIES: Final = 5
_CHANGED: Final = 412


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A template, or a CWL workflow of the site (`kind` `cwl`), with its versions; a `fault` says
    why it cannot be run.
    """

    uuid: str
    name: str
    kind: str
    description: str
    owner_uuid: str
    modified_at: str
    etag: str
    versions: tuple[TemplateVersion, ...]
    fault: str = ""

    def version(self, number: int | None = None) -> TemplateVersion:
        """The version with a number, the latest for None. Raises NotFound, Invalid for a template
        that cannot be run.
        """
        if self.fault:
            raise Invalid(f"{self.name}: {self.fault}")
        return find_version(self.versions, number)

    def document(self, number: int | None = None) -> Record:
        """The template for programs, with the schema of one version."""
        version = None if self.fault else self.version(number)
        origins = [
            {
                "number": each.number,
                "saved_at": each.saved_at,
                "saved_by": each.saved_by,
                "origin": dict(each.origin),
                "note": each.note,
            }
            for each in self.versions
        ]
        return {
            "uuid": self.uuid,
            "name": self.name,
            "kind": self.kind,
            "description": self.description,
            "owner_uuid": self.owner_uuid,
            "modified_at": self.modified_at,
            "fault": self.fault,
            "version": version.number if version else None,
            "versions": origins,
            "schema": version.schema() if version else None,
            "uses_api": version.uses_api if version else False,
            "bindings": version.document()["bindings"] if version else {},
            "requests": [dict(request) for request in version.requests] if version else [],
        }


def read(record: Record) -> Template:
    """The template of a record of a workflow; its faults are noted, not raised."""
    definition = record["definition"]
    versions: tuple[TemplateVersion, ...] = ()
    fault = ""
    kind = "template" if is_template(definition) else "cwl"
    try:
        if kind == "template":
            versions = read_versions(definition)
        elif is_workflow(definition):
            name = str(record["name"] or record["uuid"])
            versions = (workflow_version(name, definition, image=_runner()),)
        else:
            fault = "its definition is not JSON; run it with arvados-cwl-runner"
    except LadingError as error:
        fault = error.message
    return Template(
        uuid=str(record["uuid"]),
        name=str(record["name"] or record["uuid"]),
        kind=kind,
        description=str(record["description"] or ""),
        owner_uuid=str(record["owner_uuid"]),
        modified_at=str(record["modified_at"]),
        etag=str(record["etag"]),
        versions=versions,
        fault=fault,
    )


def _runner() -> str:
    # It imports what makes images; most templates need none of it.
    from lading.client.images.runner import DEFAULT_VERSION, image_name

    return image_name(DEFAULT_VERSION)


async def list_templates(
    api: ApiClient, *, limit: int, name: str = "", offset: int = 0
) -> list[Template]:
    """Templates and workflows that the caller can read, the last changed first; `name` is a text
    in their names.
    """
    filters = [["name", "ilike", f"%{_escaped(name)}%"]] if name else []
    templates: list[Template] = []
    while len(templates) < limit:
        size = min(_PAGE, limit - len(templates))
        rows = await api.list(
            _PLURAL,
            filters=filters,
            select=_FIELDS,
            order=("modified_at desc", "uuid desc"),
            limit=size,
            offset=offset,
        )
        templates += [read(row) for row in rows]
        offset += size
        if len(rows) < size:
            break
    return templates


def _escaped(name: str) -> str:
    return "".join(f"\\{mark}" if mark in "%_\\" else mark for mark in name)


async def find_template(api: ApiClient, reference: str) -> tuple[Template, int | None]:
    """The template with this name or uuid, and the number of the version that is named. Of several
    with the name that of the caller, then the one that was changed last. Raises NotFound.
    """
    name, number = parse_template(reference)
    if is_uuid(name, Infix.WORKFLOW):
        return read(await api.get(_PLURAL, name, select=_FIELDS)), number
    same = await _named(api, name)
    if not same:
        raise NotFound(
            f"{shorten(name, 80)}: no template is called so; 'lading template list' shows them"
        )
    if len(same) > 1:
        user = await api.get("users", "current", select=("uuid",))
        same = [row for row in same if row["owner_uuid"] == user["uuid"]] or same
    return read(same[0]), number


async def _named(api: ApiClient, name: str, owner_uuid: str = "") -> list[Record]:
    filters = [["name", "=", name], *([["owner_uuid", "=", owner_uuid]] if owner_uuid else [])]
    return await api.list(
        _PLURAL, filters=filters, select=_FIELDS, order=("modified_at desc",), limit=_MOST_SAME
    )


async def save_version(
    api: ApiClient,
    name: str,
    version: TemplateVersion,
    *,
    project: str = "",
    description: str = "",
    now: str,
) -> Template:
    """Save a version as the next one of the template `name` in a project, by default in the
    caller's home; the template is made with its first version. Raises Invalid, Forbidden.
    """
    name = check_template_name(name)
    user = await api.get("users", "current", select=("uuid",))
    owner = project or str(user["uuid"])
    version = replace(version, saved_at=now, saved_by=str(user["uuid"]))
    for attempt in range(_TRIES):
        same = [row for row in await _named(api, name, owner) if is_template(row["definition"])]
        if not same:
            attributes = {
                "name": name,
                "owner_uuid": owner,
                "description": description or None,
                "definition": write_versions([replace(version, number=1)]),
            }
            return read(await api.create(_PLURAL, attributes, select=_FIELDS))
        old = read_versions(same[0]["definition"])
        new = (*old, replace(version, number=old[-1].number + 1))
        changes = {"definition": write_versions(new)}
        changes |= {"description": description} if description else {}
        try:
            return read(await _update(api, same[0], changes))
        except RequestError as error:
            # Somebody saved another version meanwhile.
            if error.status != _CHANGED or attempt == _TRIES - 1:
                raise
    raise AssertionError("unreachable")  # pragma: no cover


async def remove(api: ApiClient, template: Template, number: int | None) -> None:
    """Delete a template, or one of its versions. Raises NotFound, Invalid for the only one."""
    if number is None:
        await api.delete(_PLURAL, template.uuid)
        return
    gone = template.version(number)
    left = [version for version in template.versions if version is not gone]
    if not left or template.kind != "template":
        raise Invalid(
            f"{template.name}: has no other version; 'lading template rm {template.uuid}' deletes "
            "the template"
        )
    row = {"uuid": template.uuid, "etag": template.etag}
    await _update(api, row, {"definition": write_versions(left)})


async def _update(api: ApiClient, row: Record, changes: Record) -> Record:
    """Change a record that is still as it was read. Raises RequestError (412) for another one."""
    answer: Any = await api.request(
        "PUT",
        f"{_PLURAL}/{row['uuid']}",
        params={"select": list(_FIELDS)},
        body={"workflow": changes},
        headers={"if-match": str(row["etag"])},
    )
    record: Record = answer
    return record


def names_of(templates: Sequence[Template]) -> list[str]:
    """The names of templates, each once."""
    return list(dict.fromkeys(template.name for template in templates))
