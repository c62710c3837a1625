"""The steps of a crate as one body of `container_requests/batch`, which runs them all again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lading.core.containers.attempts.spot import RUN_TIME
from lading.core.containers.disk_space import DISK_FACTOR
from lading.core.provenance.run_crate import CrateStep

_RESOLVED: Final = ("command", "container_image", "cwd", "environment", "output_path")
_GIVEN: Final = ("runtime_constraints", "output_glob", "steps")
# Scheduling parameters that the server adds to containers, and no request may have.
_BY_SERVER = frozenset({DISK_FACTOR, RUN_TIME})


class BatchSteps:
    """Makes the items of the body. An input that an earlier step has made is its output."""

    def __init__(self) -> None:
        self._number = 0
        self._makers: dict[str, int] = {}

    def step(self, step: CrateStep) -> dict[str, Any]:
        """The attributes of a step; steps come in the order in which they were made."""
        container, request = step.container, step.request
        item = {
            "name": request["name"],
            **{name: container[name] for name in _RESOLVED},
            **{name: container[name] for name in _GIVEN if container.get(name)},
            "scheduling_parameters": _scheduling(container),
            "mounts": {
                target: self._mount(mount) for target, mount in (container["mounts"] or {}).items()
            },
            "state": "Committed",
            "priority": 500,
        }
        if container["output"]:
            self._makers.setdefault(str(container["output"]), self._number)
        self._number += 1
        return item

    def _mount(self, mount: Mapping[str, Any]) -> Mapping[str, Any]:
        maker = self._makers.get(str(mount.get("portable_data_hash")))
        if mount.get("kind") != "collection" or maker is None:
            return mount
        path = {"path": mount["path"]} if mount.get("path") else {}
        return {"kind": "output", "container_request": f"#{maker}", **path}


def _scheduling(container: Mapping[str, Any]) -> dict[str, Any]:
    """The scheduling parameters of a container that a request may have."""
    given = container.get("scheduling_parameters") or {}
    return {name: value for name, value in given.items() if name not in _BY_SERVER}


def cwl_of(container: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """The workflow and the input object that the container of `arvados-cwl-runner` was given; None
    for any other container.
    """
    documents = []
    for name in ("workflow.json", "cwl.input.json"):
        mount = (container["mounts"] or {}).get(f"/var/lib/cwl/{name}") or {}
        if mount.get("kind") != "json":
            return None
        documents.append(mount.get("content"))
    return documents[0], documents[1]
