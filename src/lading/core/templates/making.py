"""A version of a template, made from the requests of a run.

Images and inputs are taken by content, so that a later change of a name or of a collection changes
no template. Contents of secrets are in no request, and in no template. Source: docs/spec/templates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lading.core.errors import Invalid
from lading.core.ids import is_pdh
from lading.core.quantities import shorten
from lading.core.runs.attempts import ATTEMPT
from lading.core.runs.report import show_value
from lading.core.runs.summaries import CWL_INPUTS
from lading.core.secrets import is_telling
from lading.core.templates.bindings import (
    BindingKind,
    FoundBindings,
    ParameterBinding,
    find_bindings,
    input_target,
    label,
    named_bindings,
    value_at,
)
from lading.core.templates.document import TemplateVersion
from lading.core.templates.parameters import (
    INPUT,
    NO_OPTION,
    check_name,
    check_schema,
    schema_of,
)

OWN: Final = ("owner_uuid", "priority", "use_existing", "state", "uuid", "created_at")
"""Attributes that belong to an execution, not to a template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterWish:
    """A parameter that somebody asked for: its name, its value in the run if that was given, its
    bindings as `STEP:PLACE`, and keywords of its schema.
    """

    name: str
    value: Any = None
    bindings: tuple[str, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeVersion:
    """A version and sentences about it that its user should read."""

    version: TemplateVersion
    notes: tuple[str, ...] = ()


def pin(request: Mapping[str, Any], container: Mapping[str, Any] | None) -> dict[str, Any]:
    """The request with its image and its inputs by content, as its container had them. Raises
    Invalid where they are not known.
    """
    used = container or {}
    image = request.get("container_image")
    if not (isinstance(image, str) and is_pdh(image)):
        image = used.get("container_image")
    if not image:
        raise Invalid(
            f"{_title(request)}: had no container, so its image is not known by content; run it "
            "first"
        )
    contents = used.get("mounts") or {}
    return {
        **{name: value for name, value in request.items() if name not in OWN},
        "container_image": image,
        "mounts": {
            target: _pinned_mount(f"{_title(request)}: its input {shorten(target, 80)}", mount,
                                  contents.get(target) or {})
            for target, mount in (request.get("mounts") or {}).items()
        },
        "properties": _without(request.get("properties") or {}, ATTEMPT),
    }  # fmt: skip


def _title(request: Mapping[str, Any]) -> str:
    return shorten(str(request.get("name") or request.get("uuid")), 80)


def _without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


def _pinned_mount(title: str, mount: Mapping[str, Any], used: Mapping[str, Any]) -> dict[str, Any]:
    """A mount by content; `used` is that of the container."""
    source = str(mount.get("container_request") or "")
    if mount.get("portable_data_hash"):
        return _without(mount, "uuid")
    if not (mount.get("uuid") or source) or source.startswith("#"):
        return dict(mount)
    if not used.get("portable_data_hash"):
        raise Invalid(f"{title} is not known by content; run it first")
    pinned = _without(mount, "uuid", "container_request")
    pinned |= {"kind": "collection", "portable_data_hash": used["portable_data_hash"]}
    return pinned | ({"path": used["path"]} if used.get("path") else {})


def make_version(
    requests: Sequence[Mapping[str, Any]],
    wishes: Sequence[ParameterWish],
    values: Mapping[str, Any],
    *,
    origin: Mapping[str, Any],
    note: str = "",
) -> MadeVersion:
    """A version without a number, from pinned requests. `values` are the parameters of the run: one
    of them is the value of a parameter whose wish has none. Raises Invalid.
    """
    properties: dict[str, Any] = {}
    bindings: dict[str, tuple[ParameterBinding, ...]] = {}
    notes: list[str] = []
    owners: dict[tuple[int, BindingKind, int, str, str], str] = {}
    for wish in wishes:
        name = check_name(wish.name)
        if name in properties:
            raise Invalid(f"{name}: is named twice")
        bound, default = _bound(wish, values, requests)
        for binding in bound.bindings:
            key = (binding.step, binding.kind, binding.index, binding.name, binding.key)
            if owners.setdefault(key, name) != name:
                where = label(binding, requests[binding.step])
                raise Invalid(f"{name}: its place {where} is that of {owners[key]}; use --bind")
        schema = _schema(name, default, bound.bindings, wish.keywords)
        _check_equal(name, schema, bound.bindings, requests)
        properties[name], bindings[name] = schema, bound.bindings
        notes.append(_binding_sentence(name, bound, requests))
    for request in requests:
        if telling := [name for name in request.get("environment") or {} if is_telling(name)]:
            notes.append(
                f"{', '.join(telling)[:100]}: looks like a secret, and whoever reads the template "
                "reads it; submit the run with --secret"
            )
            break
    version = TemplateVersion(
        number=1,
        requests=tuple(requests),
        properties=properties,
        bindings=bindings,
        origin=origin,
        note=note[:1000],
    )
    return MadeVersion(version=version, notes=tuple(notes))


def _bound(
    wish: ParameterWish, values: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]
) -> tuple[FoundBindings, Any]:
    """The bindings of a parameter, and its value."""
    name = wish.name
    value = values.get(name) if wish.value is None else wish.value
    if wish.bindings:
        chosen = [
            binding for written in wish.bindings for binding in named_bindings(written, requests)
        ]
        bound = FoundBindings(bindings=tuple(dict.fromkeys(chosen)))
        first = chosen[0]
        if value is None or first.kind is BindingKind.MOUNT:
            value = value_at(first, requests[first.step])
        return bound, value
    member = _member(name, requests)
    if member is not None:
        return find_bindings(name, member, requests), member
    if content := input_target(name, value, requests) or input_target(name, None, requests):
        return find_bindings(name, content, requests), content
    if value is None:
        raise Invalid(
            f"{name}: the run has no parameter of this name; --param {name}=VALUE says its value "
            "in the run, --bind its binding"
        )
    return find_bindings(name, value, requests), value


