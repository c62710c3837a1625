"""Recipe of a committed request: hashes that the server has found replace names of images and
collections.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lading.core.containers import constraint_ranges, constraints
from lading.core.containers.attempts import spot
from lading.core.containers.constraints import Policy
from lading.core.containers.mounting import mount_resolution
from lading.core.containers.mounting.git_trees import ResolvedGitTree
from lading.core.containers.recipe import Recipe
from lading.core.containers.request import ContainerRequest
from lading.core.containers.steps import with_images
from lading.core.values import JsonObject, digest, ordered_object

# Scheduling parameters that a container does not have.
_OF_THE_REQUEST: Final = (constraints.RETRY, spot.SPOT_ATTEMPTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """Facts that the server looked up for a request, with its user's permissions.

    `image_pdh`: the portable data hash from `images.choose`. `hashes`, `trees`: see
    `mount_resolution.resolve`. `contents`: known contents of files and directories that mounts
    show, by target; see `mount_resolution.seen`. `step_images`: hashes of the images of steps, by
    the name in the request. `user_uuid` and `scopes`: of the runtime token if the request has one,
    else the user who committed it and ["all"].
    """

    image_pdh: str
    hashes: Mapping[str, str | None]
    user_uuid: str
    scopes: tuple[str, ...] = ("all",)
    trees: Mapping[str, tuple[ResolvedGitTree, ...]] = field(default_factory=dict)
    contents: Mapping[str, JsonObject] = field(default_factory=dict)
    step_images: Mapping[str, str] = field(default_factory=dict)


def resolve(request: ContainerRequest, facts: RequestFacts, *, policy: Policy) -> Recipe:
    """The present recipe of a committed request. Raises Invalid for an unreadable input."""
    return Recipe(
        command=request.command or [],
        container_image=facts.image_pdh,
        cwd=request.cwd,
        environment=ordered_object(request.environment),
        mounts=mount_resolution.resolve(request.mounts, facts.hashes, facts.trees),
        mount_contents=ordered_object(facts.contents),
        output_path=request.output_path or "",
        output_glob=request.output_glob,
        strict_output=request.strict_output,
        runtime_constraints=constraints.resolve(request.runtime_constraints, policy=policy),
        scheduling_parameters=ordered_object(
            {
                key: value
                for key, value in request.scheduling_parameters.items()
                if key not in _OF_THE_REQUEST
            }
        ),
        secret_mounts=ordered_object(request.secret_mounts),
        secret_mounts_md5=digest(request.secret_mounts),
        output_storage_classes=request.output_storage_classes,
        runtime_user_uuid=facts.user_uuid,
        runtime_auth_scopes=list(facts.scopes),
        runtime_token=request.runtime_token,
        service=request.service,
        published_ports=request.published_ports,
        steps=with_images(request.steps, facts.step_images) if request.steps else [],
        limits={
            key: value
            for key, value in request.runtime_constraints.items()
            if isinstance(value, list) and constraint_ranges.is_range(value)
        },
        alternatives={
            target: tuple(tree.mount for tree in resolved_trees)
            for target, resolved_trees in facts.trees.items()
        },
        match_resources=request.match_resources,
    )
