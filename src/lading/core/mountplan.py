"""From the mounts of a container to what has to be made on the host, bound into the container, and kept afterwards.

Rules (api-contract 3.3, dispatch-contract A.9):

- Targets are taken parents first, so that nested mounts come on top.
- The output path must be a writable mount: kind tmp, or a collection without content that is writable.
- Below the output path only collection, text and json may be mounted. Text, json, secrets and writable collections are
  put there as ordinary files that the command may change; read-only collections are bound, and referred to when the
  output is saved.
- A collection with content is writable only below the output path, as a copy.
- stdin comes from a file of a collection, from json or from text; stdout and stderr go to a file below the output path.
- A git_tree is bound read-only; what links of the output lead to in it is copied.
- keep shows every collection that the container may read, read-only; what links of the output lead to in it is referred
  to where a portable data hash names it, else copied.
- Secrets are never saved: below the output path they are bound, so that the command cannot move them to another name.
  `exclude_from_output` keeps a mount out of the output, not what is mounted below it.
- The content of a tmp mount that is not the output ends with the container; a link of the output to it is an error.

Nothing is made here: a plan is a list of steps with host paths below one scratch directory, and `Collection` where
only the one who carries the plan out knows the path.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lading.core.errors import ExecutionError, Failure
from lading.core.ids import is_pdh
from lading.core.jsonvalue import Json, canonical

STREAMS = ("stdin", "stdout", "stderr")
BY_ID = "by_id"
"""The directory of the keep tree in which collections are found by their ids."""


@dataclass(frozen=True, slots=True)
class Host:
    """A file or directory of the host."""

    path: str


@dataclass(frozen=True, slots=True)
class Collection:
    """A file or directory of a collection; `path` is relative, "" is all of it."""

    pdh: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class GitTree:
    """A git tree or blob by its hash, or with `path` what is in the tree."""

    hash: str
    kind: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class KeepTree:
    """The tree of all collections that can be read, or with `path` what is in it."""

    path: str = ""

    @property
    def collection(self) -> Collection | None:
        """What this is when a portable data hash names it."""
        top, _, rest = self.path.partition("/")
        pdh, _, path = rest.partition("/")
        return Collection(pdh, path) if top == BY_ID and is_pdh(pdh) else None


Source = Host | Collection | GitTree | KeepTree


@dataclass(frozen=True, slots=True)
class MakeDirectory:
    """Make a directory that everybody may write to (mode 2777), parents included.

    `in_memory`: on a file system in memory where the host can, of at most `capacity` bytes when that is not 0.
    """

    path: str
    in_memory: bool = False
    capacity: int = 0


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Write a file; `writable` for everybody (0777), else for nobody (0444)."""

    path: str
    content: bytes = field(repr=False)
    writable: bool = False


@dataclass(frozen=True, slots=True)
class CopyCollection:
    """Copy a file or the content of a directory of a collection to `path`, writable for everybody."""

    source: Collection
    path: str


Step = MakeDirectory | WriteFile | CopyCollection


@dataclass(frozen=True, slots=True)
class BindMount:
    """What the container sees at `target`."""

    source: Source
    target: str
    readonly: bool


class Keep(StrEnum):
    """What becomes of an area of the container's file system when a path of the output lies in it."""

    FILES = "files"  # files of the host, a git tree included: copied
    REFERENCE = "reference"  # a collection: referred to
    NOTHING = "nothing"  # secret or excluded: left out
    TEMPORARY = "temporary"  # a tmp mount beside the output: never saved, a link to it is an error


@dataclass(frozen=True, slots=True)
class Area:
    """A mount as output capture sees it. `source` is None where nothing may be read."""

    target: str
    keep: Keep
    source: Source | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPlan:
    """What to make (in this order), what to bind (parents first), the streams, and what capture needs to know."""

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

    @property
    def collections(self) -> tuple[str, ...]:
        """Portable data hashes of the collections that must be at hand, each once."""
        sources: list[Source | None] = [bind.source for bind in self.binds]
        sources += [step.source for step in self.steps if isinstance(step, CopyCollection)]
        sources.append(self.stdin)
        return tuple(dict.fromkeys(one.pdh for one in sources if isinstance(one, Collection)))

    @property
    def copies(self) -> bool:
        """Whether something is put on the disk of the container before it begins."""
        return any(isinstance(step, CopyCollection | WriteFile) for step in self.steps)

    @property
    def keeps(self) -> bool:
        """Whether the tree of all collections must be at hand."""
        return any(isinstance(bind.source, KeepTree) for bind in self.binds)

    @property
    def git_trees(self) -> tuple[GitTree, ...]:
        """Git trees and blobs that must be at hand, each once."""
        return tuple(dict.fromkeys(bind.source for bind in self.binds if isinstance(bind.source, GitTree)))


