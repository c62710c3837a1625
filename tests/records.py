"""Factories of records for tests: the smallest request and container that are complete, with what a
test changes.
"""

from __future__ import annotations

from typing import Any, Final

from lading.core.containers import recipe, recipe_resolution, request
from lading.core.containers.constraints import Policy
from lading.core.containers.container import Container
from lading.core.containers.recipe import Recipe
from lading.core.containers.request import ContainerRequest
from lading.core.values import JsonObject

POLICY: Final = Policy()
NOW: Final = "2026-01-02T03:04:05.000006000Z"
IMAGE: Final = "fa3c1a9cb6783f85f2ecda037e07b8c3+167"
INPUT: Final = "1f4b0bc7583c2a7f9102c395f4ffc5e3+45"
USER: Final = "zzzzz-tpzed-aaaaaaaaaaaaaaa"


def request_uuid(number: int) -> str:
    """The uuid of the `number`th request."""
    return f"zzzzz-xvhdp-{number:015d}"


def container_uuid(number: int) -> str:
    """The uuid of the `number`th container."""
    return f"zzzzz-dz642-{number:015d}"


def attributes(**changes: Any) -> JsonObject:
    """What a client sends to create a request that can be committed."""
    sent: JsonObject = {
        "command": ["echo", "hello"],
        "container_image": IMAGE,
        "output_path": "/out",
        "mounts": {"/out": {"kind": "tmp", "capacity": 1000}},
        "runtime_constraints": {"ram": 1 << 30, "vcpus": 1},
        "priority": 1,
    }
    return {**sent, **changes}


def make_request(number: int = 1, **changes: Any) -> ContainerRequest:
    """A request as stored, made by `request.create` and then given `changes`."""
    made = request.create(
        attributes(),
        uuid=request_uuid(number),
        owner_uuid=USER,
        user_uuid=USER,
        now=NOW,
        policy=POLICY,
    )
    return ContainerRequest.from_record({**made.changed, **changes})


def make_recipe(**changes: Any) -> Recipe:
    """The recipe of a request with these attributes; every collection that it names can be read."""
    made = make_request(**changes)
    facts = recipe_resolution.RequestFacts(image_pdh=IMAGE, hashes={INPUT: INPUT}, user_uuid=USER)
    return recipe_resolution.resolve(made, facts, policy=POLICY)


def make_container(number: int = 1, **changes: Any) -> Container:
    """A Queued container of `make_recipe()`, then given `changes`."""
    fresh = recipe.new_container(make_recipe(), uuid=container_uuid(number), now=NOW)
    return Container.from_record({**fresh.to_record(), "priority": 10, **changes})
