"""The metadata of a run crate: RO-Crate 1.1 with one CreateAction for each container.

Profiles: Process Run Crate 0.5; with a workflow also Workflow RO-Crate 1.0, Workflow Run Crate 0.5
and Provenance Run Crate 0.5. Entities are made step by step, so that a crate of any number of steps
is written without being in memory: `CrateGraph` keeps their ids alone.

Sources: https://w3id.org/ro/wfrun/process/0.5, https://w3id.org/ro/wfrun/workflow/0.5,
https://w3id.org/ro/wfrun/provenance/0.5 and https://w3id.org/ro/crate/1.1.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lading.core.ids import EMPTY_PDH, is_pdh
from lading.core.provenance.uris import escaped
from lading.core.secrets import needed_names

METADATA: Final = "ro-crate-metadata.json"
PROV: Final = "provenance.jsonld"
_PROCESS: Final = ("https://w3id.org/ro/wfrun/process/0.5", "Process Run Crate", "0.5")
_WORKFLOW: Final = (
    ("https://w3id.org/ro/wfrun/workflow/0.5", "Workflow Run Crate", "0.5"),
    ("https://w3id.org/ro/wfrun/provenance/0.5", "Provenance Run Crate", "0.5"),
    ("https://w3id.org/workflowhub/workflow-ro-crate/1.0", "Workflow RO-Crate", "1.0"),
)
_CRATE: Final = "https://w3id.org/ro/crate/1.1"
CONTEXT: Final = [f"{_CRATE}/context", "https://w3id.org/ro/terms/workflow-run/context"]
_DOCKER: Final = "https://w3id.org/ro/terms/workflow-run#DockerImage"
_SCHEMA: Final = "http://schema.org"
_FORMATS: Final = {
    "cwl": "application/yaml", "csv": "text/csv", "html": "text/html", "json": "application/json",
    "jsonld": "application/ld+json", "pdf": "application/pdf", "png": "image/png",
    "svg": "image/svg+xml", "tsv": "text/tab-separated-values", "txt": "text/plain",
}  # fmt: skip
"""Media types of files by the ends of their names."""
Entity = dict[str, Any]
_LANGUAGES: Final[dict[str, Entity]] = {
    "cwl": {
        "@id": "https://w3id.org/workflowhub/workflow-ro-crate#cwl", "@type": "ComputerLanguage",
        "name": "Common Workflow Language", "alternateName": "CWL",
        "identifier": {"@id": "https://w3id.org/cwl/v1.2/"},
        "url": {"@id": "https://www.commonwl.org/"}, "version": "v1.2",
    },
    "lading": {
        "@id": "#batch", "@type": "ComputerLanguage", "name": "Lading batch",
        "identifier": "container_requests/batch",
        "description": "Body of the call container_requests/batch, which submits all steps.",
    },
}  # fmt: skip
_NAMES: Final = {
    "records": "Record of the API", "logs": "Log", "manifests": "Manifest of a collection",
    "blocks": "Block",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CrateStep:
    """A request that has run, as the API shows it, with its container; `agent`: the user's name.

    `evidence`: what the API says of other runs, {} if nothing.
    """

    request: Mapping[str, Any]
    container: Mapping[str, Any]
    agent: str = ""
    evidence: Mapping[str, Any] | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CrateWorkflow:
    """The file that describes the steps, and its language: `cwl` or `lading`."""

    path: str
    language: str


class CrateGraph:
    """Makes the entities of a crate. `with_data`: the files of inputs and outputs are in it."""

    def __init__(
        self,
        *,
        images: Mapping[str, CrateImage],
        with_data: bool = False,
        workflow: CrateWorkflow | None = None,
    ) -> None:
        self._images, self._with_data, self._workflow = images, with_data, workflow
        self._recorded: set[str] = set()
        self._parts: list[str] = []
        self._actions: list[str] = []
        self._tools: dict[str, None] = {}
        self._steps: list[str] = []
        self._controls: list[str] = []
        self._inputs: dict[str, None] = {}
        self._produced: set[str] = set()
        self._last = ""
        self._from, self._to = "", ""
        self._agent = ""

    def file(self, file: CrateFile) -> Iterator[Entity]:
        """The entity of a file."""
        self._parts.append(escaped(file.path))
        if self._workflow is None or file.path != self._workflow.path:
            yield from self._new(_file(file))

    def content(self, pdh: str, paths: list[str], *, is_image: bool) -> Iterator[Entity]:
        """The entity of a content whose files are in the crate, to which references have been made
        before; `is_image`: it is no input or output. None for one without files, which has no
        directory in the crate.
        """
        if not paths:
            return
        self._parts.append(f"data/{pdh}/")
        entity = {
            **_dataset(pdh, with_data=True),
            "hasPart": [{"@id": escaped(path)} for path in paths],
        }
        if is_image:
            entity |= {"description": "The archive of an image.", "about": {"@id": f"#image-{pdh}"}}
        yield entity

    def step(self, step: CrateStep) -> Iterator[Entity]:
        """The entities of a step; none new for a container that an earlier step has too."""
        uuid = str(step.container["uuid"])
        image = _image(str(step.container["container_image"]), self._images)
        tool = _tool(step.container, image)
        person = _agent(step.request, step.agent)
        objects = [*_objects(step.container, self._with_data), *_secrets(step)]
        yield from self._new(image)
        yield from self._new(tool)
        yield from self._new(person)
        output = str(step.container["output"] or "")
        contents = [_dataset(output, self._with_data)] if output else []
        for entity in (*objects, *contents):
            # The entity of a content whose files are in the crate is made with them.
            if entity["@type"] != "Dataset" or not _has_directory(
                entity["identifier"], self._with_data
            ):
                yield from self._new(entity)
        is_recorded = f"#{uuid}" in self._recorded
        yield from self._new(_action(step, tool, image, person, objects, self._with_data))
        if not is_recorded:
            self._actions.append(f"#{uuid}")
        self._tools[tool["@id"]] = None
        self._note(step, output, person["@id"])
        if self._workflow is not None:
            yield from self._as_workflow_step(step, tool)

    def finish(
        self, *, name: str, published: str, version: str, license_text: str
    ) -> Iterator[Entity]:
        """The last entities: the workflow and its run, the crate itself, and its metadata.

        `published`: the present time, as ISO 8601. `version`: that of Lading.
        """
        profiles = [_PROCESS]
        maker = {
            "@id": "#lading", "@type": "SoftwareApplication", "name": "Lading", "version": version,
        }  # fmt: skip
        mentions = list(self._actions)
        root: Entity = {
            "@id": "./",
            "@type": "Dataset",
            "name": name,
            "description": f"Commands that ran for {name}, as Lading has recorded it.",
            "datePublished": published,
            "license": license_text,
        }
        if self._workflow is not None:
            profiles += _WORKFLOW
            root["mainEntity"] = {"@id": self._workflow.path}
            mentions = ["#run", "#organize", *mentions]
            yield from self._workflow_entities(self._workflow, name)
        root |= {
            "conformsTo": [{"@id": profile} for profile, _, _ in profiles],
            "mentions": [{"@id": mention} for mention in mentions],
            "hasPart": [{"@id": path} for path in self._parts],
        }
        yield {
            "@id": METADATA,
            "@type": "CreativeWork",
            "about": {"@id": "./"},
            "conformsTo": [
                {"@id": _CRATE}, *([{"@id": _WORKFLOW[-1][0]}] if self._workflow else ()),
            ],
            "sdPublisher": {"@id": "#lading"},
        }  # fmt: skip
        yield root
        yield maker
        for uri, title, number in profiles:
            yield {"@id": uri, "@type": "CreativeWork", "name": title, "version": number}

    def _new(self, entity: Entity) -> Iterator[Entity]:
        if entity["@id"] not in self._recorded:
            self._recorded.add(entity["@id"])
            yield entity

    def _note(self, step: CrateStep, output: str, agent: str) -> None:
        """Note what the whole run read and made, and when."""
        self._inputs |= {pdh: None for _, pdh, _ in inputs_of(step.container)}
        if output:
            self._produced.add(output)
            self._last = output
        self._agent = agent
        started = str(step.container["started_at"] or "")
        if started and (not self._from or started < self._from):
            self._from = started
        self._to = max(self._to, str(step.container["finished_at"] or ""))

    def _as_workflow_step(self, crate_step: CrateStep, tool: Entity) -> Iterator[Entity]:
        request, uuid = crate_step.request, str(crate_step.container["uuid"])
        step = f"#step-{request['uuid']}"
        self._steps.append(step)
        self._controls.append(f"#control-{request['uuid']}")
        yield from self._new(
            {
                "@id": step,
                "@type": "HowToStep",
                "name": str(request["name"] or request["uuid"]),
                "position": str(len(self._steps)),
                "workExample": {"@id": tool["@id"]},
            }
        )
        yield from self._new(
            {
                "@id": self._controls[-1],
                "@type": "ControlAction",
                "name": f"orchestrate {request['name'] or request['uuid']}",
                "instrument": {"@id": step},
                "object": {"@id": f"#{uuid}"},
            }
        )

    def _workflow_entities(self, workflow: CrateWorkflow, name: str) -> Iterator[Entity]:
        inputs = [pdh for pdh in self._inputs if pdh not in self._produced and pdh != EMPTY_PDH]
        language = _LANGUAGES[workflow.language]
        yield language
        yield {
            "@id": workflow.path,
            "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
            "name": f"Workflow of {name}",
            "programmingLanguage": {"@id": language["@id"]},
            "hasPart": [{"@id": tool} for tool in self._tools],
            "step": [{"@id": step} for step in self._steps],
            "input": [{"@id": f"#input-{pdh}"} for pdh in inputs],
            "output": [{"@id": f"#output-{self._last}"}] if self._last else [],
        }
        for pdh in inputs:
            yield self._parameter("input", pdh)
        if self._last:
            yield self._parameter("output", self._last)
        yield self._workflow_run(workflow, name, inputs)
        yield {
            "@id": "#organize",
            "@type": "OrganizeAction",
            "name": f"Run of Lading for {name}",
            "instrument": {"@id": "#lading"},
            "object": [{"@id": control} for control in self._controls],
            "result": {"@id": "#run"},
        }

    def _parameter(self, kind: str, pdh: str) -> Entity:
        """A formal parameter of the workflow, `kind` "input" or "output", with its content."""
        return {
            "@id": f"#{kind}-{pdh}",
            "@type": "FormalParameter",
            "name": f"{kind} {pdh[:8]}",
            "additionalType": "Dataset",
            "conformsTo": {"@id": "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"},
            "workExample": {"@id": _place(pdh, self._with_data)},
        }

    def _workflow_run(self, workflow: CrateWorkflow, name: str, inputs: Sequence[str]) -> Entity:
        run = {
            "@id": "#run",
            "@type": "CreateAction",
            "name": f"Run of {name}",
            "instrument": {"@id": workflow.path},
            "agent": {"@id": self._agent},
            "startTime": self._from,
            "endTime": self._to,
            "object": [{"@id": _place(pdh, self._with_data)} for pdh in inputs],
            "result": [{"@id": _place(self._last, self._with_data)}] if self._last else [],
        }
        return {name: value for name, value in run.items() if value not in ("", [])}


def inputs_of(container: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Target, hash and path of each collection that the container mounts."""
    for target, mount in sorted((container["mounts"] or {}).items()):
        pdh = mount.get("portable_data_hash")
        if mount.get("kind") == "collection" and pdh and is_pdh(pdh):
            yield target, pdh, mount.get("path") or ""


