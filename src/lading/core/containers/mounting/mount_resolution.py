"""Resolution of the mounts of a request to those of a container.

* Resolving changes collections and git trees. A collection keeps its portable data hash and loses
its uuid; with only a uuid the hash is looked up. A git tree keeps only the hash of the tree or
blob. So two names of one input give one container. Collections named in either way must be
readable.
* `output` is the output of another request, which need not have run: once that request has ended
well, the mount is resolved to the collection with its output.

See docs/spec/containers, section Mounts.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from lading.core.containers.mounting import git_trees
from lading.core.containers.mounting.mounts import (
    HASH_WITH_PATH,
    MountKind,
    has_kind,
    without_zero_values,
)
from lading.core.errors import Invalid
from lading.core.ids import EMPTY_PDH
from lading.core.values import Json, JsonObject, ordered_object


class CollectionReference(msgspec.Struct, frozen=True):
    """A collection named by a mount: `name` is a portable data hash (no hints, no path) or a
    uuid.
    """

    target: str
    name: str
    is_pdh: bool


class OutputReference(msgspec.Struct, frozen=True):
    """A request whose output a mount shows."""

    target: str
    request_uuid: str


def references(mounts: Mapping[str, Json]) -> tuple[CollectionReference, ...]:
    """The collections to look up before `resolve`. The hash takes precedence over the uuid, which
    is then not looked up.
    """
    collections: list[CollectionReference] = []
    for target, spec in mounts.items():
        name, _ = _named(spec)
        # The empty collection needs no record: every user may read it.
        if name and name != EMPTY_PDH:
            collections.append(
                CollectionReference(target, name, HASH_WITH_PATH.fullmatch(name) is not None)
            )
    return tuple(collections)


def outputs(mounts: Mapping[str, Json]) -> tuple[OutputReference, ...]:
    """The requests whose outputs the mounts show."""
    return tuple(
        OutputReference(target, str(spec.get("container_request")))
        for target, spec in mounts.items()
        if isinstance(spec, dict) and spec.get("kind") == MountKind.OUTPUT
    )


def resolve(
    mounts: Mapping[str, Json],
    hashes: Mapping[str, str | None],
    trees: Mapping[str, tuple[git_trees.ResolvedGitTree, ...]] = MappingProxyType({}),
) -> JsonObject:
    """The mounts of the container, keys sorted.

    `hashes` gives for every `CollectionReference.name`, and for every
    `OutputReference.request_uuid`, the portable data hash of a collection that the user can read,
    or None; `trees` for every target of a git_tree the objects found, the newest first. Raises
    Invalid 'cannot mount collection "x": not found'.
    """
    resolved = {target: _resolved(target, spec, hashes) for target, spec in mounts.items()}
    for tree in git_trees.references(mounts) if has_kind(mounts, MountKind.GIT_TREE) else ():
        if not trees.get(tree.target):
            raise Invalid(
                f"Mounts [{tree.target}]: cannot mount git tree: "
                f"{tree.selector} {tree.revision!r} not found"
            )
        # The newest: what a new container gets.
        resolved[tree.target] = trees[tree.target][0].mount
    return ordered_object(resolved)


def shown(
    mounts: Mapping[str, Json], hashes: Mapping[str, str | None]
) -> dict[str, tuple[str, str]]:
    """The portable data hash and the path of each mount that shows a file or directory below the
    root of a collection, read-only, by target. `hashes` as for `resolve`.
    """
    shown_paths: dict[str, tuple[str, str]] = {}
    for target, spec in mounts.items():
        if not isinstance(spec, dict) or spec.get("writable"):
            continue
        name, inner = _named(spec)
        if spec.get("kind") == MountKind.OUTPUT:
            name = str(spec.get("container_request"))
        pdh = hashes.get(name)
        words = f"{inner}/{spec.get('path') or ''}".split("/")
        path = "/".join(word for word in words if word not in ("", "."))
        if pdh and path:
            shown_paths[target] = pdh, path
    return shown_paths


def seen(mounts: Mapping[str, Json], contents: Mapping[str, Json]) -> JsonObject:
    """The mounts in the form for comparisons: the view of the command.

    For a target `contents` may have {"content": ...} of a file or {"portable_data_hash": ...} of a
    directory. It then replaces the collection and the path: the command sees neither the name of
    the file outside the container nor the files beside it.
    """
    compared: JsonObject = {}
    for target, spec in mounts.items():
        content = contents.get(target)
        if isinstance(spec, dict) and isinstance(content, dict):
            # The target stays: the command names the file by it.
            kept = {k: v for k, v in spec.items() if k not in ("portable_data_hash", "path")}
            spec = ordered_object({**kept, **content})
        compared[target] = spec
    return compared


def named_hashes(mounts: Mapping[str, Json]) -> tuple[str, ...]:
    """The portable data hashes in the collection mounts of a container, without the paths that may
    follow them.
    """
    named = [spec.get("portable_data_hash") for spec in mounts.values() if isinstance(spec, dict)]
    return tuple(pdh.partition("/")[0] for pdh in named if isinstance(pdh, str) and pdh)


def _named(spec: Json) -> tuple[str, str]:
    """The hash or uuid that a collection mount names, and the path that came with the hash."""
    if not isinstance(spec, dict) or spec.get("kind") != MountKind.COLLECTION:
        return "", ""
    match = HASH_WITH_PATH.fullmatch(str(spec.get("portable_data_hash") or ""))
    if match is not None:
        return match[1], match[2] or ""
    return str(spec.get("uuid") or ""), ""


def _resolved(target: str, spec: Json, hashes: Mapping[str, str | None]) -> Json:
    if isinstance(spec, dict) and spec.get("kind") == MountKind.OUTPUT:
        return _resolved_output(target, spec, hashes)
    name, path = _named(spec)
    if not name or not isinstance(spec, dict):
        return without_zero_values(spec)
    found = EMPTY_PDH if name == EMPTY_PDH else hashes.get(name)
    if found is None:
        raise Invalid(f'Mounts [{target}]: cannot mount collection "{name}": not found')
    kept = {key: value for key, value in spec.items() if key != "uuid"}
    return without_zero_values({**kept, "portable_data_hash": found + path})


def _resolved_output(
    target: str, spec: Mapping[str, Json], hashes: Mapping[str, str | None]
) -> Json:
    uuid = str(spec.get("container_request"))
    pdh = hashes.get(uuid)
    if pdh is None:
        raise Invalid(
            f"Mounts [{target}]: the output of the request {uuid} cannot be mounted: "
            "it was not made, or was deleted"
        )
    kept = {key: value for key, value in spec.items() if key != "container_request"}
    return without_zero_values(
        {**kept, "kind": MountKind.COLLECTION.value, "portable_data_hash": pdh}
    )
