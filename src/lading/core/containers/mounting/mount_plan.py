"""Plans the mounts of a container: steps on the host, binds, and areas to save as output.

Rules (docs/spec/containers, section Mounts):

- Targets are handled parents first, so that nested mounts come on top.
- The output path is a writable mount (kind tmp, or a writable collection), or a file or directory
  in one, which the command makes. This mount is the *cover* of the output path.
- In the cover text, json and writable collections become ordinary files that the command may
  change; read-only collections are bound, and saved by reference. Below the output path there is no
  tmp, git_tree or keep mount.
- A writable collection, text or json is a copy, which ends with the container unless it is in the
  output. In a writable mount of files it is an ordinary file or directory there.
- A tmp mount with `unless_occupied` exists only where the image has no files in its place.
- A file mount shows a file or directory of another mount again, with the same access: read-only or
  writable.
- stdin comes from a file of another mount, of a collection, from json or from text; stdout and
  stderr go to a file in a writable mount.
- A git_tree is bound read-only; targets of output links in it are copied.
- keep shows every collection that the container may read, read-only; targets of output links in it
  are saved by reference where a portable data hash names them, else copied.
- Secrets are never saved: below the output path they are bound, so that the command cannot rename
  them. `exclude_from_output` excludes a mount from the output, but not the mounts below it.
- live shows a place below a directory of the machine as it is; it is not saved, and an output link
  to it is left out.
- The content of a tmp mount other than the output ends with the container; an output link to it is
  left out.

Nothing is made here: a plan is a list of steps with host paths below one scratch directory, and
`CollectionPath` where the host path is not known here.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

import msgspec
from msgspec import structs

from lading.core.containers.mounting.mount_steps import (
    CollectionPath,
    CopyCollection,
    GitTree,
    HostPath,
    KeepTree,
    LivePath,
    MakeDirectory,
    SecretVariable,
    Source,
    Step,
    WriteFile,
)
from lading.core.containers.mounting.mounts import STREAMS, covering, is_writable_collection
from lading.core.errors import ExecutionError, Failure
from lading.core.secrets import VARIABLE
from lading.core.values import Json, canonical


class BindMount(msgspec.Struct, frozen=True):
    """A mount at `target` of the container."""

    source: Source
    target: str
    readonly: bool
    unless_occupied: bool = False


class Keep(StrEnum):
    """Treatment of output paths that lie in an area of the container's file system."""

    FILES = "files"  # files of the host, a git tree included: copied
    REFERENCE = "reference"  # a collection: referred to
    NOTHING = "nothing"  # secret or excluded: left out
    TEMPORARY = "temporary"  # a tmp or live mount: never saved, a link to it is left out


class Area(msgspec.Struct, frozen=True):
    """A mount for output capture. `source` is None when it may not be read."""

    target: str
    keep: Keep
    source: Source | None = None


class MountPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The steps in order, the binds (parents first), the streams, and the areas for capture."""

    output_path: str
    output_directory: str
    scratch: str = ""
    """The host directory below which everything is made; the container sees parts of it only."""
    steps: tuple[Step, ...] = ()
    binds: tuple[BindMount, ...] = ()
    areas: tuple[Area, ...] = ()
    stdin: Source | None = None
    stdout: str | None = None
    """Host file for the stream; None: to the log."""
    stderr: str | None = None
    variables: tuple[SecretVariable, ...] = ()
    """For the environment of the command."""

    @property
    def collections(self) -> tuple[str, ...]:
        """Portable data hashes of the needed collections, each once."""
        sources: list[Source | None] = [bind.source for bind in self.binds]
        sources += [step.source for step in self.steps if isinstance(step, CopyCollection)]
        sources.append(self.stdin)
        return tuple(
            dict.fromkeys(source.pdh for source in sources if isinstance(source, CollectionPath))
        )

    @property
    def copies(self) -> bool:
        """Whether files are put on the container's disk before it begins."""
        return any(isinstance(step, CopyCollection | WriteFile) for step in self.steps)

    @property
    def keeps(self) -> bool:
        """Whether the tree of all collections is needed."""
        return any(isinstance(bind.source, KeepTree) for bind in self.binds)

    @property
    def git_trees(self) -> tuple[GitTree, ...]:
        """The needed git trees and blobs, each once."""
        trees = (bind.source for bind in self.binds if isinstance(bind.source, GitTree))
        return tuple(dict.fromkeys(structs.replace(tree, path="") for tree in trees))