def user_of(request: Mapping[str, Any]) -> str:
    """The uuid of the user who asked for a request."""
    return str(request.get("committed_by_uuid") or request["owner_uuid"])


def _action(
    step: CrateStep,
    tool: Entity,
    image: Entity,
    person: Entity,
    objects: list[Entity],
    with_data: bool,
) -> Entity:
    request, container = step.request, step.container
    uuid, command = str(container["uuid"]), [*(container["command"] or ())]
    output = str(container["output"] or "")
    evidence = step.evidence or {}
    action: Entity = {
        "@id": f"#{uuid}",
        "@type": "CreateAction",
        "name": request["name"] or shlex.join(command) or uuid,
        "description": shlex.join(command),
        "startTime": container["started_at"],
        "endTime": container["finished_at"],
        "instrument": {"@id": tool["@id"]},
        "containerImage": {"@id": image["@id"]},
        "agent": {"@id": person["@id"]},
        "object": [{"@id": entity["@id"]} for entity in objects],
        "result": [{"@id": _place(output, with_data)}] if output else [],
        "subjectOf": [{"@id": f"records/{request['uuid']}.json"}, {"@id": f"records/{uuid}.json"}],
        "disambiguatingDescription": (
            f"Reproduced {evidence['reproduced']} of {evidence['of']} times."
            if evidence.get("of")
            else ""
        ),
        **_end(container),
    }
    return {name: value for name, value in action.items() if value not in (None, "", [])}


