"""The record of a template: a workflow whose definition is a JSON document of its own form.

    {"class": "LadingTemplate", "versions": [{"number": 1, "saved_at": ..., "saved_by": ...,
      "origin": {"uuid": ..., "name": ..., "attempt": 1}, "note": "",
      "parameters": SCHEMA, "bindings": {"k": [BINDING, ...]}, "requests": [REQUEST, ...]}]}

Each save is a further version, older ones stay as they are. A request names an earlier one of its
version as `#N`, in `depends_on` and in mounts. Any writer of the record may have written the
definition, so that it is checked at each read. Source: docs/spec/templates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import msgspec

from lading.core.errors import Invalid, NotFound
from lading.core.quantities import shorten
from lading.core.templates.bindings import BindingKind, ParameterBinding, put, read_binding
from lading.core.templates.parameters import check_values, read_properties, whole_schema
from lading.core.values import is_too_deep

CLASS: Final = "LadingTemplate"
BEGINNING: Final = f'{{"class":"{CLASS}",'
"""The first characters of a definition: a list finds templates by them."""
LARGEST: Final = 512 << 10
"""Characters of a definition."""
MOST_VERSIONS: Final = 100
MOST_REQUESTS: Final = 1000
"""Requests of a version, as of one batch."""
LONGEST_NAME: Final = 200
# YAML, as which the API reads a definition, has no such characters.
_CONTROLS: Final = re.compile("[\x7f-\x9f\ufeff\ufffe\uffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateVersion:
    """A version: `requests` are attributes of container requests, `properties` the schemas of its
    parameters, `bindings` their bindings in the requests. `saved_at` is an API timestamp.
    """

    number: int
    requests: tuple[Mapping[str, Any], ...]
    properties: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    bindings: Mapping[str, tuple[ParameterBinding, ...]] = field(default_factory=dict)
    saved_at: str = ""
    saved_by: str = ""
    origin: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def is_workflow(self) -> bool:
        """Whether its request is the runner of a workflow, which is a run of its own."""
        return any(
            (request.get("scheduling_parameters") or {}).get("supervisor") is True
            or any(binding.kind is BindingKind.CONTENT for bindings in self.bindings.values()
                   for binding in bindings)
            for request in self.requests
        )  # fmt: skip

    @property
    def uses_api(self) -> bool:
        """Whether a container of it acts on the server in the name of who runs it."""
        return any(
            (request.get("runtime_constraints") or {}).get("API") for request in self.requests
        )

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the values."""
        return whole_schema(self.properties)

    def document(self) -> dict[str, Any]:
        """Plain JSON, as a definition has it."""
        return {
            "number": self.number,
            "saved_at": self.saved_at,
            "saved_by": self.saved_by,
            "origin": dict(self.origin),
            "note": self.note,
            "parameters": self.schema(),
            "bindings": {
                name: [binding.document() for binding in bindings]
                for name, bindings in self.bindings.items()
            },
            "requests": [dict(request) for request in self.requests],
        }


def check_template_name(name: str) -> str:
    """The name of a template. Raises Invalid."""
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise Invalid(f"name: must be a text of 1 to {LONGEST_NAME} characters")
    if set(name) & {"@", "/"}:
        raise Invalid("name: the name of a template has no slash and no @, which is for versions")
    return name.strip()


def parse_template(reference: str) -> tuple[str, int | None]:
    """The name or uuid of a template and the number of a version: `align@2`. Raises Invalid."""
    name, mark, number = reference.rpartition("@")
    if not mark:
        return reference, None
    if not (name and number.isascii() and number.isdecimal() and int(number[:6]) > 0):
        raise Invalid(f"{shorten(reference, 80)}: is no NAME@VERSION, as align@2")
    return name, int(number[:6])


def is_template(definition: object) -> bool:
    """Whether a definition of a workflow is that of a template."""
    return isinstance(definition, str) and definition.startswith(BEGINNING)