def plan(
    mounts: Mapping[str, Json], *, secret_mounts: Mapping[str, Json], output_path: str, scratch: str
) -> MountPlan:
    """Plan for a container's mounts, with every made file below the host directory `scratch`.

    Raises ExecutionError(USER) naming the target when the mounts cannot be made.
    """
    both = sorted(set(mounts) & set(secret_mounts))
    if both:
        raise _fault(both[0], "is both a mount and a secret mount; remove one of them")
    specs = {target: _spec(target, value) for target, value in {**mounts, **secret_mounts}.items()}
    cover = _cover(output_path, {target: specs[target] for target in mounts})
    draft = _Draft(output_path=output_path, cover=cover, scratch=scratch)
    # By elements rather than by text: "/a-b" must not come between "/a" and "/a/b".
    for target in sorted(specs, key=lambda path: (_turn(path, specs[path]), path.split("/"))):
        _add(draft, target, specs[target], secret=target in secret_mounts)
    for target in draft.aliases:
        inner = next((path for path in specs if path.startswith(target + "/")), None)
        if inner is not None:
            raise _fault(
                inner, f"lies inside the file mount {target}; nothing can be mounted there"
            )
    return structs.replace(draft.finish(), variables=tuple(_variables(secret_mounts)))


def _variables(secret_mounts: Mapping[str, Json]) -> Iterator[SecretVariable]:
    for _, spec in sorted(secret_mounts.items()):
        if isinstance(spec, dict) and spec.get(VARIABLE):
            yield SecretVariable(str(spec[VARIABLE]), str(spec["content"]))


def _turn(target: str, spec: Mapping[str, Json]) -> int:
    """Order of mounts: a mount that refers to another one comes later."""
    return 2 if target in STREAMS else 1 if spec.get("kind") == "file" else 0


