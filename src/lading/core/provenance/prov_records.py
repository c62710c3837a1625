"""Records of PROV, and their form in PROV-N and PROV-JSON.

Sources: https://www.w3.org/TR/prov-n/ and https://www.w3.org/Submission/prov-json/.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from lading.core.provenance.uris import escaped

_LOCAL: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_-.")
"""Characters of the local part of a name in PROV-N that are themselves."""
_TYPED: Final = "prov:QUALIFIED_NAME"
_LONG: Final = 1 << 63
_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "entity": (),
    "agent": (),
    "activity": ("prov:startTime", "prov:endTime"),
    "used": ("prov:activity", "prov:entity", "prov:time"),
    "wasGeneratedBy": ("prov:entity", "prov:activity", "prov:time"),
    "wasStartedBy": ("prov:activity", "prov:trigger", "prov:starter", "prov:time"),
    "wasEndedBy": ("prov:activity", "prov:trigger", "prov:ender", "prov:time"),
    "wasAssociatedWith": ("prov:activity", "prov:agent", "prov:plan"),
    "actedOnBehalfOf": ("prov:delegate", "prov:responsible", "prov:activity"),
    "specializationOf": ("prov:specificEntity", "prov:generalEntity"),
    "wasDerivedFrom": (
        "prov:generatedEntity", "prov:usedEntity", "prov:activity", "prov:generation", "prov:usage",
    ),
    "hadMember": ("prov:collection", "prov:entity"),
}  # fmt: skip
"""Kinds of records, with their arguments in the order of PROV-N."""
KINDS: Final = tuple(_ARGUMENTS)
_ELEMENTS: Final = frozenset({"entity", "agent", "activity"})


class QualifiedName(str):
    """A name with a prefix, as `wf:main`."""

    __slots__ = ()


class ProvAttribute(NamedTuple):
    """An attribute of a record. Several of the same name add up."""

    name: str
    value: QualifiedName | str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvRecord:
    """`kind`: one of `KINDS`. `arguments`: by their names, as `prov:activity`; times as ISO 8601.
    `key`: the name of an element, as an entity.
    """

    kind: str
    key: str = ""
    arguments: Mapping[str, str]
    attributes: tuple[ProvAttribute, ...] = ()


def qualified(prefix: str, local: str) -> QualifiedName:
    """A name with a prefix; characters that PROV-N has no place for are escaped as in a URI."""
    local_name = escaped(local, _LOCAL)
    # A point has no place at the ends of a name, nor a hyphen at its beginning.
    if local_name[:1] in (".", "-"):
        local_name = f"%{ord(local_name[0]):02X}{local_name[1:]}"
    if local_name.endswith("."):
        local_name = f"{local_name[:-1]}%2E"
    return QualifiedName(f"{prefix}:{local_name}")


def prov_n(record: ProvRecord) -> str:
    """The line of a record in PROV-N."""
    names = _ARGUMENTS[record.kind]
    arguments = [record.key] if record.kind in _ELEMENTS else []
    arguments += [record.arguments.get(name) or "-" for name in names]
    if record.kind == "activity" and not record.arguments:
        arguments = arguments[:1]
    if record.attributes:
        pairs = ", ".join(f"{name}={_in_prov_n(value)}" for name, value in record.attributes)
        arguments.append(f"[{pairs}]")
    return f"{record.kind}({', '.join(arguments)})"


def prov_n_head(prefixes: Mapping[str, str]) -> Iterator[str]:
    """The first lines of a document in PROV-N; the last one is `endDocument`."""
    yield "document"
    for name, uri in prefixes.items():
        yield f"  prefix {name} <{uri}>"


def prov_json(record: ProvRecord) -> dict[str, Any]:
    """The members of a record in PROV-JSON."""
    members: dict[str, Any] = {name: value for name, value in record.arguments.items() if value}
    found: dict[str, list[Any]] = {}
    for name, value in record.attributes:
        found.setdefault(name, []).append(_in_json(value))
    return members | {name: some if len(some) > 1 else some[0] for name, some in found.items()}


def types(*names: str) -> Iterator[ProvAttribute]:
    """Attributes that name the types of an element."""
    for name in names:
        yield ProvAttribute("prov:type", QualifiedName(name))


def element(kind: str, key: str, attributes: Iterable[ProvAttribute]) -> ProvRecord:
    """An entity or an agent."""
    return ProvRecord(kind=kind, key=key, arguments={}, attributes=tuple(attributes))


def relation(kind: str, *values: str, attributes: Iterable[ProvAttribute] = ()) -> ProvRecord:
    """A relation; the values of its arguments are in the order of PROV-N, "" for none."""
    names = _ARGUMENTS[kind]
    arguments = {name: value for name, value in zip(names, values, strict=False) if value}
    return ProvRecord(kind=kind, arguments=arguments, attributes=tuple(attributes))


def _in_prov_n(value: QualifiedName | str | int | float | bool) -> str:
    if isinstance(value, QualifiedName):
        return f"'{value}'"
    if isinstance(value, str):
        return _quoted(value)
    return f'"{_text(value)}" %% {_type(value)}'


def _quoted(value: str) -> str:
    # The escapes of JSON are those of PROV-N, which has no \u.
    quoted = json.dumps(value.encode("utf-8", "replace").decode(), ensure_ascii=False)
    return quoted.replace("\\u", "\\\\u")


def _in_json(value: QualifiedName | str | int | float | bool) -> Any:
    if isinstance(value, QualifiedName):
        return {"$": str(value), "type": _TYPED}
    return value if isinstance(value, str) else {"$": _text(value), "type": _type(value)}


def _text(value: int | float | bool) -> str:
    return json.dumps(value)


def _type(value: int | float | bool) -> str:
    if isinstance(value, bool):
        return "xsd:boolean"
    if isinstance(value, float):
        return "xsd:double"
    return "xsd:long" if -_LONG <= value < _LONG else "xsd:integer"
