"""The runs of a crate in PROV-O, as JSON-LD: activities, entities, agents and their relations.

Source: https://www.w3.org/TR/prov-o/. Entities are made step by step, as those of `run_crate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lading.core.provenance.run_crate import CrateStep, Entity, inputs_of

_PROV: Final = "http://www.w3.org/ns/prov#"
_LABEL: Final = "rdfs:label"
PROV_CONTEXT: Final = {
    "prov": _PROV,
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "used": {"@id": "prov:used", "@type": "@id"},
    "wasGeneratedBy": {"@id": "prov:wasGeneratedBy", "@type": "@id"},
    "wasAssociatedWith": {"@id": "prov:wasAssociatedWith", "@type": "@id"},
    "wasInformedBy": {"@id": "prov:wasInformedBy", "@type": "@id"},
    "startedAtTime": {"@id": "prov:startedAtTime", "@type": "xsd:dateTime"},
    "endedAtTime": {"@id": "prov:endedAtTime", "@type": "xsd:dateTime"},
}
_COLLECTION: Final = "prov:Collection"


class ProvGraph:
    """Makes the nodes of the graph; nodes that are known are not repeated."""

    def __init__(self) -> None:
        self._recorded: set[str] = set()
        self._makers: dict[str, list[str]] = {}

    def step(self, step: CrateStep) -> Iterator[Entity]:
        """The nodes of a step; a request that has the container of an earlier one adds none."""
        container, request = step.container, step.request
        activity = _urn(container["uuid"])
        if activity in self._recorded:
            return
        self._recorded.add(activity)
        agent = _urn(request.get("committed_by_uuid") or request["owner_uuid"])
        image, used = _urn(container["container_image"]), _used(container)
        informed = [maker for content in used for maker in self._makers.get(content, ())]
        node: Entity = {
            "@id": activity,
            "@type": "prov:Activity",
            _LABEL: str(request["name"] or container["uuid"]),
            "startedAtTime": container["started_at"],
            "endedAtTime": container["finished_at"],
            "used": used,
            "wasAssociatedWith": agent,
            "wasInformedBy": list(dict.fromkeys(informed)),
        }
        yield {name: value for name, value in node.items() if value}
        yield from self._new({"@id": agent, "@type": "prov:Agent", _LABEL: step.agent or agent})
        for each in used:
            kind = ["prov:Entity", "prov:Plan"] if each == image else ["prov:Entity", _COLLECTION]
            yield from self._new({"@id": each, "@type": kind})
        if container["output"]:
            yield self._output(_urn(container["output"]), activity)

    def _output(self, content: str, activity: str) -> Entity:
        """The node of a content with the activity that made it, which is remembered.

        A content that several runs have made has a node for each: they add up in RDF.
        """
        self._makers.setdefault(content, []).append(activity)
        self._recorded.add(content)
        return {"@id": content, "@type": ["prov:Entity", _COLLECTION], "wasGeneratedBy": activity}

    def _new(self, node: Entity) -> Iterator[Entity]:
        if node["@id"] not in self._recorded:
            self._recorded.add(node["@id"])
            yield node


def _used(container: Mapping[str, Any]) -> list[str]:
    """The image and the inputs of a container, each once."""
    inputs = (_urn(pdh) for _, pdh, _ in inputs_of(container))
    return list(dict.fromkeys([_urn(container["container_image"]), *inputs]))


def _urn(name: object) -> str:
    return f"urn:lading:{name}"