def _tool(container: Mapping[str, Any], image: Entity) -> Entity:
    command = [*(container["command"] or ())]
    program = command[0] if command else "(that of the image)"
    return {
        "@id": f"#tool-{container['container_image']}-{program}",
        "@type": "SoftwareApplication",
        "name": program,
        "softwareRequirements": {"@id": image["@id"]},
    }


def _objects(container: Mapping[str, Any], with_data: bool) -> Iterator[Entity]:
    """Inputs with their paths in the container, and the environment."""
    uuid = container["uuid"]
    for target, pdh, path in inputs_of(container):
        yield _dataset(pdh, with_data)
        yield _property(f"#{uuid}-mount-{target}", target, f"{pdh}/{path}" if path else pdh)
    for name, value in sorted((container["environment"] or {}).items()):
        yield _property(f"#{uuid}-environment-{name}", name, value)


def _secrets(step: CrateStep) -> Iterator[Entity]:
    """The secrets that the command needed, by their names."""
    for name in needed_names(step.request.get("secrets_needed") or ()):
        key = f"#{step.container['uuid']}-secret-{name}"
        yield _property(key, name, "(a secret, which no record has)")


def _end(container: Mapping[str, Any]) -> Entity:
    if container["state"] == "Complete" and container["exit_code"] == 0:
        return {"actionStatus": f"{_SCHEMA}/CompletedActionStatus"}
    said = (container["runtime_status"] or {}).get("error")
    return {
        "actionStatus": f"{_SCHEMA}/FailedActionStatus",
        "error": str(said or f"exit code {container['exit_code']}"),
    }