def plan(mounts: Mapping[str, Json], *, secret_mounts: Mapping[str, Json], output_path: str, scratch: str) -> MountPlan:
    """How to give a container its mounts, with every made file below the host directory `scratch`.

    Raises ExecutionError(USER) naming the target when the mounts cannot be carried out.
    """
    both = sorted(set(mounts) & set(secret_mounts))
    if both:
        raise _fault(both[0], "is both a mount and a secret mount; remove one of them")
    draft = _Draft(output_path=output_path, scratch=scratch)
    specs = {target: _spec(target, value) for target, value in {**mounts, **secret_mounts}.items()}
    _check_output(output_path, specs.get(output_path))
    for target in sorted(specs, key=lambda one: (one in STREAMS, one.split("/"))):
        _add(draft, target, specs[target], secret=target in secret_mounts)
    return draft.finish()


@dataclass(slots=True)
class _Draft:
    """A plan being built."""

    output_path: str
    scratch: str
    output_directory: str = ""
    steps: list[Step] = field(default_factory=list)
    binds: list[BindMount] = field(default_factory=list)
    areas: list[Area] = field(default_factory=list)
    streams: dict[str, str] = field(default_factory=dict)
    stdin: Source | None = None
    made: int = 0

    def fresh(self) -> str:
        """A host path that nothing else uses."""
        self.made += 1
        return f"{self.scratch}/{self.made}"

    def inside_output(self, target: str) -> str:
        """The host path of a container path below the output path. Raises ExecutionError inside a read-only mount."""
        below = (bind.target for bind in self.binds if bind.target.startswith(self.output_path + "/"))
        cover = next((one for one in below if target.startswith(one + "/")), None)
        if cover is not None:
            raise _fault(target, f"lies inside the read-only mount {cover}")
        return self.output_directory + target[len(self.output_path) :]

    def bind(self, target: str, source: Source, *, readonly: bool, keep: Keep) -> None:
        """Show `source` at `target`."""
        self.binds.append(BindMount(source, target, readonly))
        self.areas.append(Area(target, keep, source if keep in (Keep.FILES, Keep.REFERENCE) else None))

    def finish(self) -> MountPlan:
        """The plan."""
        return MountPlan(
            output_path=self.output_path,
            output_directory=self.output_directory,
            scratch=self.scratch,
            steps=tuple(self.steps),
            binds=tuple(self.binds),
            areas=tuple(self.areas),
            stdin=self.stdin,
            stdout=self.streams.get("stdout"),
            stderr=self.streams.get("stderr"),
        )


def _fault(target: str, text: str) -> ExecutionError:
    return ExecutionError(f"mounts[{target}]: {text}", Failure.USER)


def _spec(target: str, value: Json) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise _fault(target, "must be an object with a kind")
    elements = target.split("/")[1:]
    if target not in STREAMS and (
        not target.startswith("/") or "\0" in target or any(one in ("", ".", "..") for one in elements)
    ):
        raise _fault(target, "must be stdin, stdout, stderr or an absolute path without '.', '..' or empty elements")
    return value


def _text(spec: Mapping[str, Json], key: str) -> str:
    value = spec.get(key)
    return value if isinstance(value, str) else ""


def _collection(target: str, spec: Mapping[str, Json]) -> Collection | None:
    """The collection that a mount names (the hash may be followed by a path), None for one without content."""
    pdh, _, inner = _text(spec, "portable_data_hash").partition("/")
    if not pdh:
        if _text(spec, "uuid"):
            raise _fault(target, "names a collection by uuid only; a container needs its portable_data_hash")
        return None
    path = posixpath.normpath(posixpath.join(inner, _text(spec, "path").lstrip("/")) or ".")
    if path == ".." or path.startswith(("../", "/")):
        raise _fault(target, f"path {_text(spec, 'path')!r} leads out of the collection")
    return Collection(pdh, "" if path == "." else path)


def _check_output(output_path: str, spec: Mapping[str, Json] | None) -> None:
    kind = spec.get("kind") if spec else None
    fresh = spec is not None and kind == "collection" and _collection(output_path, spec) is None
    if output_path in STREAMS or not (kind == "tmp" or (fresh and spec and spec.get("writable"))):
        raise _fault(output_path, "the output path does not correspond to a writable mount; make it a tmp mount")