@dataclass(slots=True)
class _Draft:
    """A plan under construction. `cover` is the mount that contains the output path."""

    output_path: str
    cover: str
    scratch: str
    steps: list[Step] = field(default_factory=list)
    bound: dict[str, BindMount] = field(default_factory=dict)
    areas: dict[str, Area] = field(default_factory=dict)
    streams: dict[str, str] = field(default_factory=dict)
    aliases: list[str] = field(default_factory=list)
    in_memory: set[str] = field(default_factory=set)
    stdin: Source | None = None
    made_files: int = 0

    def fresh(self) -> str:
        """An unused host path."""
        self.made_files += 1
        return f"{self.scratch}/{self.made_files}"

    def find(self, target: str, path: str) -> BindMount:
        """The innermost mount that contains the container path `path`. Raises ExecutionError, of
        `target`.
        """
        cover = covering(self.bound, path)
        if cover is None:
            raise _fault(target, f"path {path!r} is in no mount of the container")
        return self.bound[cover]

    def writable(self, target: str, path: str) -> str:
        """The host path of a container path. Raises ExecutionError, of `target`, unless it is in a
        writable mount.
        """
        bind = self.find(target, path)
        if bind.readonly or not isinstance(bind.source, HostPath):
            what = "" if path == target else f"path {path!r} "
            raise _fault(target, f"{what}lies inside the read-only mount {bind.target}")
        return bind.source.path + path[len(bind.target) :]

    def ordinary(self, target: str) -> str | None:
        """The host path of a target that is to be an ordinary file in a writable mount; None where
        it needs a mount of its own.
        """
        if target.startswith(self.cover + "/"):
            return self.writable(target, target)
        above = covering(self.bound, posixpath.dirname(target))
        bind = self.bound[above] if above is not None else None
        if bind is None or bind.readonly or not isinstance(bind.source, HostPath):
            return None
        # The engine may make a file system in memory over its directory.
        is_hidden = bind.source.path in self.in_memory
        return None if is_hidden else bind.source.path + target[len(bind.target) :]

    def note_ordinary(self, target: str, path: str, *, hidden: bool) -> None:
        """Note ordinary files at a target for the output: in the cover they are a part of it."""
        if hidden:
            self.areas[target] = Area(target, Keep.NOTHING)
        elif not target.startswith(self.cover + "/"):
            self.areas[target] = Area(target, Keep.FILES, HostPath(path))

    def source(self, target: str, path: str) -> Source:
        """Source of a container path. Raises ExecutionError, of `target`."""
        bind = self.find(target, path)
        below = path[len(bind.target) + 1 :]
        return (
            structs.replace(bind.source, path=posixpath.join(bind.source.path, below))
            if below
            else bind.source
        )

    def bind(self, target: str, source: Source, *, readonly: bool, keep: Keep) -> None:
        """Show `source` at `target`."""
        self.bound[target] = BindMount(source, target, readonly)
        self.areas[target] = Area(
            target, keep, source if keep in (Keep.FILES, Keep.REFERENCE) else None
        )

    def finish(self) -> MountPlan:
        """The plan."""
        output = self.writable(self.output_path, self.output_path)
        # The command can make the last element itself, but needs its parent.
        if self.output_path.count("/") > self.cover.count("/") + 1:
            self.steps.append(MakeDirectory(posixpath.dirname(output)))
        return MountPlan(
            output_path=self.output_path,
            output_directory=output,
            scratch=self.scratch,
            steps=tuple(self.steps),
            binds=tuple(
                self.bound[path] for path in sorted(self.bound, key=lambda path: path.split("/"))
            ),
            areas=tuple(self.areas.values()),
            stdin=self.stdin,
            stdout=self.streams.get("stdout"),
            stderr=self.streams.get("stderr"),
        )


def _fault(target: str, fault: str) -> ExecutionError:
    return ExecutionError(f"mounts[{target}]: {fault}", Failure.USER)


def _spec(target: str, value: Json) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise _fault(target, "must be an object with a kind")
    elements = target.split("/")[1:]
    if target not in STREAMS and (
        not target.startswith("/")
        or "\0" in target
        or any(element in ("", ".", "..") for element in elements)
    ):
        raise _fault(
            target,
            "must be stdin, stdout, stderr or an absolute path without '.', '..' or empty elements",
        )
    return value


def _text(spec: Mapping[str, Json], key: str) -> str:
    value = spec.get(key)
    return value if isinstance(value, str) else ""


def _collection(target: str, spec: Mapping[str, Json]) -> CollectionPath | None:
    """The collection of a mount (the hash may be followed by a path), None for a mount without
    content.
    """
    pdh, _, inner = _text(spec, "portable_data_hash").partition("/")
    if not pdh:
        if _text(spec, "uuid"):
            raise _fault(
                target, "names a collection by uuid only; a container needs its portable_data_hash"
            )
        return None
    path = posixpath.normpath(posixpath.join(inner, _text(spec, "path").lstrip("/")) or ".")
    if path == ".." or path.startswith(("../", "/")):
        raise _fault(target, f"path {_text(spec, 'path')!r} leads out of the collection")
    return CollectionPath(pdh, "" if path == "." else path)


