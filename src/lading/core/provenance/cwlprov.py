"""The run of a CWL workflow in the profile CWLProv 0.6: its records of PROV, and the manifest of
its research object. Records are made step by step; the names of known ones are kept alone.

Sources: https://w3id.org/cwl/prov/0.6.0 and https://w3id.org/ro/bagit/profile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lading.core.provenance.cwl_entities import ValueEntities, derived_uuid
from lading.core.provenance.cwl_packing import PackedWorkflow, WorkflowStep
from lading.core.provenance.cwl_values import StoredFile, data_path
from lading.core.provenance.prov_records import (
    ProvAttribute,
    ProvRecord,
    QualifiedName,
    element,
    qualified,
    relation,
    types,
)
from lading.core.provenance.run_crate import CrateStep, user_of
from lading.core.provenance.uris import escaped

CWLPROV: Final = "https://w3id.org/cwl/prov/0.6.0"
RO_BAGIT: Final = "https://w3id.org/ro/bagit/profile"
PACKED: Final = "workflow/packed.cwl"
JOB: Final = "workflow/primary-job.json"
OUTPUTS: Final = "workflow/primary-output.json"
PROV_N: Final = "metadata/provenance/primary.cwlprov.provn"
PROV_JSON: Final = "metadata/provenance/primary.cwlprov.json"
SNAPSHOT: Final = "snapshot"
_TEXT: Final = 'text/plain; charset="UTF-8"'
_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    PACKED: ("application/json", "https://w3id.org/cwl/"),
    PROV_N: (
        'text/provenance-notation; charset="UTF-8"',
        "http://www.w3.org/TR/2013/REC-prov-n-20130430/",
    ),
    PROV_JSON: ("application/json", "http://www.w3.org/Submission/2013/SUBM-prov-json-20130424/"),
}  # fmt: skip


def prefixes(run: str) -> dict[str, str]:
    """The namespaces of the records; `run`: the uuid of the run."""
    root = f"arcp://uuid,{run}/"
    return {
        "wfprov": "http://purl.org/wf4ever/wfprov#",
        "wfdesc": "http://purl.org/wf4ever/wfdesc#",
        "wf4ever": "http://purl.org/wf4ever/wf4ever#",
        "ro": "http://purl.org/wf4ever/ro#",
        "cwlprov": "https://w3id.org/cwl/prov#",
        "foaf": "http://xmlns.com/foaf/0.1/",
        "schema": "http://schema.org/",
        "lading": "urn:lading:",
        "id": "urn:uuid:",
        "data": "urn:hash::sha1:",
        "researchobject": root,
        "wf": f"{root}{PACKED}#",
    }


class WorkflowRun:
    """Makes the records of a run. `runner`: the request that has run the workflow."""

    def __init__(self, runner: CrateStep, workflow: PackedWorkflow, *, version: str) -> None:
        self._workflow, self._runner, self._version = workflow, runner, version
        self.uuid = derived_uuid(f"urn:lading:{runner.request['uuid']}")
        self.agent, self.user = runner.agent, user_of(runner.request)
        self._run = qualified("id", self.uuid)
        self.engine = derived_uuid(f"urn:lading:{runner.container['uuid']}#engine")
        self._entities = ValueEntities()

    def begin(self, inputs: Mapping[str, Any]) -> Iterator[ProvRecord]:
        """Records of the user, the workflow and its inputs; `inputs`: values with the files of the
        bag.
        """
        runner, container = self._runner, self._runner.container
        person = qualified("id", derived_uuid(f"urn:lading:{user_of(runner.request)}"))
        engine = qualified("id", self.engine)
        yield element(
            "agent",
            person,
            [
                *types("prov:Person", "schema:Person"),
                ProvAttribute("prov:label", runner.agent or user_of(runner.request)),
                ProvAttribute("foaf:name", runner.agent or user_of(runner.request)),
                ProvAttribute("lading:user", user_of(runner.request)),
            ],
        )
        yield element(
            "agent",
            engine,
            [
                *types("prov:SoftwareAgent", "wfprov:WorkflowEngine"),
                ProvAttribute("prov:label", f"arvados-cwl-runner on Lading {self._version}"),
            ],
        )
        yield relation("actedOnBehalfOf", engine, person)
        main = self._plan(self._workflow.main)
        label = f"Run of {PACKED}{self._workflow.main}"
        yield from self._activity(self._run, "wfprov:WorkflowRun", label, runner, starter=engine)
        yield relation("wasAssociatedWith", self._run, engine, main)
        yield from self._plans()
        yield from self._flow("used", self._run, main, inputs, container["started_at"])

    def step(
        self, step: CrateStep, plan: WorkflowStep | None, inputs: Any, outputs: Any
    ) -> Iterator[ProvRecord]:
        """A step that a container has run. `plan`: of which step of the workflow, if known."""
        name = str(step.request["name"] or step.request["uuid"])
        step_id = plan.id if plan is not None else f"{self._workflow.main}/{name}"
        activity = qualified("id", derived_uuid(f"urn:lading:{step.request['uuid']}"))
        label = f"Run of {PACKED}{step_id}"
        yield from self._activity(activity, "wfprov:ProcessRun", label, step, starter=self._run)
        step_plan = self._plan(plan.id) if plan is not None else ""
        yield relation("wasAssociatedWith", activity, qualified("id", self.engine), step_plan)
        image = str(step.container["container_image"])
        agent = qualified("id", derived_uuid(f"urn:lading:{image}"))
        label = f"Container execution of image {image}"
        yield from self._entities.new(
            element(
                "agent",
                agent,
                [
                    *types("prov:SoftwareAgent"),
                    ProvAttribute("cwlprov:image", image),
                    ProvAttribute("prov:label", label),
                ],
            )
        )
        yield relation("wasAssociatedWith", activity, agent)
        role = self._plan(step_id)
        yield from self._flow("used", activity, role, inputs, step.container["started_at"])
        yield from self._flow(
            "wasGeneratedBy", activity, role, outputs, step.container["finished_at"]
        )

    def finish(self, outputs: Any) -> Iterator[ProvRecord]:
        """Records of the outputs of the whole workflow."""
        main = self._plan(self._workflow.main)
        at = self._runner.container["finished_at"]
        yield from self._flow("wasGeneratedBy", self._run, main, outputs, at)

    def _activity(
        self, key: str, kind: str, label: str, step: CrateStep, *, starter: str
    ) -> Iterator[ProvRecord]:
        container = step.container
        started = str(container["started_at"] or "")
        finished = str(container["finished_at"] or "")
        identifiers = {
            "lading:request": step.request["uuid"],
            "lading:container": container["uuid"],
        }
        attributes = [
            *types(kind),
            ProvAttribute("prov:label", label),
            *(ProvAttribute(name, str(value)) for name, value in identifiers.items()),
        ]
        if container["exit_code"] is not None:
            attributes.append(ProvAttribute("lading:exitCode", int(container["exit_code"])))
        times = {"prov:startTime": started, "prov:endTime": finished}
        yield ProvRecord(
            kind="activity",
            key=key,
            arguments={name: time for name, time in times.items() if time},
            attributes=tuple(attributes),
        )
        yield relation("wasStartedBy", key, "", starter, started)
        yield relation("wasEndedBy", key, "", starter, finished)

    def _plans(self) -> Iterator[ProvRecord]:
        for process in self._workflow.document["$graph"]:
            steps = process.get("steps") or () if process.get("class") == "Workflow" else ()
            parts = [self._plan(str(step["id"])) for step in steps]
            yield element(
                "entity",
                self._plan(str(process["id"])),
                [
                    *types("prov:Plan", "wfdesc:Workflow" if parts else "wfdesc:Process"),
                    ProvAttribute("prov:label", "Prospective provenance"),
                    *(ProvAttribute("wfdesc:hasSubProcess", subprocess) for subprocess in parts),
                ],
            )
            for subprocess in parts:
                yield element("entity", subprocess, types("prov:Plan", "wfdesc:Process"))

    def _plan(self, address: str) -> QualifiedName:
        return qualified("wf", address.removeprefix("#"))

    def _flow(
        self, kind: str, activity: str, parent: QualifiedName, values: Any, at: object
    ) -> Iterator[ProvRecord]:
        """Records of the values that an activity used or made, by the names of parameters."""
        for name, value in sorted((values if isinstance(values, Mapping) else {}).items()):
            if value is None:
                continue
            _, _, local = parent.partition(":")
            role = QualifiedName(f"{parent}/{qualified('wf', name).partition(':')[2]}")
            key = yield from self._entities.value(value, f"{activity} {kind} {local}/{name}")
            first, second = (activity, key) if kind == "used" else (key, activity)
            roles = [ProvAttribute("prov:role", role)]
            yield relation(kind, first, second, str(at or ""), attributes=roles)


class BagManifest:
    """The manifest of the research object. `published`: when it was made, as ISO 8601."""

    def __init__(self, run: WorkflowRun, *, published: str, version: str) -> None:
        self._run, self._published = run, published
        self._maker = {"uri": f"urn:uuid:{run.engine}", "name": f"Lading {version}"}

    def data(self, file: StoredFile) -> dict[str, Any]:
        """The entry of a content in the bag."""
        folder, _, name = data_path(file.sha1).rpartition("/")
        return {
            "uri": f"urn:hash::sha1:{file.sha1}",
            "bundledAs": {
                "uri": f"arcp://uuid,{self._run.uuid}/{folder}/{name}",
                "folder": f"/{folder}/",
                "filename": name,
            },
        }

    def file(self, path: str) -> dict[str, Any]:
        """The entry of another file."""
        mediatype, standard = _KINDS.get(path, (_mediatype(path), ""))
        entry: dict[str, Any] = {
            "uri": _relative(path),
            "mediatype": mediatype,
            "createdOn": self._published,
            "createdBy": self._maker,
        }
        if standard:
            own = [CWLPROV] if path.startswith("metadata/provenance/") else []
            entry["conformsTo"] = [standard, *own]
        return entry

    def rest(self) -> dict[str, Any]:
        """All members of the document besides its entries."""
        run, user = f"urn:uuid:{self._run.uuid}", self._run.user
        provenance = [_relative(path) for path in (PROV_N, PROV_JSON)]
        return {
            "@context": [
                {"@base": f"arcp://uuid,{self._run.uuid}/metadata/"},
                "https://w3id.org/bundle/context",
            ],
            "id": "/",
            "conformsTo": CWLPROV,
            "manifest": "manifest.json",
            "createdOn": self._published,
            "createdBy": self._maker,
            "authoredBy": {"uri": f"urn:lading:{user}", "name": self._run.agent or user},
            "annotations": [
                _annotation(run, "/", "oa:describing"),
                _annotation(run, provenance, "http://www.w3.org/ns/prov#has_provenance"),
                _annotation(_relative(PACKED), None, "oa:highlighting"),
                _annotation(run, [_relative(PACKED), _relative(JOB)], "oa:linking"),
            ],
        }


def bag_info(run: WorkflowRun, *, name: str, day: str, version: str) -> list[tuple[str, str]]:
    """The lines of `bag-info.txt`, without that of the size. `day`: as ISO 8601."""
    return [
        ("Bag-Software-Agent", f"Lading {version}"),
        ("BagIt-Profile-Identifier", RO_BAGIT),
        ("Bagging-Date", day),
        ("External-Description", f"Research Object of the CWL workflow run {name}"),
        ("External-Identifier", f"arcp://uuid,{run.uuid}/"),
    ]


def _annotation(about: str, content: Any, motive: str) -> dict[str, Any]:
    told = {} if content is None else {"content": content}
    return {"about": about, **told, "oa:motivatedBy": {"@id": motive}}


def _relative(path: str) -> str:
    """The path of a file as a URI relative to the directory `metadata`."""
    quoted = escaped(path)
    inside = quoted.removeprefix("metadata/")
    return inside if inside != quoted else f"../{quoted}"


def _mediatype(path: str) -> str:
    if path.endswith(".json"):
        return "application/json"
    return 'text/x+yaml; charset="UTF-8"' if path.endswith((".cwl", ".yml")) else _TEXT
