"""The metadata of a Process Run Crate 0.5: RO-Crate 1.1 with one CreateAction for each container.

Sources: https://w3id.org/ro/wfrun/process/0.5 and https://w3id.org/ro/crate/1.1.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lading.core.ids import is_pdh

METADATA: Final = "ro-crate-metadata.json"
_PROCESS: Final = "https://w3id.org/ro/wfrun/process/0.5"
_CRATE: Final = "https://w3id.org/ro/crate/1.1"
_CONTEXT: Final = [f"{_CRATE}/context", "https://w3id.org/ro/terms/workflow-run/context"]
_DOCKER: Final = "https://w3id.org/ro/terms/workflow-run#DockerImage"
Entity = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrateStep:
    """A request that has run, as the API shows it, with its container; `agent`: the user's name."""

    request: Mapping[str, Any]
    container: Mapping[str, Any]
    agent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrateImage:
    """An image: its names, and the digest of its configuration in hex digits, without a prefix."""

    names: tuple[str, ...] = ()
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrateFile:
    """A file in the crate: path, size in bytes, SHA-256 in hex digits."""

    path: str
    size: int
    sha256: str


@dataclass(slots=True)
class _Graph:
    entities: dict[str, Entity] = field(default_factory=dict)

    def add(self, entity: Entity) -> Entity:
        """Add an entity, unless there is one with its id; a reference to it."""
        self.entities.setdefault(entity["@id"], entity)
        return {"@id": entity["@id"]}


def crate_document(
    steps: Iterable[CrateStep],
    *,
    name: str,
    published: str,
    version: str,
    license_text: str,
    files: Iterable[CrateFile],
    images: Mapping[str, CrateImage],
) -> Entity:
    """The JSON-LD document of `ro-crate-metadata.json`.

    `published`: the present time, as ISO 8601. `version`: that of Lading. `files`: all files of the
    crate but this one; data of a collection are below `data/HASH/`, logs below `logs/UUID/`,
    records below `records/`. `images`: what is known of images, by their portable data hashes. A
    container that several requests share is one action.
    """
    graph = _Graph()
    paths = sorted(files, key=lambda one: one.path)
    kept = {one.path.split("/")[1] for one in paths if one.path.startswith("data/")}
    parts = [graph.add(_file(one)) for one in paths]
    actions: dict[str, Entity] = {}
    for one in steps:
        uuid = str(one.container["uuid"])
        if uuid not in actions:
            actions[uuid] = graph.add(_action(graph, one, kept, images))
    for pdh in sorted(kept):
        held = [{"@id": one.path} for one in paths if one.path.startswith(f"data/{pdh}/")]
        graph.entities.setdefault(f"data/{pdh}/", _dataset(pdh, kept))["hasPart"] = held
        parts.append({"@id": f"data/{pdh}/"})
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": name,
        "description": f"What ran for {name}, as Lading has recorded it.",
        "datePublished": published,
        "license": license_text,
        "conformsTo": [{"@id": _PROCESS}],
        "mentions": list(actions.values()),
        "hasPart": parts,
    }
    about = {
        "@id": METADATA,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": [{"@id": _CRATE}],
        "sdPublisher": {"@id": "#lading"},
    }
    profile = {
        "@id": _PROCESS, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5",
    }  # fmt: skip
    maker = {"@id": "#lading", "@type": "SoftwareApplication", "name": "Lading", "version": version}
    first = [about, root, profile, maker]
    return {"@context": _CONTEXT, "@graph": [*first, *graph.entities.values()]}


def contents_of(steps: Iterable[CrateStep]) -> tuple[set[str], set[str]]:
    """The portable data hashes of the inputs and outputs of containers, and of their images."""
    data: set[str] = set()
    images: set[str] = set()
    for one in steps:
        images.add(str(one.container["container_image"]))
        data.update(pdh for _, pdh, _ in _inputs(one.container))
        if one.container["output"]:
            data.add(str(one.container["output"]))
    return data, images


