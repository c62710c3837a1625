"""The container request that carries out a run.

`arvados-cwl-runner --local` reads the workflow from the collection with the attachments, and makes
a container request of each step, with the token of its container. The image is that of
`lading image runner`.

| run | request |
|---|---|
| attachments | two collections: the workflow, and its inputs; relative URLs are `keep:HASH/PATH` |
| workflow_params | two files: as sent, and with resolved places of files for the runner |
| tags | properties `wes.tag.NAME`; `lading.project` is the owner of all that is made |
| workflow_engine_parameters | options of the runner, scheduling_parameters |

The property `wes` holds the other parts of the form. The container of the runner is always new; its
steps are reused unless the parameter `reuse` says no.

Source: GA4GH Workflow Execution Service 1.1.0; docs/wes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from lading.core.values import Json, JsonObject
from lading.core.wes.document import (
    ENGINE,
    TYPE,
    RunDocument,
    attached,
    is_file,
    locations,
    scheme_of,
)

PROPERTY = "wes"
"""Property of requests that are runs: the parts of the form, without parameters and tags."""
TAG = "wes.tag."
"""Prefix of the properties with tags."""
OUTPUT = "cwl.output.json"
"""Name of the output object in the output collection of a run."""
_FOLDER = "/var/lib/cwl"
_SENT = f"{_FOLDER}/workflow_params.json"
_RESOLVED = f"{_FOLDER}/cwl.input.json"
_OUTPUT_PATH = "/var/spool/cwl"
# Bytes of RAM that arvados-cwl-runner requests for itself, with its collection cache of 256 MiB.
_RAM = (1024 + 256) << 20
_OPTIONS = (
    "--local", "--api=containers", "--no-log-timestamps", "--disable-color", "--eval-timeout=20",
    "--thread-count=1", "--on-error=continue", "--collection-cache-size=256",
)  # fmt: skip
# The bytes that must be percent-encoded in a path (RFC 3986, section 3.3).
_SAFE = re.compile(rb"[^A-Za-z0-9._~/!$&'()*+,;=:@-]")


def make_request(run: RunDocument, *, workflow: str, inputs: str, image: str) -> JsonObject:
    """The attributes of the request of a checked run. `workflow` is the portable data hash of all
    its attachments, `inputs` that of those that its parameters need; "" for none.
    """
    params = resolve(run.params, inputs)
    project = run.tags.get("lading.project", "")
    constraints: JsonObject = {"vcpus": 1, "ram": _RAM, "API": True}
    # The runner fetches these itself.
    if any(
        scheme_of(location).startswith("http") for location in (run.url, *locations(run.params))
    ):
        constraints["internet"] = True
    command = [ENGINE, *_OPTIONS]
    command.append(
        "--disable-reuse" if run.engine_parameters.get("reuse") == "no" else "--enable-reuse"
    )
    if project:
        command.append(f"--project-uuid={project}")
    url = run.url if scheme_of(run.url) else f"keep:{workflow}/{encode(attached(run.url))}"
    command += [f"{url}#{run.fragment}" if run.fragment else url, _RESOLVED]
    stored: JsonObject = {
        "workflow_type": TYPE,
        "workflow_type_version": run.type_version,
        "workflow_url": f"{run.url}#{run.fragment}" if run.fragment else run.url,
        "workflow_engine": run.engine,
        "workflow_engine_version": run.engine_version,
        "workflow_engine_parameters": {**run.engine_parameters},
    }
    properties: JsonObject = {
        PROPERTY: {name: value for name, value in stored.items() if value},
        **{f"{TAG}{name}": value for name, value in run.tags.items()},
    }
    request: JsonObject = {
        "name": name_of(run),
        "properties": properties,
        "state": "Committed",
        "priority": 500,
        "use_existing": False,
        "command": [*command],
        "container_image": image,
        "cwd": _OUTPUT_PATH,
        "output_path": _OUTPUT_PATH,
        "mounts": {
            _SENT: {"kind": "json", "content": run.sent_params},
            _RESOLVED: {"kind": "json", "content": params},
            _OUTPUT_PATH: {"kind": "collection", "writable": True},
            "stdout": {"kind": "file", "path": f"{_OUTPUT_PATH}/{OUTPUT}"},
        },
        "runtime_constraints": constraints,
        "scheduling_parameters": {
            "max_run_time": int(run.engine_parameters.get("max_run_time", "0"))
        },
    }
    if project:
        request["owner_uuid"] = project
    return request


def name_of(run: RunDocument) -> str:
    """A short name of a run: that of its workflow's file."""
    return posixpath.basename(run.url.rstrip("/"))


def resolve(value: Mapping[str, Json], collection: str) -> JsonObject:
    """Parameters or outputs in which each relative location of a File or Directory leads into a
    collection, named by its portable data hash.
    """
    resolved = {name: _resolved(member, collection) for name, member in value.items()}
    location = value.get("location", value.get("path"))
    if is_file(value) and isinstance(location, str) and not scheme_of(location):
        resolved.pop("path", None)
        resolved["location"] = f"keep:{collection}/{encode(attached(location))}"
    return resolved


def _resolved(value: Json, collection: str) -> Json:
    if isinstance(value, list):
        return [_resolved(item, collection) for item in value]
    return resolve(value, collection) if isinstance(value, dict) else value


def encode(path: str) -> str:
    """A path as it is written in a URL."""
    data = path.encode("utf-8", "surrogatepass")
    return _SAFE.sub(lambda match: b"%%%02X" % match[0][0], data).decode()


def sent_params(mounts: Mapping[str, Any]) -> JsonObject:
    """The parameters of a run as they were sent, from the mounts of its request."""
    content = (mounts.get(_SENT) or {}).get("content")
    return content if isinstance(content, dict) else {}


def tags_of(properties: Mapping[str, Any]) -> dict[str, str]:
    """The tags of a run, from the properties of its request."""
    return {
        name.removeprefix(TAG): value
        for name, value in properties.items()
        if name.startswith(TAG) and isinstance(value, str)
    }