def _has_directory(pdh: str, with_data: bool) -> bool:
    """Whether the crate has a directory of a content: an empty one has no files to make it."""
    return with_data and pdh != EMPTY_PDH


def _place(pdh: str, with_data: bool) -> str:
    return f"data/{pdh}/" if _has_directory(pdh, with_data) else f"#content-{pdh}"


def _dataset(pdh: str, with_data: bool) -> Entity:
    return {
        "@id": _place(pdh, with_data),
        "@type": "Dataset",
        "name": pdh,
        "identifier": pdh,
        "description": _description(pdh, with_data),
        "subjectOf": {"@id": f"manifests/{pdh}.txt"},
    }


def _description(pdh: str, with_data: bool) -> str:
    if pdh == EMPTY_PDH:
        return "It has no files."
    return "The files are in this crate." if with_data else "Only its manifest is in this crate."


def _file(file: CrateFile) -> Entity:
    name = _NAMES.get(file.path.split("/", 1)[0], file.path.rsplit("/", 1)[-1])
    entity = {
        "@id": escaped(file.path),
        "@type": "File",
        "name": name,
        "contentSize": str(file.size),
        "sha256": file.sha256,
        "encodingFormat": _FORMATS.get(file.path.rpartition(".")[2], "application/octet-stream"),
    }
    if file.path != PROV:
        return entity
    return {
        **entity,
        "name": "Provenance in PROV-O",
        "conformsTo": {"@id": "http://www.w3.org/ns/prov-o#"},
    }


def _image(pdh: str, images: Mapping[str, CrateImage]) -> Entity:
    image = images.get(pdh, CrateImage())
    entity: Entity = {
        "@id": f"#image-{pdh}",
        "@type": "ContainerImage",
        "additionalType": {"@id": _DOCKER},
        "name": image.names[0] if image.names else pdh,
        "identifier": pdh,
    }
    return {**entity, "sha256": image.sha256} if image.sha256 else entity


def _agent(request: Mapping[str, Any], name: str) -> Entity:
    uuid = user_of(request)
    return {"@id": f"#{uuid}", "@type": "Person", "name": name or uuid}


def _property(key: str, name: str, value: object) -> Entity:
    return {"@id": key, "@type": "PropertyValue", "name": name, "value": str(value)}