def read_versions(definition: object) -> tuple[TemplateVersion, ...]:
    """The versions of a template, the oldest first. Raises Invalid."""
    if not isinstance(definition, str) or not is_template(definition):
        raise Invalid("this workflow is no template; 'lading template list' shows them")
    if len(definition) > LARGEST:
        raise Invalid(f"the template has more than {LARGEST:,} characters; remove old versions")
    try:
        document = msgspec.json.decode(definition)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Invalid("the template is damaged: its definition is no JSON") from None
    if is_too_deep(document):
        raise Invalid("the template is damaged: it is nested too deep")
    versions = document.get("versions") if isinstance(document, Mapping) else None
    if not isinstance(versions, list) or not 0 < len(versions) <= MOST_VERSIONS:
        raise Invalid("the template is damaged: it has no list of versions")
    read = tuple(_read(version) for version in versions)
    if any(old.number >= new.number for old, new in pairwise(read)):
        raise Invalid("the template is damaged: the numbers of its versions do not rise")
    return read


def _read(version: object) -> TemplateVersion:
    if not isinstance(version, Mapping):
        raise Invalid("the template is damaged: a version is no object")
    number = version.get("number")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise Invalid("the template is damaged: a version has no number")
    requests = _read_requests(version.get("requests"))
    properties = read_properties(version.get("parameters"))
    bindings = version.get("bindings")
    named = bindings if isinstance(bindings, Mapping) else {}
    origin = version.get("origin")
    return TemplateVersion(
        number=number,
        requests=tuple(requests),
        properties=properties,
        bindings={
            name: tuple(read_binding(binding, requests) for binding in _list(named.get(name)))
            for name in properties
        },
        saved_at=_text(version, "saved_at"),
        saved_by=_text(version, "saved_by"),
        origin=origin if isinstance(origin, Mapping) else {},
        note=_text(version, "note"),
    )


def _read_requests(requests: object) -> list[Mapping[str, Any]]:
    """The requests of a version. Raises Invalid."""
    if not isinstance(requests, list) or not 0 < len(requests) <= MOST_REQUESTS:
        raise Invalid("the template is damaged: a version has no requests")
    if not all(_is_request(request) for request in requests):
        raise Invalid("the template is damaged: a request of it cannot be read")
    return requests


def _is_request(request: object) -> bool:
    """Whether the attributes that bindings are in are of their types; the API checks all others."""
    if not isinstance(request, Mapping):
        return False
    command = request.get("command")
    is_command = command is None or (
        isinstance(command, list) and all(isinstance(word, str) for word in command)
    )
    nested = ("environment", "mounts", "properties", "runtime_constraints", "scheduling_parameters")
    return is_command and all(isinstance(request.get(name) or {}, Mapping) for name in nested)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(version: Mapping[str, Any], name: str) -> str:
    value = version.get(name)
    return value[:1000] if isinstance(value, str) else ""


def write_versions(versions: Sequence[TemplateVersion]) -> str:
    """The definition of a template. Raises Invalid where it is too large, or has too many."""
    if len(versions) > MOST_VERSIONS:
        raise Invalid(
            f"a template has {MOST_VERSIONS} versions at most; remove one with "
            f"'lading template rm NAME@{versions[0].number}'"
        )
    document = {"class": CLASS, "versions": [version.document() for version in versions]}
    try:
        encoded = msgspec.json.encode(document).decode()
    except UnicodeEncodeError:
        raise Invalid("a request has text that is not UTF-8, which no template holds") from None
    definition = _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", encoded)
    if len(definition) > LARGEST:
        raise Invalid(
            f"the template would have {len(definition):,} characters; {LARGEST:,} are possible; "
            f"remove a version with 'lading template rm NAME@{versions[0].number}', or give long "
            "values as files"
        )
    return definition


def find_version(versions: Sequence[TemplateVersion], number: int | None) -> TemplateVersion:
    """The version with a number, the latest for None. Raises NotFound."""
    if number is None:
        return versions[-1]
    for version in versions:
        if version.number == number:
            return version
    known = ", ".join(str(version.number) for version in versions[-10:])
    raise NotFound(f"the template has no version {number}; it has {known}")


def bind(
    version: TemplateVersion, values: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The requests of a version with values, and all values. Raises Invalid."""
    checked = check_values(version.properties, values)
    requests = [dict(request) for request in version.requests]
    for name, value in checked.items():
        for binding in version.bindings.get(name, ()):
            requests[binding.step] = put(requests[binding.step], binding, name, value)
    return requests, checked
