"""Recipes: what a request means today, without ambiguity; what a container is made of.

A request's image may be a tag and its inputs uuids; the recipe has content addresses only. Two requests with equal
`key` ask for the same computation; whether an existing container may stand for it is decided in `reuse`.

The key covers command, cwd, environment, output_path, output_glob, image, mounts, a digest of the secret mounts, and
the essential runtime constraints. It leaves out what cannot change the result (api-contract 1.6): the user, the
runtime token, names and lifetimes of outputs, priority, scheduling, cache sizes.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from lading.core import constraints, mounts
from lading.core.container import Container, State
from lading.core.errors import Invalid
from lading.core.jsonvalue import EMPTY_OBJECT_DIGEST, JsonObject, canonical, digest, ordered_object, same
from lading.core.policy import Policy
from lading.core.request import ContainerRequest

COMPARED = (
    "container_image",
    "command",
    "cwd",
    "environment",
    "mounts",
    "output_path",
    "output_glob",
    "runtime_constraints",
    "secret_mounts_md5",
)
"""What must agree for reuse, in the order in which differences are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that a new container is given."""

    command: list[str]
    container_image: str
    cwd: str
    environment: JsonObject
    mounts: JsonObject
    output_path: str
    output_glob: list[str]
    runtime_constraints: JsonObject
    scheduling_parameters: JsonObject
    secret_mounts: JsonObject = field(default_factory=dict, repr=False)
    secret_mounts_md5: str = EMPTY_OBJECT_DIGEST
    output_storage_classes: list[str] = field(default_factory=list)
    runtime_user_uuid: str | None = None
    runtime_auth_scopes: list[str] = field(default_factory=lambda: ["all"])
    runtime_token: str | None = field(default=None, repr=False)
    service: bool = False
    published_ports: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the server looked up for a request, as its user sees it.

    `image_pdh`: the portable data hash that `images.choose` gave. `hashes`: see `mounts.resolve`. `user_uuid` and
    `scopes`: of the runtime token if the request has one, else the user who committed it and ["all"].
    """

    image_pdh: str
    hashes: Mapping[str, str | None]
    user_uuid: str
    scopes: tuple[str, ...] = ("all",)


def resolve(request: ContainerRequest, facts: Facts, *, policy: Policy) -> Recipe:
    """The recipe that a committed request stands for now. Raises Invalid for an input that cannot be read."""
    return Recipe(
        command=request.command or [],
        container_image=facts.image_pdh,
        cwd=request.cwd,
        environment=ordered_object(request.environment),
        mounts=mounts.resolve(request.mounts, facts.hashes),
        output_path=request.output_path or "",
        output_glob=request.output_glob,
        runtime_constraints=constraints.resolve(request.runtime_constraints, policy=policy),
        scheduling_parameters=ordered_object(request.scheduling_parameters),
        secret_mounts=ordered_object(request.secret_mounts),
        secret_mounts_md5=digest(request.secret_mounts),
        output_storage_classes=request.output_storage_classes,
        runtime_user_uuid=facts.user_uuid,
        runtime_auth_scopes=list(facts.scopes),
        runtime_token=request.runtime_token,
        service=request.service,
        published_ports=request.published_ports,
    )


def of_container(container: Container) -> Recipe:
    """The recipe that a container was made of (its secrets are wiped once it has ended)."""
    return Recipe(**{one.name: getattr(container, one.name) for one in dataclasses.fields(Recipe)})


def compared(recipe: Recipe) -> JsonObject:
    """The values of COMPARED: two recipes are one computation if and only if these are equal."""
    values: JsonObject = {name: getattr(recipe, name) for name in COMPARED}
    return {**values, "runtime_constraints": constraints.essential(recipe.runtime_constraints)}


def key(recipe: Recipe) -> str:
    """The digest (hex) under which containers with this recipe are indexed, `Container.reuse_key`."""
    return hashlib.sha256(canonical(compared(recipe)).encode("utf-8", "surrogatepass")).hexdigest()


def new_container(recipe: Recipe, *, uuid: str, now: str) -> Container:
    """A Queued container made of `recipe`, priority 0, with its `reuse_key`."""
    given = {one.name: getattr(recipe, one.name) for one in dataclasses.fields(Recipe)}
    return Container(uuid=uuid, created_at=now, state=State.QUEUED, reuse_key=key(recipe), **given)


def check_adoption(recipe: Recipe, container: Container, *, policy: Policy) -> None:
    """Whether a container chosen by hand satisfies the recipe. Raises Invalid naming the first field that differs."""
    fault = f"Container uuid {container.uuid} does not satisfy the request"
    ours, theirs = compared(recipe), compared(of_container(container))
    for name in COMPARED:
        if not same(ours[name], theirs[name]):
            raise Invalid(f"{fault}: {name} differs")
    cache = constraints.cache_difference(recipe.runtime_constraints, container.runtime_constraints, policy=policy)
    if cache is not None:
        raise Invalid(f"{fault}: runtime_constraints.{cache} differs")
    if container.state is State.CANCELLED:
        raise Invalid(f"{fault}: it was cancelled")
