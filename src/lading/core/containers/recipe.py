"""Recipes: the unambiguous meaning of a request, from which a container is made.

A request's image may be a tag and its inputs uuids; the recipe has content addresses only. Two
requests with equal `key` ask for the same computation; whether an existing container may be used is
decided in `reuse`.

The key covers command, cwd, environment, output_path, output_glob, image, mounts, a digest of the
secret mounts, and the essential runtime constraints. It omits attributes that cannot change the
result (docs/spec/containers, section Reuse): the user, the runtime token, names and lifetimes of
outputs, priority, scheduling, cache sizes. The broad key omits `ram` and `vcpus` too. Neither has
`strict_output`, which changes no result that has all its entries: see `strictness_fault`.

A request may leave choices open: a range of sizes, a set of git trees, whether there is a network.
A recipe has the values for a new container, and the `limits` and `alternatives` within which an
existing one may differ; `toward` makes it as similar to a container as they allow, and then both
are compared directly.

Mounts are compared by the contents that the command sees: `mount_contents` has the content of
single files and of directories below a collection's root (`mount_resolution.seen`). The amounts of
ram and vcpus do not count for a container that succeeded, unless the request asks for it
(`match_resources`) or has a range.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
from msgspec import structs

from lading.core.containers import constraint_ranges, constraints
from lading.core.containers.constraints import Policy
from lading.core.containers.container import Container, ContainerState, omitted_of
from lading.core.containers.mounting import mount_resolution
from lading.core.errors import Invalid
from lading.core.hpc import gang as hpc_gang
from lading.core.values import (
    EMPTY_OBJECT_DIGEST,
    FieldDifference,
    JsonObject,
    canonical,
    differing,
    ordered_object,
    same,
)

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
"""Attributes that must be equal for reuse, in the order in which differences are named."""

NOT_COMPARED = (
    "user",
    "project",
    "name",
    "priority",
    "times and dependencies",
    "output name, lifetime, storage classes and properties",
    "scheduling (but nodes and launcher)",
    "cache sizes",
    "service and ports",
    "names of input files outside the container",
    "ram and vcpus of work that succeeded (unless match_resources, or a range, says so)",
)
"""Parts of a request that never count for reuse (docs/reuse.md)."""

# Writes the text of `canonical`, except for very large and small fractions, in half the time.
_ENCODER = msgspec.json.Encoder(order="sorted")
MAX_KEYS = 500
"""Maximum number of keys for one recipe; variants beyond it are not looked for."""

_SECRET = ("secret_mounts", "runtime_token")
_OPEN = ("limits", "alternatives", "match_resources")


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """All attributes of a new container.

    `limits` are the request's ranges of sizes; `alternatives` further acceptable mounts by target,
    the newest first. Both belong to the request: a container has its own `constraint_ranges`
    instead. `mount_contents`: see `mount_resolution.seen`.
    """

    command: list[str]
    container_image: str
    cwd: str
    environment: JsonObject
    mounts: JsonObject
    output_path: str
    output_glob: list[str]
    strict_output: bool = False
    runtime_constraints: JsonObject
    scheduling_parameters: JsonObject
    secret_mounts: JsonObject = msgspec.field(default_factory=dict)
    secret_mounts_md5: str = EMPTY_OBJECT_DIGEST
    mount_contents: JsonObject = msgspec.field(default_factory=dict)
    output_storage_classes: list[str] = msgspec.field(default_factory=list)
    runtime_user_uuid: str | None = None
    runtime_auth_scopes: list[str] = msgspec.field(default_factory=lambda: ["all"])
    runtime_token: str | None = None
    service: bool = False
    published_ports: JsonObject = msgspec.field(default_factory=dict)
    steps: list[JsonObject] = msgspec.field(default_factory=list)
    limits: JsonObject = msgspec.field(default_factory=dict)
    alternatives: Mapping[str, tuple[JsonObject, ...]] = msgspec.field(default_factory=dict)
    match_resources: bool = False

    def __repr__(self) -> str:
        """Every attribute but the secrets."""
        # A recipe can be part of an exception, and so of a log.
        shown = (name for name in self.__struct_fields__ if name not in _SECRET)
        return f"Recipe({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


GIVEN: tuple[str, ...] = tuple(name for name in Recipe.__struct_fields__ if name not in _OPEN)
"""The attributes that recipe and container share."""


def of_container(container: Container) -> Recipe:
    """The recipe of an existing container (secrets are erased once it has ended)."""
    made_of = Recipe(**{name: getattr(container, name) for name in GIVEN})
    return structs.replace(made_of, limits=container.constraint_ranges)


def compared(recipe: Recipe) -> JsonObject:
    """The values of COMPARED: two recipes are one computation if and only if these are equal."""
    values: JsonObject = {name: getattr(recipe, name) for name in COMPARED}
    if recipe.steps:
        # The first step has the command. Recipes without steps keep the keys that they had.
        values["command"] = [*recipe.steps]
    needs = constraints.essential(recipe.runtime_constraints)
    if not recipe.scheduling_parameters.keys().isdisjoint(hpc_gang.KEYS):
        needs |= hpc_gang.part_of_recipe(recipe.scheduling_parameters)
    return {
        **values,
        "mounts": mount_resolution.seen(recipe.mounts, recipe.mount_contents),
        "runtime_constraints": needs,
    }


def recipe_differences(ours: Recipe, theirs: Recipe) -> tuple[FieldDifference, ...]:
    """Every compared field that differs, in the order of `COMPARED`; empty if the keys are
    equal.
    """
    mine, other = compared(ours), compared(theirs)
    # In the order of COMPARED the most telling difference is first: it is what a user is shown.
    return tuple(
        difference for name in COMPARED for difference in differing(name, mine[name], other[name])
    )


def key(recipe: Recipe) -> str:
    """The digest (hex) under which containers with this recipe are indexed,
    `Container.reuse_key`.
    """
    return _digest(compared(recipe))


def broad_key(recipe: Recipe) -> str:
    """The digest (hex) of the recipe without ram and vcpus, an index of containers."""
    return _broad(compared(recipe))


@dataclass(frozen=True, slots=True)
class ReuseKey:
    """Index keys of the containers with one recipe: `exact` is None when any ram and vcpus are
    acceptable.
    """

    broad: str
    exact: str | None


def keys(recipe: Recipe) -> tuple[ReuseKey, ...]:
    """The keys of all containers that may satisfy the recipe, preferred ones first."""
    sized = recipe.match_resources and not any(
        name in recipe.limits for name in constraint_ranges.GROWING
    )
    # Sets of git trees multiply: without the limit two mounts of 1,000 commits would be a million
    # digests.
    variants = map(compared, itertools.islice(_variants(recipe), MAX_KEYS))
    return tuple(
        dict.fromkeys(
            ReuseKey(_broad(variant), _digest(variant) if sized else None) for variant in variants
        )
    )


def toward(recipe: Recipe, container: Container) -> Recipe:
    """The recipe, made as similar to the container as the request allows.

    The container satisfies the request if and only if `compared` of the two are then equal, and its
    caches are acceptable. A range that does not contain the container's amount stays as it is.
    """
    theirs = container.runtime_constraints
    sizes = dict(recipe.runtime_constraints)
    # Without a word about the network the request accepts either.
    if "internet" not in sizes and theirs.get("internet") is not None:
        sizes["internet"] = theirs["internet"]
    # Only a waiting container can still be given other sizes.
    room = container.constraint_ranges if container.state is ContainerState.QUEUED else {}
    for name in constraint_ranges.GROWING:
        if _is_any_size(recipe, container, name):
            sizes[name] = theirs.get(name)
            continue
        wanted = recipe.limits.get(name, sizes.get(name))
        offered = room.get(name, theirs.get(name))
        sizes[name] = (
            # A range without a common part stays as it is, and so shows as a difference.
            wanted if constraint_ranges.common_range(wanted, offered) is None else theirs.get(name)
        )
    chosen = {
        target: container.mounts[target]
        for target, several in recipe.alternatives.items()
        if any(same(container.mounts.get(target), mount) for mount in several)
    }
    mounted = ordered_object({**recipe.mounts, **chosen}) if chosen else recipe.mounts
    return structs.replace(
        recipe,
        runtime_constraints=ordered_object(sizes),
        mounts=mounted,
        mount_contents=_common_contents(recipe, container),
    )


def new_container(recipe: Recipe, *, uuid: str, now: str, priority: int = 0) -> Container:
    """A Queued container made of `recipe`, with its keys; of ranges it has the minimum."""
    # The keys are made of the minimum, which the container has until it is started with more.
    room = constraint_ranges.growth(recipe.limits) if recipe.limits else {}
    if room:
        sizes = constraint_ranges.least(recipe.runtime_constraints, room)
        recipe = structs.replace(recipe, runtime_constraints=sizes)
    values = compared(recipe)
    return Container(
        uuid=uuid,
        created_at=now,
        state=ContainerState.QUEUED,
        constraint_ranges=room,
        priority=priority,
        reuse_key=_digest(values),
        broad_key=_broad(values),
        **{name: getattr(recipe, name) for name in GIVEN},
    )


def enlarged(made_of: Recipe, ram: int) -> Recipe:
    """The recipe with so many bytes of ram, and with what is left of its range; unchanged when it
    has as much.
    """
    sizes, limits = made_of.runtime_constraints, dict(made_of.limits)
    low, high = constraint_ranges.range_span(limits.pop("ram", sizes.get("ram")))
    if ram <= low:
        return made_of
    if ram < high:
        limits["ram"] = [ram, high]
    return structs.replace(made_of, runtime_constraints={**sizes, "ram": ram}, limits=limits)


def resized(container: Container, sizes: JsonObject, room: JsonObject) -> JsonObject:
    """Changes of a container that gets these sizes, or these ranges for a later increase."""
    after = structs.replace(container, runtime_constraints=sizes)
    return {
        "runtime_constraints": sizes,
        "constraint_ranges": room,
        "reuse_key": key(of_container(after)),
    }


def joined(recipe: Recipe, container: Container) -> JsonObject:
    """Changes of a container that satisfies the recipe, when the request joins it.

    While it waits, its ranges narrow to the common part with the request's.
    """
    if container.state is not ContainerState.QUEUED or not container.constraint_ranges:
        return {}
    wanted = {**recipe.runtime_constraints, **recipe.limits}
    return resized(
        container,
        *constraint_ranges.narrowed(
            wanted, container.runtime_constraints, container.constraint_ranges
        ),
    )


def check_adoption(recipe: Recipe, container: Container, *, policy: Policy) -> None:
    """Check that a container chosen by hand satisfies the recipe. Raises Invalid naming the first
    field that differs.
    """
    fault = f"Container uuid {container.uuid} does not satisfy the request"
    # The same comparison as by key, but with the first difference for the message.
    ours, theirs = compared(toward(recipe, container)), compared(of_container(container))
    first = next(
        (
            difference
            for name in COMPARED
            for difference in differing(name, ours[name], theirs[name])
        ),
        None,
    )
    if first is not None:
        raise Invalid(f"{fault}: {first}")
    cache = cache_difference(recipe, container, policy=policy)
    if cache is not None:
        wanted, has = (
            recipe.runtime_constraints.get(cache),
            container.runtime_constraints.get(cache),
        )
        raise Invalid(f"{fault}: {FieldDifference(f'runtime_constraints.{cache}', wanted, has)}")
    if container.state is ContainerState.CANCELLED:
        raise Invalid(f"{fault}: it was cancelled")
    if strictness := strictness_fault(recipe, container):
        raise Invalid(f"{fault}: {strictness}")
    if container.withdrawn_at is not None:
        raise Invalid(f"{fault}: its result was withdrawn: {container.withdrawn_reason}")


def strictness_fault(recipe: Recipe, container: Container) -> str | None:
    """The reason why a container's output is not what the request accepts, or None. Of a finished
    one it counts whether entries were left out; one in progress ends as its own flag says.
    """
    if container.state is ContainerState.COMPLETE:
        omitted = omitted_of(container)
        if not recipe.strict_output or not omitted:
            return None
        entries = "an entry" if omitted == 1 else f"{omitted:,} entries"
        return (
            f"its output lacks {entries}, and strict_output of the request accepts no such output"
        )
    if recipe.strict_output == container.strict_output:
        return None
    if container.strict_output:
        return "it fails if an entry of its output cannot be saved (strict_output)"
    return "it may leave out entries of its output, and the request has strict_output"


def cache_difference(recipe: Recipe, container: Container, *, policy: Policy) -> str | None:
    """The cache key in which a container is not acceptable, or None."""
    wanted = {**recipe.runtime_constraints, **recipe.limits}
    return constraints.cache_difference(wanted, container.runtime_constraints, policy=policy)


def _is_any_size(recipe: Recipe, container: Container, name: str) -> bool:
    """Whether the container's amount of a resource does not count: its command succeeded with
    it.
    """
    succeeded = container.state is ContainerState.COMPLETE and container.exit_code == 0
    return succeeded and not recipe.match_resources and name not in recipe.limits


def _common_contents(recipe: Recipe, container: Container) -> JsonObject:
    """The contents of the recipe's mounts, but the container's where both mount the same path of
    the same collection: of one of them the content may not be known.
    """
    return {
        target: content
        for target in recipe.mounts
        if (
            content := (
                container if same(recipe.mounts[target], container.mounts.get(target)) else recipe
            ).mount_contents.get(target)
        )
        is not None
    }


def _variants(recipe: Recipe) -> Iterator[Recipe]:
    """All recipes that the request allows, apart from sizes, in the order of preference."""
    # Containers from before contents were stored are compared by their mounts.
    for contents in [recipe.mount_contents, {}] if recipe.mount_contents else [{}]:
        yield from _open_variants(structs.replace(recipe, mount_contents=contents))


def _open_variants(recipe: Recipe) -> Iterator[Recipe]:
    open_sizes = [recipe.runtime_constraints]
    if "internet" not in recipe.runtime_constraints:
        open_sizes.append({**recipe.runtime_constraints, "internet": True})
    targets = tuple(recipe.alternatives)
    for mounted in itertools.product(*(recipe.alternatives[target] for target in targets)):
        chosen = {**recipe.mounts, **dict(zip(targets, mounted, strict=True))}
        for sizes in open_sizes:
            yield structs.replace(recipe, mounts=chosen, runtime_constraints=sizes)


def _broad(values: JsonObject) -> str:
    sized = values["runtime_constraints"]
    assert isinstance(sized, dict)
    return _digest(
        {
            **values,
            # Sizes that may grow are in no broad key: containers of all sizes are found by it, and
            # judged one by one.
            "runtime_constraints": {
                k: v for k, v in sized.items() if k not in constraint_ranges.GROWING
            },
        }
    )


def _digest(values: JsonObject) -> str:
    try:
        text = _ENCODER.encode(values)
    # Lone surrogates, which msgspec does not encode.
    except UnicodeEncodeError:
        text = canonical(values).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()
