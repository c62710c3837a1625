"""CWL workflows of the site, which stand in the same list as templates, and are run alike.

A registered workflow is a record whose definition is a CWL document in JSON, as
`arvados-cwl-runner --create-workflow` and Workbench write it. Its inputs become parameters; a
workflow is run by the request that Workbench makes for it.
Sources: https://www.commonwl.org/v1.2/Workflow.html#WorkflowInputParameter; docs/spec/templates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from lading.core.errors import Invalid
from lading.core.templates.bindings import BindingKind, ParameterBinding
from lading.core.templates.document import LARGEST, TemplateVersion
from lading.core.templates.parameters import CWL_FILE, LONGEST, check_schema
from lading.core.values import is_too_deep

_FOLDER: Final = "/var/lib/cwl"
_DOCUMENT: Final = f"{_FOLDER}/workflow.json"
_INPUTS: Final = f"{_FOLDER}/cwl.input.json"
_OUTPUT: Final = "/var/spool/cwl"
# Bytes of RAM that the runner requests for itself, with its collection cache of 256 MiB.
_RAM: Final = (1024 + 256) << 20
_TYPES: Final = {
    "string": "string", "int": "integer", "long": "integer", "float": "number",
    "double": "number", "boolean": "boolean",
}  # fmt: skip


def is_workflow(definition: object) -> bool:
    """Whether a definition looks like a CWL document in JSON."""
    return (
        isinstance(definition, str)
        and definition.lstrip()[:1] == "{"
        and ('"cwlVersion"' in definition)
    )


def workflow_version(name: str, definition: str, *, image: str) -> TemplateVersion:
    """The one version of a registered workflow; `image` is that of its runner. Raises Invalid."""
    document = _parsed(definition)
    properties: dict[str, Any] = {}
    content: dict[str, Any] = {}
    for key, schema in _inputs(document):
        properties[key] = schema
        content[key] = schema.get("default")
    request = {
        "name": name,
        "command": [
            "arvados-cwl-runner", "--local", "--api=containers", "--no-log-timestamps",
            "--disable-validate", "--disable-color", "--eval-timeout=20", "--thread-count=1",
            "--enable-reuse", "--collection-cache-size=256", "--on-error=continue",
            f"{_DOCUMENT}#main" if "$graph" in document else _DOCUMENT, _INPUTS,
        ],
        "container_image": image,
        "cwd": _OUTPUT,
        "output_path": _OUTPUT,
        "mounts": {
            _DOCUMENT: {"kind": "json", "content": document},
            _INPUTS: {"kind": "json", "content": content},
            _OUTPUT: {"kind": "collection", "writable": True},
            "stdout": {"kind": "file", "path": f"{_OUTPUT}/cwl.output.json"},
        },
        "runtime_constraints": {"vcpus": 1, "ram": _RAM, "API": True},
    }  # fmt: skip
    bindings = {
        key: (ParameterBinding(step=0, kind=BindingKind.CONTENT, name=_INPUTS, key=key),)
        for key in properties
    }
    return TemplateVersion(
        number=1, requests=(request,), properties=properties, bindings=bindings, origin={}
    )


def _parsed(definition: str) -> Mapping[str, Any]:
    if len(definition) > LARGEST:
        raise Invalid("its definition is too large; run it with arvados-cwl-runner")
    try:
        document = msgspec.json.decode(definition)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Invalid("its definition is not JSON; run it with arvados-cwl-runner") from None
    if not isinstance(document, Mapping) or is_too_deep(document):
        raise Invalid("its definition is no CWL document")
    return document


def _inputs(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and schemas of the inputs of the main process. Raises Invalid."""
    main: Any = document
    graph = document.get("$graph")
    if isinstance(graph, list):
        named = [
            process
            for process in graph
            if isinstance(process, Mapping) and process.get("id") in ("#main", "main")
        ]
        main = named[0] if named else {}
    inputs = main.get("inputs")
    if isinstance(inputs, Mapping):
        listed: list[Any] = [
            {**(value if isinstance(value, Mapping) else {"type": value}), "id": key}
            for key, value in inputs.items()
        ]
    else:
        listed = inputs if isinstance(inputs, list) else []
    for value in listed:
        if isinstance(value, Mapping) and isinstance(value.get("id"), str):
            name = value["id"].rpartition("#")[2].rpartition("/")[2]
            yield name, check_schema(name, _schema(value))


def _schema(value: Mapping[str, Any]) -> dict[str, Any]:
    kind = value.get("type")
    is_optional = False
    if isinstance(kind, str) and kind.endswith("?"):
        kind, is_optional = kind[:-1], True
    if isinstance(kind, list):
        is_optional = "null" in kind
        others = [member for member in kind if member != "null"]
        kind = others[0] if len(others) == 1 else None
    schema = _typed(kind)
    doc = value.get("doc") or value.get("label") or ""
    words = "\n".join(map(str, doc)) if isinstance(doc, list) else str(doc)
    if words:
        schema["description"] = words[:LONGEST]
    default = value.get("default")
    if default is not None:
        schema["default"] = default
    elif is_optional:
        schema["default"] = None
    return schema


def _choice(symbols: object) -> dict[str, Any]:
    """The schema of an enumeration with these symbols."""
    names = (
        [str(symbol).rpartition("/")[2] for symbol in symbols] if isinstance(symbols, list) else []
    )
    return {"type": "string", "enum": names} if names else {"type": "string"}


def _typed(kind: object) -> dict[str, Any]:
    if isinstance(kind, Mapping) and kind.get("type") == "enum":
        return _choice(kind.get("symbols"))
    if (isinstance(kind, Mapping) and kind.get("type") == "array") or (
        isinstance(kind, str) and kind.endswith("[]")
    ):
        return {"type": "array"}
    if kind in ("File", "Directory"):
        return {"type": "object", "format": CWL_FILE}
    if isinstance(kind, str) and kind in _TYPES:
        return {"type": _TYPES[kind]}
    return {"type": "object"}