def _member(name: str, requests: Sequence[Mapping[str, Any]]) -> Any:
    """The value of an input of a CWL workflow; None without one."""
    for request in requests:
        # The runner reads the second one, with resolved bindings of files.
        for target in reversed(CWL_INPUTS):
            mount = (request.get("mounts") or {}).get(target)
            content = mount.get("content") if isinstance(mount, Mapping) else None
            if isinstance(content, Mapping) and name in content:
                return content[name]
    return None


def _check_equal(
    name: str,
    schema: Mapping[str, Any],
    bindings: Sequence[ParameterBinding],
    requests: Sequence[Mapping[str, Any]],
) -> None:
    """Raise Invalid where the default would change what a request does."""
    for binding in bindings:
        if binding.kind is BindingKind.CONTENT:
            # The same file may be there as it was sent, and resolved.
            continue
        stands = value_at(binding, requests[binding.step])
        if stands != show_value(schema["default"]):
            raise Invalid(
                f"{name}: at {label(binding, requests[binding.step])} the value is "
                f"{shorten(str(stands), 60)!r}, not {shorten(show_value(schema['default']), 60)!r}"
            )


def _schema(
    name: str, default: Any, bindings: Sequence[ParameterBinding], keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """The schema of a parameter with its default and the keywords that were asked for."""
    schema = schema_of(default)
    if any(binding.kind is BindingKind.MOUNT for binding in bindings):
        schema = {"type": "string", "format": INPUT, "default": default}
    elif schema["type"] == "string" and _is_argument(bindings) and not default.startswith("-"):
        schema["pattern"] = NO_OPTION
    asked = dict(keywords)
    if asked.get("type") == "string" and not isinstance(default, str):
        asked["default"] = show_value(default)
    return check_schema(name, {**schema, **asked})


def _is_argument(bindings: Sequence[ParameterBinding]) -> bool:
    return any(binding.kind is BindingKind.COMMAND and not binding.prefix for binding in bindings)


def _binding_sentence(
    name: str, bound: FoundBindings, requests: Sequence[Mapping[str, Any]]
) -> str:
    def labels(bindings: Sequence[ParameterBinding]) -> str:
        shown = dict.fromkeys(label(binding, requests[binding.step]) for binding in bindings)
        more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
        return f"{', '.join(list(shown)[:5])}{more}"

    others = f"; not at {labels(bound.others)}, which has the same value" if bound.others else ""
    return f"{name}: at {labels(bound.bindings)}{others}"
