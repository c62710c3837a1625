"""One document of a CWL workflow that was stored as several files.

`arvados-cwl-runner` stores the files of a workflow as a collection and submits a short document
that names them as `keep:HASH/PATH`. Packing puts the tools and workflows that are named into one
`$graph`, so that each step has an address in it, as the profile CWLProv and other programs want.

Sources: https://www.commonwl.org/v1.2/Workflow.html, sections "Packed documents" and "Identifier
resolution".
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lading.core.ids import is_pdh

_KEEP: Final = "keep:"
_MOST: Final = 100_000
"""Values of a packed workflow. Aliases of YAML make a short text a large value."""
_DEEPEST: Final = 100
_PROCESSES: Final = frozenset({"Workflow", "CommandLineTool", "ExpressionTool", "Operation"})
_REFERENCES: Final = ("$import", "$include", "$mixin")
_NUMBERED: Final = re.compile(r"(.+)_[0-9]+")
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowStep:
    """A step of a packed workflow that runs a tool. `id`: its address in the document, as
    `#main/sort`; `inputs`: the names of the tool's inputs.
    """

    id: str
    name: str
    inputs: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedWorkflow:
    """The document, and its steps by the addresses of their workflows.

    `missing`: documents, as `HASH/PATH`, that are named and were not given.
    """

    document: dict[str, Any]
    main: str
    steps: Mapping[str, tuple[WorkflowStep, ...]]
    missing: tuple[str, ...]


def pack(document: Document, documents: Mapping[str, Any], *, directory: str) -> PackedWorkflow:
    """Pack a document with the documents that it names, if `documents` has them by `HASH/PATH`.

    Documents that cannot be packed, and other files, are named relative to `directory`, that
    of the collections. Raises ValueError for a document that is too large or no CWL.
    """
    packing = _Packing(
        documents=documents, directory=directory, version=str(document.get("cwlVersion") or "")
    )
    packing.measure(document, 0)
    graph = _graph(document)
    main = _main(graph)
    ids = [
        _id(process) or (f"#{number}" if number else main) for number, process in enumerate(graph)
    ]
    # All of them first: what is packed besides must get other ids.
    packing.taken.update(ids)
    for id, process in zip(ids, graph, strict=True):
        packing.process(process, id, "")
    extensions = {name: value for name, value in document.items() if name.startswith("http")}
    packed = {
        "cwlVersion": packing.version,
        **extensions,
        **({"$namespaces": packing.namespaces} if packing.namespaces else {}),
        "$graph": packing.graph,
    }
    steps = {name: tuple(packing.leaves(some)) for name, some in packing.steps.items()}
    return PackedWorkflow(
        document=packed, main=main, steps=steps, missing=tuple(dict.fromkeys(packing.missing))
    )


def _graph(document: Document) -> list[dict[str, Any]]:
    """The processes of a document: those of its `$graph`, or itself. Raises ValueError."""
    graph = document.get("$graph", [document])
    if not isinstance(graph, list) or not all(isinstance(process, dict) for process in graph):
        raise ValueError("$graph is no list of documents")
    return graph


def find_step(
    workflow: PackedWorkflow, name: str, input_names: Iterable[str]
) -> WorkflowStep | None:
    """The step of which a request of this name, with inputs of these names, is a run; None if that
    is not certain. The runner adds `_2` and so on to a name that it has used before.
    """
    every = [step for some in workflow.steps.values() for step in some]
    numbered = _NUMBERED.fullmatch(name)
    for candidate in (name, numbered[1] if numbered else name):
        named = [step for step in every if step.name == candidate]
        matching = [step for step in named if step.inputs.issuperset(input_names)] or named
        if len(matching) == 1:
            return matching[0]
    return every[0] if len(every) == 1 else None


def collections_of(value: Any) -> Iterator[str]:
    """The hashes of the collections that a document names as `keep:HASH/PATH`."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            if (named := _keep(node)) is not None:
                yield named.partition("/")[0]
        elif isinstance(node, Mapping):
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


@dataclass(frozen=True, slots=True)
class _Step:
    id: str
    name: str
    run: str