def _add(draft: _Draft, target: str, spec: Mapping[str, Json], *, secret: bool) -> None:
    kind = spec.get("kind")
    below = target.startswith(draft.output_path + "/")
    if target in STREAMS:
        _add_stream(draft, target, spec, secret=secret)
    elif kind in ("text", "json"):
        _add_file(draft, target, spec, below=below, secret=secret)
    elif kind == "collection":
        _add_collection(draft, target, spec, below=below)
    elif kind == "tmp" and not below:
        _add_tmp(draft, target, spec)
    elif kind == "git_tree" and not below:
        _add_git_tree(draft, target, spec)
    elif kind == "keep" and not below:
        keep = Keep.NOTHING if spec.get("exclude_from_output") else Keep.FILES
        draft.bind(target, KeepTree(), readonly=True, keep=keep)
    elif below:
        raise _fault(target, f"kind {kind!r} cannot be below the output path; only collection, text and json can")
    else:
        raise _fault(target, f"kind {kind!r} cannot be mounted here")


def _add_tmp(draft: _Draft, target: str, spec: Mapping[str, Json]) -> None:
    path, output = draft.fresh(), target == draft.output_path
    # The output stays on disk: what a command wrote must survive when memory is short.
    in_memory = spec.get("device_type") == "ram" and not output
    capacity = spec.get("capacity")
    draft.steps.append(MakeDirectory(path, in_memory, capacity if in_memory and isinstance(capacity, int) else 0))
    if output:
        draft.output_directory = path
    keep = Keep.FILES if output else Keep.TEMPORARY
    draft.bind(target, Host(path), readonly=False, keep=Keep.NOTHING if spec.get("exclude_from_output") else keep)


def _add_git_tree(draft: _Draft, target: str, spec: Mapping[str, Json]) -> None:
    for kind in ("tree", "blob"):
        if found := _text(spec, kind):
            hidden = bool(spec.get("exclude_from_output"))
            keep = Keep.NOTHING if hidden else Keep.FILES
            draft.bind(target, GitTree(found, kind), readonly=True, keep=keep)
            return
    raise _fault(target, "names no tree and no blob; a container needs the hash that its request was resolved to")


def _add_collection(draft: _Draft, target: str, spec: Mapping[str, Json], *, below: bool) -> None:
    source, writable = _collection(target, spec), bool(spec.get("writable"))
    excluded = bool(spec.get("exclude_from_output"))
    if below and writable:
        path = draft.inside_output(target)
        draft.steps.append(CopyCollection(source, path) if source else MakeDirectory(path))
        if excluded:
            draft.areas.append(Area(target, Keep.NOTHING))
    elif source is None:
        path = draft.fresh()
        draft.steps.append(MakeDirectory(path))
        if target == draft.output_path:
            draft.output_directory = path
        draft.bind(target, Host(path), readonly=not writable, keep=Keep.NOTHING if excluded else Keep.FILES)
    elif writable:
        raise _fault(target, "a collection with content can be writable only below the output path")
    else:
        draft.bind(target, source, readonly=True, keep=Keep.NOTHING if excluded else Keep.REFERENCE)


def _add_file(draft: _Draft, target: str, spec: Mapping[str, Json], *, below: bool, secret: bool) -> None:
    content = _content(target, spec)
    hidden = secret or bool(spec.get("exclude_from_output"))
    if below and not secret:
        draft.steps.append(WriteFile(draft.inside_output(target), content, writable=True))
        if hidden:
            draft.areas.append(Area(target, Keep.NOTHING))
        return
    if below:
        draft.inside_output(target)
    path = draft.fresh()
    draft.steps.append(WriteFile(path, content))
    draft.bind(target, Host(path), readonly=True, keep=Keep.NOTHING if hidden else Keep.FILES)


def _add_stream(draft: _Draft, target: str, spec: Mapping[str, Json], *, secret: bool) -> None:
    kind = spec.get("kind")
    if target == "stdin":
        _add_stdin(draft, spec)
        return
    path = _text(spec, "path")
    if kind != "file" or secret:
        raise _fault(target, f"kind {kind!r} cannot take a stream; use kind file with a path below the output path")
    if not path.startswith(draft.output_path + "/") or posixpath.normpath(path) != path:
        raise _fault(target, f"path {path!r} is not below the output path {draft.output_path}")
    draft.streams[target] = draft.inside_output(path)


def _add_stdin(draft: _Draft, spec: Mapping[str, Json]) -> None:
    kind = spec.get("kind")
    if kind in ("json", "text"):
        path = draft.fresh()
        draft.steps.append(WriteFile(path, _content("stdin", spec)))
        draft.stdin = Host(path)
        return
    source = _collection("stdin", spec) if kind == "collection" else None
    if source is None or not source.path:
        raise _fault("stdin", "must be a file of a collection (portable_data_hash and path), json or text")
    draft.stdin = source


def _content(target: str, spec: Mapping[str, Json]) -> bytes:
    content = spec.get("content")
    if spec.get("kind") == "json":
        return canonical(content).encode("utf-8", "surrogatepass")
    if not isinstance(content, str):
        raise _fault(target, "content of a text mount must be a string")
    return content.encode("utf-8", "surrogatepass")
