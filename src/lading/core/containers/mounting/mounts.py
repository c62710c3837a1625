"""The shape of the mounts of a request; `mount_resolution` makes those of a container from them.

* A target is `stdin`, `stdout`, `stderr` or a canonical absolute path: no `.`, `..` or empty
element, not `/` itself, and nothing in `/proc`, `/sys` and `/dev` but `/dev/shm`.
* Kinds: collection, output, git_tree, keep, live, tmp, json, text, file. `keep` shows all
collections that the container's token can read, so it needs runtime_constraints.API. The keys of a
git_tree mount are checked in `git_trees`.
* `live` shows a file or directory of the machine that runs the container as it is, below a
directory that the configuration offers (`live_places`). Such a container is never reused: its
recipe does not say what it reads.
* stdout and stderr take a file in a writable mount; stdin takes a file of another mount, a
collection, json or text.
* At a path, a file mount shows an entry of another mount again.
* The output path is a mount, or lies in a writable one.
* Keys of other kinds are accepted with a zero value only, since typed clients send every key.

See docs/spec/containers, section Mounts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from lading.core.containers.mounting import git_trees
from lading.core.errors import Invalid
from lading.core.ids import Infix, is_uuid
from lading.core.secrets import VARIABLE
from lading.core.values import Json, printable, same

STREAMS = ("stdin", "stdout", "stderr")
DEVICES = ("ram", "ssd", "disk", "network")
"""Values of `device_type`, fastest first."""
# Directories that every container gets from its engine. A mount in them would replace what the
# engine hides there, and engines refuse some with words that blame the machine.
_SYSTEM = ("dev", "proc", "sys")
# Bytes of the name of a file (NAME_MAX in limits.h).
_LONGEST_NAME = 255
# Characters of a long target in a message.
_SHOWN = 60
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a path inside the container
HASH_WITH_PATH = re.compile(r"([0-9a-f]{32}\+\d+)(?:\+[^/+]+)*(/.*)?")
"""A portable data hash, with hints and a path."""


class MountKind(StrEnum):
    """The supported kinds of mount."""

    COLLECTION = "collection"
    OUTPUT = "output"
    GIT_TREE = "git_tree"
    KEEP = "keep"
    LIVE = "live"
    TMP = "tmp"
    FILE = "file"
    JSON = "json"
    TEXT = "text"


class LivePlace(msgspec.Struct, frozen=True):
    """A place that a live mount shows: the name of its root, and the path below it."""

    target: str
    root: str
    path: str
    is_writable: bool


# The keys of each kind and the types of their values; "" is any JSON value.
_KEYS: Mapping[MountKind, Mapping[str, str]] = MappingProxyType(
    {
        MountKind.COLLECTION: {
            "uuid": "string",
            "portable_data_hash": "string",
            "writable": "boolean",
            "path": "string",
            "exclude_from_output": "boolean",
        },
        MountKind.OUTPUT: {
            "container_request": "string",
            "path": "string",
            "exclude_from_output": "boolean",
        },
        MountKind.GIT_TREE: dict.fromkeys(
            (*git_trees.SOURCES, *git_trees.SELECTORS, "path"), "string"
        ),
        MountKind.KEEP: {"exclude_from_output": "boolean"},
        MountKind.LIVE: {
            "root": "string",
            "path": "string",
            "writable": "boolean",
            "exclude_from_output": "boolean",
        },
        MountKind.TMP: {
            "capacity": "integer",
            "device_type": "string",
            "unless_occupied": "boolean",
            "exclude_from_output": "boolean",
        },
        MountKind.FILE: {"path": "string", "exclude_from_output": "boolean"},
        MountKind.JSON: {"content": "", "writable": "boolean", "exclude_from_output": "boolean"},
        MountKind.TEXT: {
            "content": "string",
            "writable": "boolean",
            "exclude_from_output": "boolean",
            VARIABLE: "string",
        },
    }
)
_PATH_KINDS = (
    MountKind.COLLECTION,
    MountKind.OUTPUT,
    MountKind.TMP,
    MountKind.JSON,
    MountKind.TEXT,
    MountKind.KEEP,
    MountKind.LIVE,
    MountKind.GIT_TREE,
    MountKind.FILE,
)
_STREAM_KINDS: Mapping[str, tuple[MountKind, ...]] = MappingProxyType(
    {
        "stdin": (
            MountKind.COLLECTION,
            MountKind.OUTPUT,
            MountKind.JSON,
            MountKind.TEXT,
            MountKind.FILE,
        ),
        "stdout": (MountKind.FILE,),
        "stderr": (MountKind.FILE,),
    }
)


def validate(
    mounts: Mapping[str, Json],
    secret_mounts: Mapping[str, Json],
    *,
    output_path: str,
    has_api: bool = False,
) -> None:
    """Check both mount tables and that `output_path` is in a mount. Raises Invalid "[target][key]:
    fault".

    `has_api`: the container has a token for the API, which `keep` needs.
    """
    for target, spec in mounts.items():
        _check_target("Mounts", target, STREAMS)
        _check_spec("Mounts", target, spec, _STREAM_KINDS.get(target, _PATH_KINDS))
        if not has_api and isinstance(spec, dict) and spec["kind"] == MountKind.KEEP:
            raise Invalid(
                f"Mounts [{printable(target)}][kind]: keep needs runtime_constraints.API to be true"
            )
        if isinstance(spec, dict) and not _is_zero(spec.get(VARIABLE)):
            raise Invalid(f"Mounts [{printable(target)}][{VARIABLE}]: is for secret mounts only")
    for target, spec in secret_mounts.items():
        _check_target("Secret mounts", target, ("stdin",))
        _check_spec("Secret mounts", target, spec, (MountKind.JSON, MountKind.TEXT))
        if target in mounts:
            raise Invalid(f"Secret mounts [{printable(target)}]: conflict with non-secret mounts")
    _check_output(mounts, output_path)
    for target, spec in mounts.items():
        if isinstance(spec, dict) and spec["kind"] == MountKind.FILE:
            # After all other mounts: a file mount names an entry of one of them.
            _check_file(mounts, secret_mounts, target, str(spec["path"]))


def covering(targets: Container[str], path: str) -> str | None:
    """The innermost mount target that contains the container path `path`; None without one."""
    # From the path upwards, so that the innermost is found first. A relative path is in no mount.
    while path.startswith("/"):
        if path in targets:
            return path
        path = path.rpartition("/")[0]
    return None


def has_kind(mounts: Mapping[str, Json], kind: MountKind) -> bool:
    """Whether there is a mount of this kind; the mounts need not be valid."""
    return any(isinstance(spec, dict) and spec.get("kind") == kind for spec in mounts.values())


def git_references(mounts: Mapping[str, Json]) -> tuple[git_trees.GitReference, ...]:
    """The checked git trees of mounts, safe to look up before the other mounts are checked. Raises
    Invalid.
    """
    for target, spec in mounts.items():
        if isinstance(spec, dict) and spec.get("kind") == MountKind.GIT_TREE:
            _check_spec("Mounts", target, spec, (MountKind.GIT_TREE,))
    return git_trees.references(mounts)


def live_places(mounts: Mapping[str, Json]) -> tuple[LivePlace, ...]:
    """The places that the live mounts show."""
    return tuple(
        LivePlace(
            target,
            str(spec.get("root")),
            str(spec.get("path") or ""),
            spec.get("writable") is True,
        )
        for target, spec in mounts.items()
        if isinstance(spec, dict) and spec.get("kind") == MountKind.LIVE
    )


def slower(
    mounts: Mapping[str, Json], scratch: Callable[[], str], *, output_path: str
) -> tuple[str, ...]:
    """Sentences about tmp mounts whose storage is slower than their `device_type`.

    `scratch` returns the storage type of everything that is not in memory, "" when unknown; it is
    called only if needed. The output is never in memory: it must survive a lack of memory.
    """
    output = covering(mounts, output_path)
    asked = {
        target: DEVICES.index(str(spec["device_type"]))
        for target, spec in mounts.items()
        if isinstance(spec, dict)
        and spec.get("kind") == MountKind.TMP
        and spec.get("device_type") in DEVICES
    }
    # To find out takes a look into /sys: containers that ask for no device do without.
    found = scratch() if asked else ""
    actual = DEVICES.index(found) if found in DEVICES else 0
    return tuple(
        f"mounts[{printable(target)}]: asks for {DEVICES[device]}, "
        f"the scratch of this machine is {found}"
        for target, device in asked.items()
        # Every machine has memory (index 0), but the output is never in it.
        if actual > device and (device > 0 or target == output)
    )


def same_spelling(old: Mapping[str, Json], new: Mapping[str, Json]) -> bool:
    """Whether `new` equals `old` apart from additional zero values (ignored on a Committed
    request).
    """
    return old.keys() == new.keys() and all(
        same(without_zero_values(old[target]), without_zero_values(new[target])) for target in old
    )


def _check_target(table: str, target: str, streams: tuple[str, ...]) -> None:
    if target in streams:
        return
    if not target.startswith("/"):
        allowed = f"{', '.join(streams)} or an absolute path"
        raise Invalid(f"{table} [{printable(target)}]: invalid target: must be {allowed}")
    if target == "/":
        raise Invalid(f"{table} [/]: invalid target: / is the root of the image; name a directory")
    if not _is_canonical(target):
        raise Invalid(
            f"{table} [{printable(target)}]: invalid target: "
            "an absolute path has no '.', '..' or empty element"
        )
    if any(len(name.encode(errors="surrogatepass")) > _LONGEST_NAME for name in target.split("/")):
        raise Invalid(
            f"{table} [{printable(target[:_SHOWN])}...]: invalid target: a name in it is longer "
            f"than {_LONGEST_NAME} bytes"
        )
    if target.split("/")[1] in _SYSTEM and covering((_SHARED_MEMORY,), target) is None:
        raise Invalid(
            f"{table} [{printable(target)}]: invalid target: /proc, /sys and /dev are the "
            f"container's own, apart from {_SHARED_MEMORY}"
        )


def _check_output(mounts: Mapping[str, Json], output_path: str) -> None:
    if output_path in mounts:
        return
    cover = covering(mounts, output_path)
    if cover is None or not _is_canonical(output_path):
        raise Invalid("Output path must be a mount target, or lie in one")
    if not _is_writable(mounts[cover]):
        raise Invalid(
            f"Output path lies in the mount {printable(cover)}, which the command cannot write to"
        )


def _check_file(
    mounts: Mapping[str, Json], secret_mounts: Mapping[str, Json], target: str, path: str
) -> None:
    """Check that a file mount names an entry of another mount, which for an output stream is
    writable.
    """
    where = f"Mounts [{printable(target)}][path]"
    if not _is_canonical(path):
        raise Invalid(
            f"{where}: must be an absolute path inside the container, "
            "without '.', '..' or empty elements"
        )
    # A secret may be read by a stream, but nothing is written into it: `spec` below is None for
    # one.
    cover = covering({**mounts, **secret_mounts}, path)
    if cover is None or cover == target:
        raise Invalid(f"{where}: {printable(path)} is in no other mount")
    spec = mounts.get(cover)
    if isinstance(spec, dict) and spec["kind"] == MountKind.FILE:
        raise Invalid(
            f"{where}: {printable(path)} is in the file mount {printable(cover)}; "
            "name what that one names"
        )
    if target in ("stdout", "stderr") and not (_is_writable(spec) and path != cover):
        raise Invalid(f"{where}: {printable(path)} is not in a mount that the command can write to")


def _is_canonical(path: str) -> bool:
    return (
        path.startswith("/") and "\0" not in path and not {"", ".", ".."} & set(path[1:].split("/"))
    )


def _is_writable(spec: Json) -> bool:
    # Scratch is writable without saying so.
    kind = spec.get("kind") if isinstance(spec, dict) else None
    return kind == "tmp" or (kind == "collection" and is_writable_collection(spec))


def is_writable_collection(spec: object) -> bool:
    """Whether the collection of a mount is writable: one that says so, or names no content and so
    is fresh and empty.
    """
    match spec:
        case {"writable": True}:
            return True
        case {"uuid": str(uuid)} if uuid:
            return False
        case {"portable_data_hash": str(pdh)} if pdh:
            return False
    return True


def _check_spec(table: str, target: str, spec: Json, kinds: tuple[MountKind, ...]) -> None:
    where = f"{table} [{printable(target)}]"
    if not isinstance(spec, dict):
        raise Invalid(f"{where}: must be an object with a kind")
    kind = spec.get("kind")
    if kind not in kinds:
        raise Invalid(
            f"{where}[kind]: unsupported value {printable(str(kind))!r}; "
            f"here it must be {' or '.join(kinds)}"
        )
    # Zero values of foreign keys are allowed: typed clients send every key.
    keys = _KEYS[MountKind(str(kind))]
    for key, value in spec.items():
        if key == "kind" or _is_zero(value):
            continue
        if key not in keys:
            raise Invalid(
                f"{where}[{printable(key)}]: parameter is not supported for a {kind} mount"
            )
        if not _has_type(value, keys[key]):
            raise Invalid(f"{where}[{key}]: incompatible value type: {keys[key]} required")
    _check_values(where, spec, MountKind(str(kind)))


def _check_values(where: str, spec: Mapping[str, Json], kind: MountKind) -> None:
    path = str(spec.get("path") or "")
    match kind:
        case MountKind.TMP:
            _check_tmp(where, spec)
        case MountKind.TEXT if not isinstance(spec.get("content"), str):
            raise Invalid(f"{where}[content]: incompatible value type: string required")
        case MountKind.JSON if "content" not in spec:
            raise Invalid(f"{where}[content]: a json mount needs a content")
        case MountKind.FILE if not path.startswith("/"):
            raise Invalid(f"{where}[path]: must be an absolute path inside the container")
        case MountKind.FILE:
            _check_inside(where, "path", path)
        case MountKind.COLLECTION:
            _check_inside(where, "path", path)
            _check_collection(where, spec)
        case MountKind.OUTPUT:
            _check_inside(where, "path", path)
            _check_request(where, spec)
        case MountKind.LIVE:
            _check_live(where, str(spec.get("root") or ""), path)
        case MountKind.GIT_TREE:
            git_trees.check(where, spec)


def _check_tmp(where: str, spec: Mapping[str, Json]) -> None:
    if (spec.get("device_type") or DEVICES[-1]) not in DEVICES:
        raise Invalid(f"{where}[device_type]: must be one of {', '.join(DEVICES)}")
    capacity = spec.get("capacity") or 0
    if not isinstance(capacity, int) or not 0 <= capacity < 2**63:
        raise Invalid(f"{where}[capacity]: must be a number of bytes from 0 to 2^63 - 1")


def _check_collection(where: str, spec: Mapping[str, Json]) -> None:
    pdh, uuid = spec.get("portable_data_hash") or "", spec.get("uuid") or ""
    if pdh:
        match = HASH_WITH_PATH.fullmatch(str(pdh))
        if match is None:
            raise Invalid(
                f"{where}[portable_data_hash]: not a portable data hash: {str(pdh)[:80]!r}"
            )
        _check_inside(where, "portable_data_hash", match[2] or "")
    elif uuid and not is_uuid(str(uuid), Infix.COLLECTION):
        raise Invalid(f"{where}[uuid]: not the uuid of a collection: {str(uuid)[:80]!r}")


def _check_request(where: str, spec: Mapping[str, Json]) -> None:
    uuid = spec.get("container_request")
    if not is_uuid(str(uuid), Infix.REQUEST):
        raise Invalid(
            f"{where}[container_request]: not the uuid of a container request: {str(uuid)[:80]!r}"
        )


def _check_live(where: str, root: str, path: str) -> None:
    if not _is_canonical(root):
        raise Invalid(f"{where}[root]: must name a directory that TES.FileRoots offers")
    if path and not _is_canonical(f"/{path}"):
        raise Invalid(f"{where}[path]: must be a relative path without '.', '..' or empty elements")


def _check_inside(where: str, key: str, path: str) -> None:
    if "\0" in path or ".." in path.split("/"):
        raise Invalid(f"{where}[{key}]: a path cannot contain '..' or NUL")


def _is_zero(value: Json) -> bool:
    # Not `not value`: an empty list or object is a value of a wrong type.
    return value is None or value is False or value == "" or (type(value) is int and value == 0)


def _has_type(value: Json, name: str) -> bool:
    if name == "string":
        return isinstance(value, str)
    if name == "boolean":
        return isinstance(value, bool)
    return name == "" or (isinstance(value, int) and not isinstance(value, bool))


def without_zero_values(spec: Json) -> Json:
    """The mount without keys of zero value: clients differ in which zero values they send."""
    if not isinstance(spec, dict):
        return spec
    # An empty text, null and false are contents: they are what the command is to read.
    content = "content" if spec.get("kind") in (MountKind.JSON, MountKind.TEXT) else None
    return {key: value for key, value in spec.items() if key == content or not _is_zero(value)}