@dataclass(slots=True, kw_only=True)
class _Packing:
    documents: Mapping[str, Any]
    directory: str
    version: str
    graph: list[dict[str, Any]] = field(default_factory=list)
    namespaces: dict[str, Any] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    """Addresses of the documents that were packed, by `HASH/PATH`."""
    steps: dict[str, list[_Step]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    count: int = 0

    def measure(self, value: Any, depth: int) -> None:
        """Count the values of a document. Raises ValueError if there are too many."""
        self.count += 1
        if self.count > _MOST or depth > _DEEPEST:
            raise ValueError("has too many values")
        if isinstance(value, Mapping):
            for member in value.values():
                self.measure(member, depth + 1)
        elif isinstance(value, list):
            for member in value:
                self.measure(member, depth + 1)

    def process(self, source: Document, name: str, base: str) -> None:
        """Add a tool or a workflow at an address; `base`: the file that it is from."""
        moved = self._moved(source, base)
        self.namespaces |= moved.pop("$namespaces", None) or {}
        # Ontologies of formats are files that are not in the packed document.
        moved.pop("$schemas", None)
        moved.pop("cwlVersion", None)
        moved["id"] = name
        self.graph.append(moved)
        if moved.get("class") == "Workflow":
            moved["steps"] = list(self._steps(moved.get("steps"), name, base))

    def leaves(self, steps: Iterable[_Step]) -> Iterator[WorkflowStep]:
        """The steps that run no workflow."""
        processes = {process["id"]: process for process in self.graph}
        for step in steps:
            process = processes.get(step.run)
            if process is None or process.get("class") != "Workflow":
                inputs = frozenset(_names((process or {}).get("inputs")))
                yield WorkflowStep(id=step.id, name=step.name, inputs=inputs)

    def _steps(self, steps: Any, workflow: str, base: str) -> Iterator[dict[str, Any]]:
        listed = (
            [{**step, "id": name} for name, step in steps.items() if isinstance(step, dict)]
            if isinstance(steps, dict)
            else [step for step in steps or () if isinstance(step, dict)]
        )
        for step in listed:
            own = str(step.get("id") or "")
            short = own.rpartition("/")[2].removeprefix("#")
            full = own if own.startswith("#") else f"{workflow}/{short}"
            run = self._run(step.get("run"), full, base)
            self.steps.setdefault(workflow, []).append(
                _Step(full, short, run if isinstance(run, str) else "")
            )
            yield {**step, "id": full, "run": run}

    def _run(self, run: Any, step: str, base: str) -> Any:
        if isinstance(run, dict):
            if run.get("class") not in _PROCESSES:
                return run
            name = self._free(f"{step}/run")
            self.process(run, name, base)
            return name
        if not isinstance(run, str) or (run.startswith("#") and not base):
            return run
        key = _joined(run, base)
        if key is None:
            return run
        if key not in self.names:
            document = self.documents.get(key)
            if not isinstance(document, dict) or not self._can_pack(document):
                if document is None and "#" not in key:
                    self.missing.append(key)
                return f"{self.directory}/{key}"
            self.measure(document, 0)
            # Noted before its steps are looked at: a document that names itself ends here.
            self.names[key] = self._free(f"#{posixpath.basename(key)}")
            self.process(document, self.names[key], key)
        return self.names[key]

    def _can_pack(self, document: Document) -> bool:
        has_version = document.get("cwlVersion") in (None, self.version)
        return document.get("class") in _PROCESSES and has_version

    def _free(self, name: str) -> str:
        free, number = name, 1
        while free in self.taken:
            number += 1
            free = f"{name}_{number}"
        self.taken.add(free)
        return free

    def _moved(self, value: Any, base: str) -> Any:
        """A copy in which files are named relative to the new place."""
        if isinstance(value, list):
            return [self._moved(item, base) for item in value]
        if not isinstance(value, Mapping):
            return value
        moved = {name: self._moved(member, base) for name, member in value.items()}
        is_file = value.get("class") in ("File", "Directory")
        for name in ("location", "path") if is_file else _REFERENCES:
            target = moved.get(name)
            if isinstance(target, str) and (key := _joined(target, base)) is not None:
                moved[name] = f"{self.directory}/{key}"
        return moved


def _main(graph: list[Any]) -> str:
    ids = [_id(process) for process in graph]
    return "#main" if "#main" in ids or not ids or not ids[0] else ids[0]


def _id(process: Mapping[str, Any]) -> str:
    told = process.get("id")
    if not isinstance(told, str) or not told:
        return ""
    return f"#{told.rpartition('#')[2]}"


def _joined(reference: str, base: str) -> str | None:
    """A reference in the file `base` as `HASH/PATH`; None for one of another kind."""
    if (found := _keep(reference)) is not None:
        return found
    if not base or "://" in reference or reference.startswith(("/", "_:", "#")):
        return None
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(base), reference))
    # It must not leave its collection.
    return joined if joined.startswith(f"{base.partition('/')[0]}/") else None


def _keep(reference: str) -> str | None:
    if not reference.startswith(_KEEP):
        return None
    pdh, _, path = reference.removeprefix(_KEEP).partition("/")
    path = posixpath.normpath(path)
    if not is_pdh(pdh) or path.startswith((".", "/")):
        return None
    return f"{pdh}/{path}"


def _names(inputs: Any) -> Iterator[str]:
    if isinstance(inputs, Mapping):
        yield from (str(input_name) for input_name in inputs)
    elif isinstance(inputs, list):
        for parameter in inputs:
            name = parameter.get("id") if isinstance(parameter, dict) else None
            yield str(name or "").rpartition("/")[2].removeprefix("#")