def _cover(output_path: str, specs: Mapping[str, Mapping[str, Json]]) -> str:
    """The mount that contains the output path. Raises ExecutionError unless it is writable."""
    cover = covering(specs, output_path)
    spec = specs[cover] if cover is not None else {}
    kind = spec.get("kind")
    is_writable = kind == "tmp" or (kind == "collection" and is_writable_collection(spec))
    if cover is None or not is_writable:
        raise _fault(
            output_path,
            "the output path does not correspond to a writable mount; make it a tmp mount",
        )
    return cover


def _add(draft: _Draft, target: str, spec: Mapping[str, Json], *, secret: bool) -> None:
    kind = spec.get("kind")
    in_cover = target.startswith(draft.cover + "/")
    in_output = target.startswith(draft.output_path + "/")
    if target in STREAMS:
        _add_stream(draft, target, spec, secret=secret)
    elif kind in ("text", "json"):
        _add_file(draft, target, spec, in_cover=in_cover, secret=secret)
    elif kind == "collection":
        _add_collection(draft, target, spec)
    elif kind == "file" and not secret:
        _add_alias(draft, target, spec, in_output=in_output)
    elif not in_output and isinstance(kind, str) and kind in _BESIDE_OUTPUT:
        _BESIDE_OUTPUT[kind](draft, target, spec)
    else:
        raise _misplaced(target, kind, in_output=in_output)


def _misplaced(target: str, kind: Json, *, in_output: bool) -> ExecutionError:
    if in_output:
        return _fault(
            target,
            f"kind {kind!r} cannot be below the output path; "
            "only collection, text, json and file can",
        )
    return _fault(target, f"kind {kind!r} cannot be mounted here")


def _add_tmp(draft: _Draft, target: str, spec: Mapping[str, Json]) -> None:
    path, output = draft.fresh(), target == draft.cover
    # The output stays on disk: results must survive a lack of memory.
    in_memory = spec.get("device_type") == "ram" and not output
    capacity = spec.get("capacity")
    if in_memory:
        draft.in_memory.add(path)
    draft.steps.append(
        MakeDirectory(path, in_memory, capacity if in_memory and isinstance(capacity, int) else 0)
    )
    keep = Keep.FILES if output else Keep.TEMPORARY
    draft.bind(
        target,
        HostPath(path),
        readonly=False,
        keep=Keep.NOTHING if spec.get("exclude_from_output") else keep,
    )
    if spec.get("unless_occupied") and not output:
        draft.bound[target] = structs.replace(draft.bound[target], unless_occupied=True)


def _add_keep_tree(draft: _Draft, target: str, spec: Mapping[str, Json]) -> None:
    keep = Keep.NOTHING if spec.get("exclude_from_output") else Keep.FILES
    draft.bind(target, KeepTree(), readonly=True, keep=keep)


def _add_live(draft: _Draft, target: str, spec: Mapping[str, Json]) -> None:
    keep = Keep.NOTHING if spec.get("exclude_from_output") else Keep.TEMPORARY
    source = LivePath(_text(spec, "root"), _text(spec, "path"))
    draft.bind(target, source, readonly=not spec.get("writable"), keep=keep)


def _add_git_tree(draft: _Draft, target: str, spec: Mapping[str, Json]) -> None:
    for kind in ("tree", "blob"):
        if found := _text(spec, kind):
            hidden = bool(spec.get("exclude_from_output"))
            keep = Keep.NOTHING if hidden else Keep.FILES
            draft.bind(target, GitTree(found, kind), readonly=True, keep=keep)
            return
    raise _fault(
        target,
        "names no tree and no blob; a container needs the hash that its request was resolved to",
    )


_BESIDE_OUTPUT = MappingProxyType(
    {
        "tmp": _add_tmp,
        "git_tree": _add_git_tree,
        "keep": _add_keep_tree,
        "live": _add_live,
    }
)