def _action(
    graph: _Graph, step: CrateStep, kept: set[str], images: Mapping[str, CrateImage]
) -> Entity:
    request, container = step.request, step.container
    uuid, command = str(container["uuid"]), [*(container["command"] or ())]
    image = _image(str(container["container_image"]), images)
    program = command[0] if command else "(that of the image)"
    tool = {
        "@id": f"#tool-{container['container_image']}-{program}",
        "@type": "SoftwareApplication",
        "name": program,
        "softwareRequirements": graph.add(image),
    }
    output = str(container["output"] or "")
    action: Entity = {
        "@id": f"#{uuid}",
        "@type": "CreateAction",
        "name": request["name"] or shlex.join(command) or uuid,
        "description": shlex.join(command),
        "startTime": container["started_at"],
        "endTime": container["finished_at"],
        "instrument": graph.add(tool),
        "containerImage": {"@id": image["@id"]},
        "agent": graph.add(_agent(request, step.agent)),
        "object": [graph.add(one) for one in _objects(container, kept)],
        "result": [graph.add(_dataset(output, kept))] if output else [],
        "subjectOf": [{"@id": f"records/{request['uuid']}.json"}, {"@id": f"records/{uuid}.json"}],
        **_end(container),
    }
    return {name: value for name, value in action.items() if value not in (None, "", [])}


def _objects(container: Mapping[str, Any], kept: set[str]) -> Iterator[Entity]:
    """Inputs with their paths in the container, and the environment."""
    uuid = container["uuid"]
    for target, pdh, path in _inputs(container):
        yield _dataset(pdh, kept)
        yield _property(f"#{uuid}-mount-{target}", target, f"{pdh}/{path}" if path else pdh)
    for name, value in sorted((container["environment"] or {}).items()):
        yield _property(f"#{uuid}-environment-{name}", name, value)


def _end(container: Mapping[str, Any]) -> Entity:
    if container["state"] == "Complete" and container["exit_code"] == 0:
        return {"actionStatus": {"@id": "http://schema.org/CompletedActionStatus"}}
    said = (container["runtime_status"] or {}).get("error")
    return {
        "actionStatus": {"@id": "http://schema.org/FailedActionStatus"},
        "error": str(said or f"exit code {container['exit_code']}"),
    }


def _inputs(container: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Target, hash and path of each collection that the container mounts."""
    for target, mount in sorted((container["mounts"] or {}).items()):
        pdh = mount.get("portable_data_hash")
        if mount.get("kind") == "collection" and pdh and is_pdh(pdh):
            yield target, pdh, mount.get("path") or ""


def _dataset(pdh: str, kept: set[str]) -> Entity:
    place = f"data/{pdh}/" if pdh in kept else f"#content-{pdh}"
    return {
        "@id": place,
        "@type": "Dataset",
        "name": pdh,
        "identifier": pdh,
        "description": "" if pdh in kept else "Only its manifest is in this crate.",
        "subjectOf": {"@id": f"manifests/{pdh}.txt"},
    }


def _file(one: CrateFile) -> Entity:
    names = {
        "records": "Record of the API", "logs": "Log", "manifests": "Manifest of a collection",
    }  # fmt: skip
    name = names.get(one.path.split("/", 1)[0], one.path.rsplit("/", 1)[-1])
    return {
        "@id": one.path,
        "@type": "File",
        "name": name,
        "contentSize": str(one.size),
        "sha256": one.sha256,
    }


def _image(pdh: str, images: Mapping[str, CrateImage]) -> Entity:
    known = images.get(pdh, CrateImage())
    made: Entity = {
        "@id": f"#image-{pdh}",
        "@type": "ContainerImage",
        "additionalType": {"@id": _DOCKER},
        "name": known.names[0] if known.names else pdh,
        "identifier": pdh,
    }
    return {**made, "sha256": known.sha256} if known.sha256 else made


def _agent(request: Mapping[str, Any], name: str) -> Entity:
    uuid = str(request.get("modified_by_user_uuid") or request["owner_uuid"])
    return {"@id": f"#{uuid}", "@type": "Person", "name": name or uuid}


def _property(key: str, name: str, value: object) -> Entity:
    return {"@id": key, "@type": "PropertyValue", "name": name, "value": str(value)}
