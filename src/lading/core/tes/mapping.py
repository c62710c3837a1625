"""The container request that carries out a task.

| task | request |
|---|---|
| inputs with content | text mounts |
| inputs with a `keep:` URL | collection mounts |
| inputs in a live root | live mounts |
| inputs with another URL | the request stays Uncommitted until they are fetched (`transfers`) |
| volumes | tmp mounts |
| outputs | the nearest directory above all of them is the output path, a tmp mount |
| several executors, files of streams | steps; directories of the files are tmp mounts |
| resources | runtime_constraints, scheduling_parameters, the capacity of the output |
| tags | properties `tes.tag.NAME`, which filters of lists can name |

The property `tes` holds the document without the contents of its inputs, which the mounts have, and
warnings. A task is run anew unless it asks for reuse: tasks often write their results themselves.

Source: GA4GH Task Execution Service 1.1.0; docs/tes.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from lading.core.containers.gpu_words import gpu_constraint
from lading.core.containers.mounting.mounts import covering
from lading.core.containers.steps import MAX_STEPS, STREAM_NAMES
from lading.core.ids import is_pdh
from lading.core.tes.backend_parameters import (
    GB,
    effective_parameters,
    read_flag,
    read_seconds,
    read_whole,
    tag_warnings,
    unsupported,
)
from lading.core.tes.document import is_pattern, parse_keep
from lading.core.tes.document_shapes import DocumentFault, array, mapping, objects, pointer, string
from lading.core.tes.file_roots import FileRoot, is_below_root
from lading.core.tes.input_mounts import as_copy, output_globs, own_directories
from lading.core.tes.locations import LocationScheme, parse_location
from lading.core.tes.transfers import TransferPhase, first_phase, is_fetched, live_place
from lading.core.values import Json, JsonObject, integer, printable

PROPERTY = "tes"
"""Property of requests that are tasks: {"task", "warnings"}."""
IDEMPOTENCY = "tes.key"
"""Property with the digest of the Idempotency-Key with which a task was created."""
TRANSFERS = "transfers"
"""Key of that property for tasks with inputs or outputs by URL, which are stored (`transfers`)."""
TAG = "tes.tag."
"""Prefix of the properties with tags."""
LIVE = "live"
"""Key of that property with the paths of live mounts."""
NO_OUTPUT = "/.lading-output"
"""Output path of a task without outputs."""
_CORES, _RAM_GB, _DISK_GB = 1, 2.0, 10.0
# A task that fails each time must end one day.
_MOST_RETRIES = 100
RECIPE = (
    "use_existing", "command", "container_image", "cwd", "environment", "steps", "mounts",
    "output_path", "output_glob", "runtime_constraints", "scheduling_parameters",
    "container_count_max",
)  # fmt: skip
"""Attributes of a request that say what is run; the others may be changed at any time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSite:
    """Facts of the installation. `preemptible`: whether some instance type is preemptible; `reuse`:
    whether tasks that do not choose may be given the result of an earlier one; `roots`: directories
    that `file` URLs may lead to; `zones`: the partition of each zone.
    """

    preemptible: bool = False
    reuse: bool = False
    roots: tuple[FileRoot, ...] = ()
    zones: Mapping[str, str] = field(default_factory=dict)


ANY_SITE = TaskSite()
"""An installation without anything special."""


def rules(task: JsonObject, site: TaskSite = ANY_SITE) -> Iterator[DocumentFault]:
    """Faults of a task that this server cannot run."""
    yield from _faults_of_streams(task)
    if len(objects(task, "executors")) > MAX_STEPS:
        yield DocumentFault("/executors", f"has more than {MAX_STEPS} executors")
    if output_path(task) == "/":
        # A mount there would hide the image's own files.
        yield DocumentFault("/outputs", "must all be below one directory other than '/'")
    yield from _faults_of_places(task)
    yield from _faults_of_roots(task, site)
    resources = mapping(task, "resources")
    if resources.get("backend_parameters_strict"):
        yield from _faults_of_parameters(mapping(resources, "backend_parameters"))


