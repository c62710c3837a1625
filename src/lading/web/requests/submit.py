"""The form that submits a request, empty or filled in from an earlier one."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from starlette.responses import Response

from lading.client import sharing
from lading.client.api import Record
from lading.client.images.links import list_images
from lading.client.request_states import repeated
from lading.core.containers.gpu_words import (
    NO_VERSION,
    gpu_constraint,
    parse_count,
    parse_kinds,
    parse_memory,
    parse_version,
)
from lading.core.errors import Invalid, LadingError
from lading.core.gpu_architectures import ONEAPI, ROCM, default_stack
from lading.core.ids import Infix, infix_of, is_pdh, is_uuid
from lading.core.quantities import parse_size
from lading.core.runs.report import show_value
from lading.core.secrets import needed_names, restored
from lading.web.requests import input_choice, run_choice
from lading.web.visit import Visit

_OUTPUT: Final = "/out"
# As `lading run` without `--priority`.
_PRIORITY: Final = 500
# Suggested in the form; any other name can be typed.
_MOST_IMAGES: Final = 200
_MAKERS: Final = {ROCM: "amd", ONEAPI: "intel"}
_GPUS: Final = ("gpus", "gpu_memory", "gpu_type", "gpu_version")
_TEXTS: Final = (
    "name", "image", "command", "inputs", "collection", "collection_path", "environment", "vcpus",
    "ram", *_GPUS, "project", "run",
)  # fmt: skip
_SWITCHES: Final = ("reuse", "internet")
_EMPTY: Final[Mapping[str, str]] = {
    **dict.fromkeys((*_TEXTS, *_SWITCHES), ""), "vcpus": "1", "ram": "256 MiB", "reuse": "yes",
}  # fmt: skip
_STORED: Final = ("collection", "output")
"""Kinds of the mounts that the field of inputs has."""
_GPU_PARSERS: Final[Sequence[Callable[[str], Any]]] = (
    parse_count, parse_memory, parse_kinds, parse_version,
)  # fmt: skip
_Value = TypeVar("_Value")


@dataclass(slots=True)
class _Reading:
    """Values of the form's fields, and the faults of those that cannot be read."""

    texts: Mapping[str, str]
    faults: dict[str, str] = field(default_factory=dict)

    def read(self, name: str, parse: Callable[[str], _Value]) -> _Value | None:
        """The value of a field; None for one with a fault, which is noted."""
        try:
            return parse(self.texts[name])
        except (Invalid, ValueError) as error:
            message = error.message if isinstance(error, LadingError) else str(error)
            self.faults[name] = message
            return None


async def show(visit: Visit) -> Response:
    """The form; filled in from the request `from`, if the address has one."""
    earlier = visit.query("from")
    texts, needed = dict(_EMPTY), list[Any]()
    for name in ("image", "run", "collection"):
        texts[name] = visit.query(name)[:400]
    if earlier:
        request = await visit.api.get("container_requests", _need_request(earlier))
        texts, needed = {**texts, **_texts_of(request)}, request["secrets_needed"]
    return await _form(visit, texts, earlier=earlier, needed=needed)


async def submit(visit: Visit) -> Response:
    """Submit the request and go to its page; a form with faults is shown again with them."""
    texts = {name: visit.field(name).strip() for name in (*_TEXTS, *_SWITCHES)}
    earlier = visit.field("from")
    reading = _Reading(texts)
    base: Record = {}
    needed: list[Any] = []
    if earlier:
        request = await visit.api.get("container_requests", _need_request(earlier))
        needed = request["secrets_needed"]
        base = repeated(request, {})
    project = ""
    try:
        project = await sharing.find_project(visit.api, texts["project"])
    except LadingError as error:
        if error.status >= 500:
            raise
        reading.faults["project"] = error.message
    await _add_chosen(visit, reading, texts)
    if texts["collection"]:
        await _add_collection(visit, reading, texts)
    body = _body(reading, base, project)
    contents = _secrets(visit, needed)
    missing = [name for name in needed_names(needed) if name not in contents]
    if missing:
        reading.faults["secrets"] = f"{', '.join(missing)}: no record has it; give it again"
    elif needed:
        body["secret_mounts"] = restored(needed, contents)
    if not reading.faults:
        try:
            if texts["run"]:
                body |= await run_choice.attributes(visit.api, texts["run"], project, body)
            created = await visit.api.create("container_requests", body)
        except LadingError as error:
            if error.status >= 500:
                raise
            return await _form(
                visit,
                texts,
                earlier=earlier,
                needed=needed,
                refused=error.message,
                status=error.status,
            )
        return visit.redirect(f"/ui/requests/{created['uuid']}?said=submitted")
    return await _form(
        visit, texts, earlier=earlier, needed=needed, faults=reading.faults, status=422
    )


