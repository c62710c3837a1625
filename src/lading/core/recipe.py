"""Recipes: what a request means today, without ambiguity; what a container is made of.

A request's image may be a tag and its inputs uuids; the recipe has content addresses only. Two requests with equal
`key` ask for the same computation; whether an existing container may stand for it is decided in `reuse`.

The key covers command, cwd, environment, output_path, output_glob, image, mounts, a digest of the secret mounts, and
the essential runtime constraints. It leaves out what cannot change the result (api-contract 1.6): the user, the
runtime token, names and lifetimes of outputs, priority, scheduling, cache sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lading.core.container import Container
from lading.core.jsonvalue import EMPTY_OBJECT_DIGEST, JsonObject
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
    raise NotImplementedError


def of_container(container: Container) -> Recipe:
    """The recipe that a container was made of (its secrets are wiped once it has ended)."""
    raise NotImplementedError


def key(recipe: Recipe) -> str:
    """The digest (hex) under which containers with this recipe are indexed, `Container.reuse_key`."""
    raise NotImplementedError


def new_container(recipe: Recipe, *, uuid: str, now: str) -> Container:
    """A Queued container made of `recipe`, priority 0, with its `reuse_key`."""
    raise NotImplementedError


def check_adoption(recipe: Recipe, container: Container, *, policy: Policy) -> None:
    """Whether a container chosen by hand satisfies the recipe. Raises Invalid naming the first field that differs."""
    raise NotImplementedError