def _faults_of_streams(task: JsonObject) -> Iterator[DocumentFault]:
    for number, executor in enumerate(objects(task, "executors")):
        for name in STREAM_NAMES:
            # A mount there would hide the image's own files.
            if posixpath.dirname(string(executor, name)) == "/":
                at = f"/executors/{number}/{name}"
                yield DocumentFault(at, "must be in a directory other than '/'")


def _faults_of_parameters(parameters: JsonObject) -> Iterator[DocumentFault]:
    for name, value in parameters.items():
        if (text := unsupported(name, str(value))) is not None:
            yield DocumentFault("/resources/backend_parameters" + pointer(name), text)


def _faults_of_places(task: JsonObject) -> Iterator[DocumentFault]:
    """Inputs at the place of a directory of the task, and volumes below the output."""
    volumes = [_plain(str(volume)) for volume in array(task, "volumes")]
    output = output_path(task)
    for number, path in enumerate(volumes):
        if path.startswith(f"{output}/"):
            fault = "lies below the directory of all outputs; name one beside it"
            yield DocumentFault(f"/volumes/{number}", fault)
    taken = {output, *volumes, *_stream_directories(task)}
    for number, task_input in enumerate(objects(task, "inputs")):
        if _plain(string(task_input, "path")) in taken:
            fault = "is the path of a volume, or the directory of an output or of a stream"
            yield DocumentFault(f"/inputs/{number}/path", fault)


def _faults_of_roots(task: JsonObject, site: TaskSite) -> Iterator[DocumentFault]:
    """Files below no configured directory; whose directory it is counts when it is used."""
    for name in ("inputs", "outputs"):
        for number, entry in enumerate(objects(task, name)):
            if "content" in entry or not string(entry, "url"):
                continue
            location = parse_location(string(entry, "url"))
            if location.scheme is LocationScheme.FILE and not is_below_root(
                site.roots, location.path.rstrip("/"), writes=name == "outputs"
            ):
                text = "is below no directory that is offered; service-info lists them as storage"
                yield DocumentFault(f"/{name}/{number}/url", text)


def output_path(task: Mapping[str, Json]) -> str:
    """The nearest directory above all outputs, where the part of a path before its wildcards
    counts.
    """
    places = []
    for output in objects(task, "outputs"):
        path, prefix = _plain(string(output, "path")), _plain(string(output, "path_prefix"))
        places.append(prefix if is_pattern(path, prefix) else posixpath.dirname(path))
    return posixpath.commonpath(places) if places else NO_OUTPUT


def ignores_missing(task: JsonObject) -> bool:
    """Whether a task may end well without some of its outputs."""
    backend = mapping(mapping(task, "resources"), "backend_parameters")
    asked = {name.lower(): value for name, value in backend.items()}.get("missing_outputs")
    return "ignore" in (asked, mapping(task, "tags").get("lading.missing_outputs"))


def keeps_on_failure(task: JsonObject) -> bool:
    """Whether the outputs of a task that a limit or a fault of the machine ended are delivered as
    far as they are there.
    """
    backend = mapping(mapping(task, "resources"), "backend_parameters")
    asked = {name.lower(): str(value) for name, value in backend.items()}.get("keep_on_failure")
    return asked is not None and read_flag(asked) is not False and read_seconds(asked) is not None


def make_request(task: JsonObject, *, site: TaskSite, key: str = "") -> JsonObject:
    """The attributes of the request of a checked task. `key` is the digest of the client's
    Idempotency-Key, or "".
    """
    executor = objects(task, "executors")[0]
    steps = _steps(task)
    backend, warnings = _backend(task, site)
    tags = mapping(task, "tags")
    phase = first_phase(task, site.roots)
    asked = backend.get("reuse", read_flag(string(tags, "lading.reuse")))
    request: JsonObject = {
        "name": string(task, "name") or None,
        "description": string(task, "description") or None,
        "properties": _properties(task, warnings, key, site),
        # Its inputs become mounts, and a committed request's mounts cannot change.
        "state": "Uncommitted" if phase is TransferPhase.FETCHING else "Committed",
        "priority": 500,
        "use_existing": site.reuse if asked is None else asked,
        "command": executor["command"],
        "container_image": executor["image"],
        "cwd": _plain(string(executor, "workdir")) or ".",
        # Each step has an environment of its own.
        "environment": {} if steps else mapping(executor, "env"),
        "steps": [*steps],
        "mounts": _mounts(task, site.roots),
        "output_path": output_path(task),
        "output_glob": [*output_globs(task, output_path(task), _copied(task, site.roots))],
        "runtime_constraints": _constraints(task, backend),
        "scheduling_parameters": _scheduling(task, backend, site),
    }
    if (retries := read_whole(string(tags, "lading.retries") or "-")) is not None:
        request["container_count_max"] = 1 + min(retries, _MOST_RETRIES)
    if string(tags, "lading.project"):
        request["owner_uuid"] = tags["lading.project"]
    return request


