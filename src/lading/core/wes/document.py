"""The parts of a form that creates a run: their values, and all faults of one at once.

* `workflow_params`, `workflow_type`, `workflow_type_version` and `workflow_url` are required; null
in JSON texts counts as absent.
* The name of an attachment is a relative path without `.`, `..` and empty elements, since the
workflow finds its files by these names.
* `workflow_url` is an attachment, or an absolute URL; it may end in `#NAME`.

Source: GA4GH Workflow Execution Service 1.1.0, RunWorkflow; docs/wes.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from lading.core.errors import Malformed
from lading.core.values import Json, JsonObject, is_too_deep, printable
from lading.core.wes.local_files import below_base, decoded, find_base, local_path

TYPE = "CWL"
VERSIONS = ("v1.0", "v1.1", "v1.2")
ENGINE = "arvados-cwl-runner"
ENGINE_PARAMETERS = ("max_run_time", "reuse")
"""`max_run_time`: seconds; `reuse`: yes or no."""
PROTOCOLS = ("keep", "http", "https")
"""URLs that a workflow and its parameters may name."""
MAX_PARAMS = 1 << 20
"""Characters of workflow_params."""
# Each attachment becomes a file of a collection of the run.
MAX_ATTACHMENTS = 2000
_MAX_PATH, _MAX_ELEMENT = 1024, 255
# The beginning of a URL with a scheme (RFC 3986, section 3.1).
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# Control characters, and the backslash, which some clients read as a separator.
_BAD = re.compile(r"[\0-\x1f\x7f\\]")
_REQUIRED = ("workflow_params", "workflow_type", "workflow_type_version", "workflow_url")
_JSON = ("workflow_params", "tags", "workflow_engine_parameters")
_KNOWN = (*_REQUIRED, "tags", "workflow_engine", "workflow_engine_version", _JSON[2])
MOST_FAULTS = 100
"""Faults that a refusal names; parameters may have thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDocument:
    """A checked run. `url` names an attachment, without its fragment, unless it has a scheme. In
    `params` the attachments have their own paths, also those that `sent_params` names as files of
    the sender's machine.
    """

    params: JsonObject
    sent_params: JsonObject
    type_version: str
    url: str
    fragment: str = ""
    tags: Mapping[str, str]
    engine: str = ""
    engine_version: str = ""
    engine_parameters: Mapping[str, str]


class InvalidRun(Malformed):
    """A run was refused; the message has the first faults."""

    def __init__(self, faults: Iterable[str]) -> None:
        super().__init__("; ".join(islice(faults, MOST_FAULTS)))


def read_run(
    fields: Mapping[str, str], attachments: Collection[str], *, engine_version: str
) -> RunDocument:
    """The run of a form. `attachments` are the checked names of its files; `engine_version` is the
    version of the engine here. Raises InvalidRun.
    """
    faults: list[str] = []
    values = {name: value for name, value in fields.items() if name in _KNOWN and value.strip()}
    faults += [f"{name}: is missing" for name in _REQUIRED if name not in values]
    objects = {name: _object(name, values.get(name, "{}"), faults) for name in _JSON}
    if faults:
        raise InvalidRun(faults)
    params, tags, parameters = (objects[name] for name in _JSON)
    url, _, fragment = values["workflow_url"].strip().partition("#")
    paths = _with_directories(attachments)
    base, fault = find_base(locations(params), paths)
    faults += [f"workflow_params: {fault}"] if fault else []
    run = RunDocument(
        params=below_base(params, base) if base else params,
        sent_params=params,
        type_version=values["workflow_type_version"],
        url=url,
        fragment=fragment,
        tags=_texts("tags", tags, faults),
        engine=values.get("workflow_engine", ""),
        engine_version=values.get("workflow_engine_version", ""),
        engine_parameters=_texts("workflow_engine_parameters", parameters, faults),
    )
    faults += _faults_of_kind(values["workflow_type"], run, engine_version)
    faults += _faults_of_url(run, attachments)
    faults += _faults_of_engine_parameters(run.engine_parameters)
    places = (location for location in locations(run.params) if not local_path(location))
    faults += [fault for location in places if (fault := _fault_of_location(location, paths))]
    if faults:
        raise InvalidRun(faults)
    return run


def attachment_path(name: str) -> str:
    """The path of an attachment below the directory of the run. Raises InvalidRun."""
    shown = printable(name)
    elements = name.removeprefix("./").split("/")
    if name.startswith("/"):
        raise InvalidRun([f"workflow_attachment: {shown!r} must be a relative path"])
    if any(
        element in ("", ".", "..") or len(element.encode()) > _MAX_ELEMENT for element in elements
    ):
        text = "must have no '..', '.', empty or very long element"
        raise InvalidRun([f"workflow_attachment: {shown!r} {text}"])
    if _BAD.search(name) or len(name.encode()) > _MAX_PATH:
        text = f"must have no control character or backslash, and at most {_MAX_PATH} bytes"
        raise InvalidRun([f"workflow_attachment: {shown!r} {text}"])
    return "/".join(elements)


def check_attachments(paths: Collection[str]) -> None:
    """Raise InvalidRun for too many attachments, and for one that is a directory of another."""
    if len(paths) > MAX_ATTACHMENTS:
        raise InvalidRun([f"workflow_attachment: at most {MAX_ATTACHMENTS} files are possible"])
    known = set(paths)
    for path in paths:
        parts = path.split("/")
        for end in range(1, len(parts)):
            if (above := "/".join(parts[:end])) in known:
                text = f"{printable(above)!r} is a file, and a directory of another attachment"
                raise InvalidRun([f"workflow_attachment: {text}"])


