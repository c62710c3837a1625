"""Why a request got the container it got: the decision, each candidate's reason, and what differs from the nearest one.

Explanations are plain JSON, made where the decision is made, so that they can be stored with it and shown later.
Secrets are never shown: that they differ is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lading.core.container import Container
from lading.core.jsonvalue import Json, JsonObject
from lading.core.recipe import Recipe
from lading.core.request import ContainerRequest
from lading.core.reuse import Choice


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One place where two recipes differ: "mounts./in.portable_data_hash", "command[3]"; absent is None."""

    field: str
    ours: Json
    theirs: Json


@dataclass(frozen=True, slots=True)
class Nearest:
    """The earlier container that is most like a recipe."""

    container: Container
    differences: tuple[FieldDifference, ...]


def differences(ours: Recipe, theirs: Recipe) -> tuple[FieldDifference, ...]:
    """Every compared field that differs, in the order of `recipe.COMPARED`; empty if the keys are equal."""
    raise NotImplementedError


def nearest(ours: Recipe, others: Iterable[Container]) -> Nearest | None:
    """The container with the fewest differences, the latest created of those; None if there are no others."""
    raise NotImplementedError


def explain(choice: Choice, *, container_uuid: str | None, near: Nearest | None = None) -> JsonObject:
    """The decision as plain JSON.

    {"decision": "reuse"|"new", "reason", "container_uuid", "candidates": [{"container_uuid", "state", "usable",
    "reason"}], "nearest": null | {"container_uuid", "state", "created_at", "differences": [{"field", "request",
    "container"}]}}. `container_uuid` is the container chosen or made (None in a preview of a new one).
    """
    raise NotImplementedError


def status_sentence(container: Container | None, dispatcher: str | None) -> str:
    """`scheduling_status` of container_status; `dispatcher` is the dispatcher's sentence, if it gave one."""
    raise NotImplementedError


def outcome(request: ContainerRequest, container: Container | None) -> str:
    """One sentence: how far the request has come, or how it ended."""
    raise NotImplementedError