def with_places(task: JsonObject, request: JsonObject, *, site: TaskSite) -> JsonObject:
    """The request of a task for a check in advance: with empty directories in the place of inputs
    that are not there yet.
    """
    places: JsonObject = {
        _plain(string(task_input, "path")): {"kind": "collection", "writable": True}
        for task_input in objects(task, "inputs")
        if is_fetched(task_input, site.roots)
    }
    return {**request, "mounts": {**mapping(request, "mounts"), **places}, "use_existing": False}


def _scheduling(task: JsonObject, backend: Mapping[str, Json], site: TaskSite) -> JsonObject:
    wants_preemptible = mapping(task, "resources").get("preemptible") is True
    scheduling: JsonObject = {
        "max_run_time": backend.get("max_run_time", 0),
        "partitions": [backend["partition"]] if "partition" in backend else backend["zones"],
        "preemptible": wants_preemptible and site.preemptible,
    }
    if backend.get("keep_on_failure"):
        scheduling["keep_on_failure"] = backend["keep_on_failure"]
    return scheduling


def _properties(task: JsonObject, warnings: list[str], key: str, site: TaskSite) -> JsonObject:
    about: JsonObject = {"task": _stored(task), "warnings": [*warnings]}
    if first_phase(task, site.roots) is not None:
        about[TRANSFERS] = True
    inputs = objects(task, "inputs")
    if live := [
        task_input["path"]
        for task_input in inputs
        if live_place(task_input, site.roots) is not None
    ]:
        about[LIVE] = live
    properties: JsonObject = {PROPERTY: about}
    if key:
        properties[IDEMPOTENCY] = key
    tags = mapping(task, "tags")
    return properties | {f"{TAG}{name}": value for name, value in tags.items()}


def is_stepped(task: JsonObject) -> bool:
    """Whether a task needs more than the one command of a plain container."""
    executors = objects(task, "executors")
    return len(executors) > 1 or any(
        executor.get(name) for executor in executors for name in (*STREAM_NAMES, "ignore_error")
    )


def _steps(task: JsonObject) -> list[JsonObject]:
    if not is_stepped(task):
        return []
    return [
        {
            "container_image": executor["image"],
            "command": executor["command"],
            "cwd": _plain(string(executor, "workdir")) or ".",
            "environment": mapping(executor, "env"),
            "ignore_error": executor.get("ignore_error", False),
            **{name: string(executor, name) for name in STREAM_NAMES},
        }
        for executor in objects(task, "executors")
    ]


def _stream_directories(task: JsonObject) -> list[str]:
    """Directories of the files of streams that no other mount has."""
    others = dict.fromkeys((output_path(task), *(_plain(str(v)) for v in array(task, "volumes"))))
    others |= dict.fromkeys(
        _plain(string(task_input, "path")) for task_input in objects(task, "inputs")
    )
    paths = [
        string(executor, name) for executor in objects(task, "executors") for name in STREAM_NAMES
    ]
    return [posixpath.dirname(path) for path in paths if path and covering(others, path) is None]


def _constraints(task: JsonObject, backend: Mapping[str, Json]) -> JsonObject:
    resources = mapping(task, "resources")
    resolved: JsonObject = {
        "vcpus": resources.get("cpu_cores") or _CORES,
        "ram": _bytes(resources.get("ram_gb") or _RAM_GB),
        "internet": backend.get("network", True),
    }
    count = integer(backend.get("gpu_count", 1))
    if count and any(name in backend for name in ("gpu_count", "gpu_ram_gb", "gpu_type")):
        resolved["gpu"] = gpu_constraint(
            count,
            memory=integer(backend.get("gpu_ram_gb")) or 0,
            kinds=[*map(str, array(backend, "gpu_type"))],
        )
    return resolved