async def _add_collection(visit: Visit, reading: _Reading, texts: dict[str, str]) -> None:
    """Make the chosen collection a line of the inputs."""
    try:
        source = await input_choice.find_collection(visit.api, texts["collection"])
    except LadingError as error:
        if error.status >= 500:
            raise
        reading.faults["collection"] = error.message
        return
    target = texts["collection_path"] or input_choice.PATH
    texts["inputs"] = f"{texts['inputs']}\n{target}={source}".strip()
    texts["collection"] = texts["collection_path"] = ""


async def _add_chosen(visit: Visit, reading: _Reading, texts: dict[str, str]) -> None:
    """Make each collection that is marked a line of the inputs."""
    try:
        lines = await input_choice.chosen_inputs(visit.api, list(visit.form.get("chosen") or ()))
    except LadingError as error:
        if error.status >= 500:
            raise
        reading.faults["chosen"] = error.message
        return
    texts["inputs"] = "\n".join((texts["inputs"], *lines)).strip()


def _secrets(visit: Visit, needed: Sequence[Any]) -> dict[str, str]:
    """The contents of the secrets that the form has, by their names."""
    contents = {name: visit.field(f"secret:{name}") for name in needed_names(needed)}
    return {name: content for name, content in contents.items() if content}


async def _form(
    visit: Visit,
    texts: Mapping[str, str],
    *,
    earlier: str,
    needed: Sequence[Any] = (),
    faults: Mapping[str, str] | None = None,
    refused: str = "",
    status: int = 200,
) -> Response:
    images = [name for image in await list_images(visit.api) for name in image.names]
    runs = await run_choice.names(visit.api)
    run = await run_choice.find(visit.api, texts["run"]) if texts["run"] else None
    return visit.page(
        "submit.html",
        status=status,
        texts=texts,
        earlier=earlier,
        gpus_open=any(texts[name] or name in (faults or {}) for name in _GPUS),
        secrets=needed_names(needed),
        faults=faults or {},
        refused=refused,
        images=list(dict.fromkeys(images))[:_MOST_IMAGES],
        runs=runs,
        run=run,
        params=[(name, show_value(value)) for name, value in run["params"].items()] if run else [],
        collections=await input_choice.suggestions(visit),
    )


def _need_request(uuid: str) -> str:
    if not is_uuid(uuid) or infix_of(uuid) != Infix.REQUEST:
        raise Invalid("from: must be the uuid of a request")
    return uuid


def _body(reading: _Reading, base: Record, project: str) -> Record:
    """The attributes of the request: those of `base`, changed as the form says; `project`: the uuid
    of its owner, "" for that of `base`.
    """
    output = base.get("output_path") or _OUTPUT
    base_mounts = {
        target: mount
        for target, mount in (base.get("mounts") or {output: {"kind": "tmp"}}).items()
        if mount.get("kind") not in _STORED
    }
    inputs = reading.read("inputs", lambda field_text: dict(_inputs(field_text))) or {}
    for target in inputs:
        if target in base_mounts:
            reading.faults["inputs"] = f"{target}: is taken; choose another path"
    constraints = {
        **(base.get("runtime_constraints") or {}),
        "vcpus": reading.read("vcpus", _number),
        "ram": reading.read("ram", _ram),
    }
    # The older form of the constraint means the same, and would come back as `gpu`.
    for name in ("gpu", "cuda"):
        constraints.pop(name, None)
    if gpu := _gpu(reading):
        constraints["gpu"] = gpu
    if reading.texts["internet"] or constraints.get("internet"):
        constraints["internet"] = bool(reading.texts["internet"])
    owner = project or base.get("owner_uuid")
    return {
        "cwd": output,
        "output_path": output,
        **base,
        "name": reading.texts["name"],
        "container_image": reading.read("image", _image),
        "command": reading.read("command", _command),
        "environment": reading.read(
            "environment", lambda field_text: dict(_environment(field_text))
        ),
        "mounts": {**base_mounts, **inputs},
        "runtime_constraints": constraints,
        "use_existing": bool(reading.texts["reuse"]),
        "priority": _PRIORITY,
        "state": "Committed",
        **({"owner_uuid": owner} if owner else {}),
    }


def _gpu(reading: _Reading) -> Record | None:
    """The constraint of the fields about GPUs, None for none."""
    count, memory, kinds, version = (
        reading.read(name, parse) if reading.texts[name] else None
        for name, parse in zip(_GPUS, _GPU_PARSERS, strict=True)
    )
    if not reading.faults.keys().isdisjoint(_GPUS):
        return None
    return reading.read(
        "gpus",
        lambda _: gpu_constraint(
            count, memory=memory or 0, kinds=kinds or (), version=version or ""
        ),
    )


