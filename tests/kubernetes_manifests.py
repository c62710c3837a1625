"""The objects of the kustomizations in deploy, as `kubectl kustomize` would print them: resources,
bases and patches of RFC 6902. ConfigMaps that it generates are left out.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[1] / "deploy"
KUSTOMIZATION = "kustomization.yaml"


def render(folder: Path) -> list[Any]:
    """All objects of a kustomization. Fails for a patch that fits no object."""
    listed = yaml.safe_load((folder / KUSTOMIZATION).read_text())
    objects: list[Any] = []
    for name in listed["resources"]:
        path = (folder / name).resolve()
        objects += render(path) if path.is_dir() else yaml.safe_load_all(path.read_text())
    for patch in listed.get("patches", []):
        target = patch["target"]
        (one,) = (
            each
            for each in objects
            if (each["kind"], each["metadata"]["name"]) == (target["kind"], target["name"])
        )
        for step in yaml.safe_load((folder / patch["path"]).read_text()):
            _apply(one, step)
    return objects


def _apply(document: Any, step: dict[str, Any]) -> None:
    """One operation of RFC 6902: add, replace or remove of a member."""
    *way, last = step["path"].removeprefix("/").split("/")
    place = document
    for name in way:
        place = place[int(name)] if isinstance(place, list) else place[name]
    if step["op"] != "add":
        assert last in place, f"{step['path']}: there is none"
    if step["op"] == "remove":
        del place[last]
    else:
        place[last] = copy.deepcopy(step["value"])