def _add_collection(draft: _Draft, target: str, spec: Mapping[str, Json]) -> None:
    source, writable = _collection(target, spec), is_writable_collection(spec)
    excluded = bool(spec.get("exclude_from_output"))
    if source is not None and not writable:
        draft.bind(target, source, readonly=True, keep=Keep.NOTHING if excluded else Keep.REFERENCE)
        return
    inside = draft.ordinary(target) if writable else None
    path = inside or draft.fresh()
    draft.steps.append(CopyCollection(source, path) if source else MakeDirectory(path))
    if inside is None:
        keep = Keep.NOTHING if excluded else Keep.FILES
        draft.bind(target, HostPath(path), readonly=not writable, keep=keep)
    else:
        draft.note_ordinary(target, path, hidden=excluded)


def _add_file(
    draft: _Draft, target: str, spec: Mapping[str, Json], *, in_cover: bool, secret: bool
) -> None:
    content = _content(target, spec)
    hidden = secret or bool(spec.get("exclude_from_output"))
    writable = (in_cover or bool(spec.get("writable"))) and not secret
    # Of a secret it checks that the place is in a writable mount; it is bound on top.
    inside = draft.ordinary(target) if writable or in_cover else None
    path = draft.fresh() if inside is None or secret else inside
    draft.steps.append(WriteFile(path, content, writable=writable))
    if path == inside:
        draft.note_ordinary(target, path, hidden=hidden)
    else:
        keep = Keep.NOTHING if hidden else Keep.FILES
        draft.bind(target, HostPath(path), readonly=not writable, keep=keep)


def _add_alias(draft: _Draft, target: str, spec: Mapping[str, Json], *, in_output: bool) -> None:
    path = _path(target, spec)
    bind, source = draft.find(target, path), draft.source(target, path)
    if in_output and not bind.readonly:
        raise _fault(
            target,
            f"path {path!r} is in the writable mount {bind.target}; in the output, copy it instead",
        )
    keep = Keep.NOTHING if spec.get("exclude_from_output") else draft.areas[bind.target].keep
    draft.bind(target, source, readonly=bind.readonly, keep=keep)
    draft.aliases.append(target)


def _add_stream(draft: _Draft, target: str, spec: Mapping[str, Json], *, secret: bool) -> None:
    kind = spec.get("kind")
    if target == "stdin":
        _add_stdin(draft, spec, secret=secret)
    elif kind != "file" or secret:
        raise _fault(
            target,
            f"kind {kind!r} cannot take a stream; use kind file with a path in a writable mount",
        )
    else:
        path = _path(target, spec)
        if path in draft.bound:
            raise _fault(target, f"path {path!r} is a mount; name a file in it")
        draft.streams[target] = draft.writable(target, path)


def _add_stdin(draft: _Draft, spec: Mapping[str, Json], *, secret: bool) -> None:
    kind = spec.get("kind")
    if kind in ("json", "text"):
        path = draft.fresh()
        draft.steps.append(WriteFile(path, _content("stdin", spec)))
        draft.stdin = HostPath(path)
        return
    if kind == "file" and not secret:
        draft.stdin = draft.source("stdin", _path("stdin", spec))
        return
    source = _collection("stdin", spec) if kind == "collection" else None
    if source is None or not source.path:
        raise _fault(
            "stdin",
            "must be a file of another mount or of a collection (with its path), json or text",
        )
    draft.stdin = source


def _path(target: str, spec: Mapping[str, Json]) -> str:
    """The path of a file mount."""
    path = _text(spec, "path")
    if not path.startswith("/") or posixpath.normpath(path) != path or "\0" in path:
        raise _fault(
            target, f"path {path!r} is not an absolute path without '.', '..' or empty elements"
        )
    return path


def _content(target: str, spec: Mapping[str, Json]) -> bytes:
    content = spec.get("content")
    if spec.get("kind") == "json":
        return canonical(content).encode("utf-8", "surrogatepass")
    if not isinstance(content, str):
        raise _fault(target, "content of a text mount must be a string")
    return content.encode("utf-8", "surrogatepass")