def _image(name: str) -> str:
    if not name:
        raise Invalid("is needed; give a name, as tools:1, or a hash")
    return name


def _command(command: str) -> list[str]:
    words = shlex.split(command)
    if not words:
        raise Invalid("is needed; write the command to run, for example echo hello")
    return words


def _number(digits: str) -> int:
    if not digits.isascii() or not digits.isdigit() or not int(digits):
        raise Invalid("must be a whole number of at least 1")
    return int(digits)


def _ram(amount: str) -> int:
    # A bare number could be bytes or mebibytes.
    if amount.isdigit():
        raise Invalid("needs a unit; write for example 256 MiB")
    return parse_size(amount)


def _inputs(field_text: str) -> Iterator[tuple[str, Record]]:
    """Target and mount of each line `TARGET=SOURCE`."""
    taken = set()
    for line in _lines(field_text):
        target, separator, source = line.partition("=")
        name, _, path = source.strip().removeprefix("keep:").partition("/")
        target = target.strip()
        if not separator or not target.startswith("/"):
            raise Invalid(f"{line}: is not PATH=SOURCE, with a path in the container")
        if target in taken:
            raise Invalid(f"{target}: is given twice")
        taken.add(target)
        yield target, {**_mount(name), **({"path": path} if path else {})}


def _mount(name: str) -> dict[str, Any]:
    if is_pdh(name):
        return {"kind": "collection", "portable_data_hash": name}
    if is_uuid(name, Infix.COLLECTION):
        return {"kind": "collection", "uuid": name}
    if is_uuid(name, Infix.REQUEST):
        return {"kind": "output", "container_request": name}
    raise Invalid(f"{name}: is no hash, and no uuid of a collection or a request")


def _environment(field_text: str) -> Iterator[tuple[str, str]]:
    for line in _lines(field_text):
        name, separator, value = line.partition("=")
        if not separator or not name:
            raise Invalid(f"{line}: is not NAME=VALUE")
        yield name, value


def _lines(field_text: str) -> Iterator[str]:
    return (line.strip() for line in field_text.splitlines() if line.strip())


def _texts_of(request: Record) -> dict[str, str]:
    """The fields of the form for an existing request."""
    constraints = request["runtime_constraints"]
    inputs = (
        f"{target}={_source(mount)}"
        for target, mount in sorted(request["mounts"].items())
        if mount.get("kind") in _STORED
    )
    vcpus, ram = (_largest(constraints.get(name)) for name in ("vcpus", "ram"))
    return {
        "name": str(request["name"] or ""),
        "image": str(request["container_image"] or ""),
        "command": shlex.join(request["command"] or ()),
        "inputs": "\n".join(inputs),
        "environment": "\n".join(
            f"{name}={value}" for name, value in request["environment"].items()
        ),
        "vcpus": str(vcpus or 1),
        "ram": f"{-(-(ram or 0) // (1 << 20)) or 256} MiB",
        **_gpu_texts(constraints),
        "project": str(request["owner_uuid"]),
        "reuse": "yes" if request["use_existing"] else "",
        "internet": "yes" if constraints.get("internet") else "",
    }


def _gpu_texts(constraints: Mapping[str, Any]) -> dict[str, str]:
    """The fields about GPUs; a request of any GPU of a maker names the maker as the kind."""
    gpu = constraints.get("gpu") or {}
    count, memory = gpu.get("device_count"), gpu.get("vram")
    if not count:
        return dict.fromkeys(_GPUS, "")
    kinds, version = gpu.get("hardware_target") or [], str(gpu.get("driver_version") or "")
    stack = str(gpu.get("stack") or "")
    if stack in _MAKERS and default_stack(kinds) != stack:
        kinds = [_MAKERS[stack], *kinds]
    return {
        "gpus": str(count),
        "gpu_memory": f"{-(-memory // (1 << 20))} MiB" if memory else "",
        "gpu_type": ", ".join(kinds),
        "gpu_version": "" if version == NO_VERSION else version,
    }


def _largest(value: int | list[int] | None) -> int | None:
    """A need as one number: of a range the largest."""
    return max(value) if isinstance(value, list) else value


def _source(mount: Record) -> str:
    names = ("portable_data_hash", "uuid", "container_request")
    source = next((str(mount[name]) for name in names if mount.get(name)), "")
    return f"{source}/{mount['path']}" if mount.get("path") else source
