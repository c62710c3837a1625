"""Bindings: where the value of a parameter stands in the requests of a template.

| binding | the value is |
|---|---|
| `command`, `index`, `prefix` | one word of the command, after the prefix, as `--k=` |
| `environment`, `name` | the value of a variable |
| `mount`, `target` | the content of a mount |
| `content`, `target`, `key` | a member of a JSON mount: an input of a CWL workflow |

A value is a whole word or a whole variable: no shell reads it. The script of a shell, or of another
interpreter, and the program itself are no bindings. Source: docs/spec/templates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from lading.core.errors import Invalid
from lading.core.ids import is_pdh
from lading.core.quantities import shorten
from lading.core.runs.report import show_value
from lading.core.runs.summaries import CWL_INPUTS
from lading.core.shell_text import filter_programs, programs, scripts
from lading.core.templates.parameters import read_reference

_OPTION: Final = re.compile(r"(-{0,2}[A-Za-z_][A-Za-z0-9_.-]*=)(.*)", re.DOTALL)
_LISTED: Final = 6
"""Places that a message names."""


class BindingKind(StrEnum):
    """Part of a request that has the value of a parameter."""

    COMMAND = "command"
    ENVIRONMENT = "environment"
    MOUNT = "mount"
    CONTENT = "content"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterBinding:
    """A binding in the request at the position `step` of a template."""

    step: int
    kind: BindingKind
    index: int = 0
    prefix: str = ""
    name: str = ""
    """Name of a variable, target of a mount."""
    key: str = ""

    def document(self) -> dict[str, Any]:
        """Plain JSON, as a definition has it."""
        values: dict[BindingKind, dict[str, Any]] = {
            BindingKind.COMMAND: {"index": self.index, "prefix": self.prefix},
            BindingKind.ENVIRONMENT: {"name": self.name},
            BindingKind.MOUNT: {"target": self.name},
            BindingKind.CONTENT: {"target": self.name, "key": self.key},
        }
        return {"step": self.step, "at": str(self.kind), **values[self.kind]}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBindings:
    """The bindings of a parameter, and further ones with an equal value that are not its own."""

    bindings: tuple[ParameterBinding, ...]
    others: tuple[ParameterBinding, ...] = ()


def read_binding(document: object, requests: Sequence[Mapping[str, Any]]) -> ParameterBinding:
    """A binding of a definition, which its requests have. Raises Invalid."""
    try:
        if not isinstance(document, Mapping):
            raise TypeError
        binding = ParameterBinding(
            step=_number(document["step"]),
            kind=BindingKind(document["at"]),
            index=_number(document.get("index", 0)),
            prefix=_text(document.get("prefix", "")),
            name=_text(document.get("name", document.get("target", ""))),
            key=_text(document.get("key", "")),
        )
        request = requests[binding.step]
    except (KeyError, IndexError, TypeError, ValueError):
        raise Invalid("the template is damaged: a binding of a parameter cannot be read") from None
    check_binding(binding, request)
    return binding


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def check_binding(binding: ParameterBinding, request: Mapping[str, Any]) -> None:
    """Raise Invalid for a binding that a request has not, or that would be read as code."""
    if fault := _fault(binding, request):
        raise Invalid(f"{label(binding, request)}: {fault}")


def _fault(binding: ParameterBinding, request: Mapping[str, Any]) -> str:
    match binding.kind:
        case BindingKind.COMMAND:
            return _fault_of_argument(binding, request.get("command") or [])
        case BindingKind.ENVIRONMENT:
            has_variable = binding.name in (request.get("environment") or {})
            return "" if has_variable else "the request has no such variable"
        case _:
            mount = (request.get("mounts") or {}).get(binding.name)
            if not isinstance(mount, Mapping):
                return "the request has no such mount"
            is_content = isinstance(mount.get("content"), Mapping)
            is_same = is_content == (binding.kind is BindingKind.CONTENT)
            return "" if is_same else "is a mount of another kind"


def _fault_of_argument(binding: ParameterBinding, command: Sequence[str]) -> str:
    if not 0 < binding.index < len(command):
        return "the command has no such argument"
    if binding.index in code_positions(command):
        return (
            'is a script, and a value in it would be read as code; write "$1" there and give the '
            "value as a further argument"
        )
    has_prefix = str(command[binding.index]).startswith(binding.prefix)
    return "" if has_prefix else f"does not begin with {binding.prefix!r}"


def _words(request: Mapping[str, Any]) -> list[str]:
    return [str(word) for word in request.get("command") or ()]


def code_positions(command: Sequence[str]) -> frozenset[int]:
    """Positions of the words that an interpreter reads as code."""
    words = [str(word) for word in command]
    return frozenset({*scripts(words), *programs(words), *filter_programs(words)})


def label(binding: ParameterBinding, request: Mapping[str, Any]) -> str:
    """The binding for people, as `--bind` takes it: `align:3`, `align:env.K`, `align:/in/reads`."""
    parts = {
        BindingKind.COMMAND: str(binding.index),
        BindingKind.ENVIRONMENT: f"env.{binding.name}",
        BindingKind.MOUNT: binding.name,
        BindingKind.CONTENT: f"input.{binding.key}",
    }
    title = shorten(str(request.get("name") or binding.step), 60)
    return f"{title}:{shorten(parts[binding.kind], 80)}"


def find_bindings(name: str, value: object, requests: Sequence[Mapping[str, Any]]) -> FoundBindings:
    """The bindings of the parameter `name`, which has `value` in these requests.

    Places with its name count alone where there are some: an option `--NAME`, a variable, an input
    of a CWL workflow. Else each request may have one binding with the value. Raises Invalid where
    there is none, where a request has several, and where the value is in a script alone.
    """
    if target := input_target(name, value, requests):
        return FoundBindings(bindings=tuple(_same_content(target, requests)))
    word = show_value(value)
    every = [
        binding for step, request in enumerate(requests) for binding in _equal(step, request, word)
    ]
    every += [
        binding
        for step, request in enumerate(requests)
        for binding in _members(step, request, name)
    ]
    named = [binding for binding in every if _has_name(binding, requests[binding.step], name)]
    chosen = named or every
    if not chosen:
        raise Invalid(_absent(name, word, requests))
    if not named:
        _check_one_in_each_step(name, word, chosen, requests)
    return FoundBindings(
        bindings=tuple(chosen), others=tuple(binding for binding in every if binding not in chosen)
    )


def _check_one_in_each_step(
    name: str,
    word: str,
    bindings: Sequence[ParameterBinding],
    requests: Sequence[Mapping[str, Any]],
) -> None:
    """Raise Invalid where a request has several bindings with the value of a parameter."""
    for step in {binding.step for binding in bindings}:
        if len(own := [binding for binding in bindings if binding.step == step]) > 1:
            shown = ", ".join(label(binding, requests[step]) for binding in own[:_LISTED])
            raise Invalid(
                f"{name}: {shorten(word, 60)!r} is at several places of a step: {shown}; choose "
                f"with --bind {name}=STEP:PLACE"
            )


def _equal(step: int, request: Mapping[str, Any], word: str) -> Iterator[ParameterBinding]:
    """The words and variables of a request that are equal to a word."""
    command = _words(request)
    code = code_positions(command)
    for index, argument in enumerate(command):
        if index == 0 or index in code:
            continue
        option = _OPTION.fullmatch(argument)
        if argument == word:
            yield ParameterBinding(step=step, kind=BindingKind.COMMAND, index=index)
        elif option and option[2] == word:
            yield ParameterBinding(
                step=step, kind=BindingKind.COMMAND, index=index, prefix=option[1]
            )
    for name, variable in (request.get("environment") or {}).items():
        if variable == word:
            yield ParameterBinding(step=step, kind=BindingKind.ENVIRONMENT, name=str(name))


def _members(step: int, request: Mapping[str, Any], name: str) -> Iterator[ParameterBinding]:
    """The member of the input object of a CWL runner; the object may be mounted twice."""
    for target in CWL_INPUTS:
        mount = (request.get("mounts") or {}).get(target)
        content = mount.get("content") if isinstance(mount, Mapping) else None
        if isinstance(content, Mapping) and name in content:
            yield ParameterBinding(step=step, kind=BindingKind.CONTENT, name=target, key=name)


def _has_name(binding: ParameterBinding, request: Mapping[str, Any], name: str) -> bool:
    match binding.kind:
        case BindingKind.COMMAND if binding.prefix:
            return _is_called(binding.prefix.rstrip("="), name)
        case BindingKind.COMMAND:
            before = str(request["command"][binding.index - 1])
            return before.startswith("-") and _is_called(before, name)
        case BindingKind.ENVIRONMENT:
            return _is_called(binding.name, name)
    return True


def _is_called(option: str, name: str) -> bool:
    plain = (each.lstrip("-").replace("-", "_").casefold() for each in (option, name))
    return len(set(plain)) == 1


def input_target(name: str, value: object, requests: Sequence[Mapping[str, Any]]) -> str:
    """The content, as HASH/PATH, of the mount that a parameter names by its target, its content, or
    its own name; "" if it names none.
    """
    for request in requests:
        for target, mount in (request.get("mounts") or {}).items():
            content = content_of(mount)
            if content and (
                value in (target, content) or (value is None and _stem(target) == name)
            ):
                return content
    return ""


def _stem(target: str) -> str:
    return target.rpartition("/")[2].partition(".")[0]


def content_of(mount: object) -> str:
    """The content of a mount of an input as HASH/PATH; "" for a mount of another kind."""
    if not isinstance(mount, Mapping) or mount.get("kind") != "collection":
        return ""
    content = mount.get("portable_data_hash")
    if mount.get("writable") or not isinstance(content, str) or not content:
        return ""
    path = str(mount.get("path") or "").strip("/")
    return f"{content}/{path}" if path else content


def _same_content(
    content: str, requests: Sequence[Mapping[str, Any]]
) -> Iterator[ParameterBinding]:
    for step, request in enumerate(requests):
        for target, mount in (request.get("mounts") or {}).items():
            if content_of(mount) == content:
                yield ParameterBinding(step=step, kind=BindingKind.MOUNT, name=target)


def _absent(name: str, word: str, requests: Sequence[Mapping[str, Any]]) -> str:
    for request in requests:
        command = _words(request)
        for index in sorted(code_positions(command)):
            if word and index < len(command) and word in command[index]:
                return (
                    f"{name}: {shorten(word, 60)!r} is only in a script of "
                    f"{shorten(str(request.get('name') or command[0]), 60)}, where it would be "
                    'read as code; write "$1" there, give the value as an argument, run it, save'
                )
    return (
        f"{name}: {shorten(word, 60)!r} is no argument, variable or input of a step; "
        f"--param {name}=VALUE says the value, --bind {name}=STEP:PLACE the place"
    )


def named_bindings(written: str, requests: Sequence[Mapping[str, Any]]) -> list[ParameterBinding]:
    """The bindings that `STEP:PLACE` names, in each request of the step: a number of an argument, a
    variable `env.K`, or the target of a mount. Raises Invalid.
    """
    step_name, separator, where = written.partition(":")
    chosen = [
        step
        for step, request in enumerate(requests)
        if step_name in (request.get("name"), _group(request))
    ]
    if not separator or not where or not chosen:
        raise Invalid(
            f"{shorten(written, 80)!r}: is no STEP:PLACE of these steps; write for example "
            "align:3, align:env.K or align:/in/reads"
        )
    bindings: list[ParameterBinding] = []
    for step in chosen:
        if where.isascii() and where.isdecimal():
            command = requests[step].get("command") or []
            index = int(where[:6])
            option = _OPTION.fullmatch(str(command[index])) if index < len(command) else None
            prefix = option[1] if option else ""
            binding = ParameterBinding(
                step=step, kind=BindingKind.COMMAND, index=index, prefix=prefix
            )
        elif where.startswith("env."):
            binding = ParameterBinding(
                step=step, kind=BindingKind.ENVIRONMENT, name=where.removeprefix("env.")
            )
        else:
            binding = ParameterBinding(step=step, kind=BindingKind.MOUNT, name=where)
        check_binding(binding, requests[step])
        bindings.append(binding)
    return bindings


def _group(request: Mapping[str, Any]) -> object:
    properties = request.get("properties")
    return properties.get("lading_step") if isinstance(properties, Mapping) else None


def value_at(binding: ParameterBinding, request: Mapping[str, Any]) -> Any:
    """The value that a request has at a binding."""
    match binding.kind:
        case BindingKind.COMMAND:
            return str(request["command"][binding.index]).removeprefix(binding.prefix)
        case BindingKind.ENVIRONMENT:
            return request["environment"][binding.name]
        case BindingKind.MOUNT:
            return content_of(request["mounts"][binding.name])
        case _:
            return request["mounts"][binding.name]["content"].get(binding.key)


def put(
    request: Mapping[str, Any], binding: ParameterBinding, name: str, value: object
) -> dict[str, Any]:
    """The request with another value at a binding that it has. Raises Invalid."""
    match binding.kind:
        case BindingKind.COMMAND:
            words = list(request["command"])
            words[binding.index] = f"{binding.prefix}{show_value(value)}"
            return {**request, "command": words}
        case BindingKind.ENVIRONMENT:
            environment = {**request["environment"], binding.name: show_value(value)}
            return {**request, "environment": environment}
        case BindingKind.MOUNT:
            mount = _mount(name, show_value(value), request["mounts"][binding.name])
        case _:
            old = request["mounts"][binding.name]
            mount = {**old, "content": {**old["content"], binding.key: value}}
    return {**request, "mounts": {**request["mounts"], binding.name: mount}}


def _mount(name: str, reference: str, old: Mapping[str, Any]) -> dict[str, Any]:
    collection, path = read_reference(name, reference)
    source = "portable_data_hash" if is_pdh(collection) else "uuid"
    mount = {"kind": "collection", source: collection, **({"path": path} if path else {})}
    return mount | ({"exclude_from_output": True} if old.get("exclude_from_output") else {})