def _bytes(gigabytes: Json) -> int:
    return math.ceil(gigabytes * GB) if isinstance(gigabytes, int | float) else 0


def _mounts(task: JsonObject, roots: Collection[FileRoot]) -> JsonObject:
    disk = _bytes(mapping(task, "resources").get("disk_gb") or _DISK_GB)
    mounts: JsonObject = {
        _plain(str(volume)): {"kind": "tmp", "capacity": disk} for volume in array(task, "volumes")
    }
    mounts |= {
        directory: {"kind": "tmp", "capacity": disk} for directory in _stream_directories(task)
    }
    mounts[output_path(task)] = {"kind": "tmp", "capacity": disk if task.get("outputs") else 0}
    for task_input in objects(task, "inputs"):
        path = _plain(string(task_input, "path"))
        if (live := live_place(task_input, roots)) is not None:
            mounts[path] = _live_mount(*live)
        elif not is_fetched(task_input):
            mounts[path] = as_copy(_input_mount(task_input))
    copied = _copied(task, roots)
    for directory in own_directories(copied, mounts.keys() - set(copied)):
        mounts[directory] = {"kind": "tmp", "unless_occupied": True}
    return mounts


def _copied(task: JsonObject, roots: Collection[FileRoot]) -> list[str]:
    """The paths of the inputs that the task gets copies of: all but live ones."""
    return [
        _plain(string(task_input, "path"))
        for task_input in objects(task, "inputs")
        if live_place(task_input, roots) is None
    ]


def _live_mount(root: FileRoot, path: str) -> JsonObject:
    return {"kind": "live", "root": root.prefix, "path": path, "writable": root.is_writable}


def _input_mount(task_input: JsonObject) -> JsonObject:
    if "content" in task_input:
        return {"kind": "text", "content": task_input["content"]}
    name, path = parse_keep(string(task_input, "url"))
    named = {"portable_data_hash": name} if is_pdh(name) else {"uuid": name}
    return {"kind": "collection", **named, "path": path}


def _stored(task: JsonObject) -> JsonObject:
    """The document without the contents of inputs, and without parameters that have no effect."""
    stored = dict(task)
    if "inputs" in task:
        stored["inputs"] = [
            {name: value if name != "content" else "" for name, value in task_input.items()}
            for task_input in objects(task, "inputs")
        ]
    resources = mapping(task, "resources")
    if "backend_parameters" in resources:
        kept = mapping(resources, "backend_parameters").items()
        used = {name: value for name, value in kept if unsupported(name, str(value)) is None}
        stored["resources"] = {**resources, "backend_parameters": used}
    return stored


def with_contents(task: JsonObject, mounts: Mapping[str, Json]) -> JsonObject:
    """The document that `make_request` stored, with the contents of its inputs again."""
    if "inputs" not in task:
        return task
    inputs: list[Json] = []
    for task_input in objects(task, "inputs"):
        found = (
            mapping(mounts, _plain(string(task_input, "path"))) if "content" in task_input else {}
        )
        inputs.append({**task_input, "content": found.get("content", "")} if found else task_input)
    return {**task, "inputs": inputs}


def _backend(task: JsonObject, site: TaskSite) -> tuple[JsonObject, list[str]]:
    """The effective backend parameters, and warnings about all that has no effect."""
    resources = mapping(task, "resources")
    effective, warnings = effective_parameters(mapping(resources, "backend_parameters"))
    warnings += tag_warnings(mapping(task, "tags"))
    if resources.get("preemptible") and not site.preemptible:
        warnings.append(
            "warning: no preemptible machines are configured here; the task runs on others"
        )
    zones = [str(zone) for zone in array(resources, "zones")]
    effective["zones"] = [site.zones[zone] for zone in zones if zone in site.zones]
    if unknown := [zone for zone in zones if zone not in site.zones]:
        warnings.append(
            f"warning: the zones {printable(', '.join(unknown))} are not known here"
            f" ({', '.join(site.zones) or 'none is'}); the task runs anywhere else"
        )
    return effective, warnings


def _plain(path: str) -> str:
    return path if path == "/" else path.removesuffix("/")