def locations(value: Json) -> Iterator[str]:
    """The locations of all File and Directory objects in parameters: `location`, else `path`."""
    if isinstance(value, list):
        for item in value:
            yield from locations(item)
    elif isinstance(value, dict):
        location = value.get("location", value.get("path"))
        if is_file(value) and isinstance(location, str):
            yield location
        for member in value.values():
            yield from locations(member)


def input_attachments(params: JsonObject, attachments: Iterable[str]) -> frozenset[str]:
    """The attachments that parameters name, with those beside them, which may be their secondary
    files, but without other CWL documents: so a change of the workflow changes no input.
    """
    named = {attached(location) for location in locations(params) if not scheme_of(location)}
    folders = {posixpath.dirname(path) for path in named}
    return frozenset(
        attachment
        for attachment in attachments
        if not named.isdisjoint(_with_directories([attachment]))
        or (posixpath.dirname(attachment) in folders and not attachment.endswith(".cwl"))
    )


def _with_directories(paths: Iterable[str]) -> frozenset[str]:
    """Paths, with the paths of all directories above them."""
    ancestry: set[str] = set()
    for path in paths:
        at = path
        while at and at not in ancestry:
            ancestry.add(at)
            at = posixpath.dirname(at)
    return frozenset(ancestry)


def is_file(value: Mapping[str, Json]) -> bool:
    """Whether an object of parameters is a File or a Directory."""
    return value.get("class") in ("File", "Directory")


def scheme_of(url: str) -> str:
    """The scheme of a URL in lower case; "" for a relative one."""
    found = _SCHEME.match(url)
    return found[1].lower() if found else ""


def attached(url: str) -> str:
    """The path that a relative URL, or the `path` of a File, names below the directory of the
    run.
    """
    return decoded(url.removeprefix("./").rstrip("/"))


def _object(name: str, json_text: str, faults: list[str]) -> JsonObject:
    if len(json_text) > MAX_PARAMS:
        faults.append(f"{name}: has {len(json_text)} characters; at most {MAX_PARAMS} are possible")
        return {}
    try:
        value = json.loads(json_text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        faults.append(f"{name}: is not JSON: {str(error)[:200]}")
        return {}
    if is_too_deep(value):
        faults.append(f"{name}: is nested too deep")
        return {}
    if not isinstance(value, dict):
        # wes-service sends no parameters as the text null.
        if value is not None:
            faults.append(f"{name}: must be an object")
        return {}
    return value


def _no_number(constant: str) -> Json:
    raise ValueError(f"{constant} is no JSON number")


def _texts(name: str, value: JsonObject, faults: list[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for key, member in value.items():
        if isinstance(member, str):
            texts[key] = member
        elif member is not None:
            faults.append(f"{name}.{printable(key)}: must be a string")
    return texts


def _faults_of_kind(kind: str, run: RunDocument, engine_version: str) -> Iterator[str]:
    if kind.upper() != TYPE:
        yield f"workflow_type: {printable(kind)!r} is not run here; only {TYPE} is"
    elif run.type_version not in VERSIONS:
        known = ", ".join(VERSIONS)
        yield f"workflow_type_version: {printable(run.type_version)!r} is none of {known}"
    if run.engine and run.engine != ENGINE:
        yield f"workflow_engine: {printable(run.engine)!r} is not here; {ENGINE} is"
    if run.engine_version and not run.engine:
        yield "workflow_engine: is missing beside workflow_engine_version"
    elif run.engine_version and run.engine_version != engine_version:
        shown = printable(run.engine_version)
        yield f"workflow_engine_version: {shown!r} is not here; {engine_version} is"


def _faults_of_url(run: RunDocument, attachments: Collection[str]) -> Iterator[str]:
    scheme = scheme_of(run.url)
    if scheme and scheme not in PROTOCOLS:
        yield f"workflow_url: {scheme}: URLs are not read here; these are: {', '.join(PROTOCOLS)}"
    elif not scheme and attached(run.url) not in attachments:
        yield f"workflow_url: {printable(run.url)!r} is no workflow_attachment"
    if _BAD.search(run.url + run.fragment) or " " in run.fragment:
        yield "workflow_url: must have no control character or backslash"


def _faults_of_engine_parameters(parameters: Mapping[str, str]) -> Iterator[str]:
    for name, value in parameters.items():
        at = f"workflow_engine_parameters.{printable(name)}"
        match name:
            case "max_run_time":
                if not value.isascii() or not value.isdigit() or len(value) > 9:
                    yield f"{at}: must be a whole number of seconds"
            case "reuse":
                if value not in ("yes", "no"):
                    yield f"{at}: must be yes or no"
            case _:
                yield f"{at}: is not supported; these are: {', '.join(ENGINE_PARAMETERS)}"


def _fault_of_location(location: str, paths: Collection[str]) -> str:
    """The fault of a place in the parameters, or "". `paths` are those of attachments and of the
    directories above them.
    """
    scheme = scheme_of(location)
    if scheme:
        if scheme in PROTOCOLS:
            return ""
        known = ", ".join(PROTOCOLS)
        return f"workflow_params: {scheme}: URLs are not read here; these are: {known}"
    if attached(location) in paths:
        return ""
    return f"workflow_params: {printable(location)!r} is no workflow_attachment"
