"""Git trees as mounts: references in requests, input for `git`, and parsing of its output.

A request names a repository by exactly one of `git_url`, `repository_name`, `uuid`, and content by
exactly one of `commit` (resolved to one commit) and `revisions` (resolved to a set, see "ranges" in
git-revisions(1)); `path` selects a directory or file of it. The container's mount has only the hash
of the tree or blob, so that commits without a change of the path give the same container. Of a set
the newest counts for a new container, any for an existing one.

Arguments of `git` commands are checked here: no options, no transports except configured ones, no
objects named by path or by search. Texts are at most MAX_TEXT characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from lading.core.errors import Invalid
from lading.core.ids import Infix, is_uuid
from lading.core.values import Json, JsonObject

MAX_COMMITS = 1000
"""Number of commits of a set that are examined, the newest first."""
# Characters of an address, revision or path.
MAX_TEXT = 500
SOURCES = ("git_url", "repository_name", "uuid")
SELECTORS = ("commit", "revisions")
KINDS = ("tree", "blob")

# No leading "-", which git would take for an option, and no ":", which selects by path or search.
_REVISION = re.compile(r"\^?[0-9A-Za-z_@][0-9A-Za-z._/@^~{}+-]*")
# No spaces and no leading "-": the text becomes an argument of git.
_URL = re.compile(r"[0-9A-Za-z][0-9A-Za-z+.:/@~_-]*")
# Names of the site's own repositories.
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._/-]*")
# A line of `git cat-file --batch-check`: hash, type and size.
_FOUND = re.compile(r"([0-9a-f]{40}) (tree|blob) \d+")
_MEANING = {"commit": "commit", "revisions": "range of commits such as v1..main"}


class GitReference(msgspec.Struct, frozen=True, kw_only=True):
    """Reference of one mount of a request; `source` is one of SOURCES, `selector` one of SELECTORS.

    `path` is relative, "" is the whole tree.
    """

    target: str
    source: str
    name: str
    selector: str
    revision: str
    path: str


class ResolvedGitTree(msgspec.Struct, frozen=True):
    """A commit and the object at its path: `kind` is tree or blob, `hash` 40 hexadecimal digits."""

    commit: str
    kind: str
    hash: str

    @property
    def mount(self) -> JsonObject:
        """The mount of a container."""
        return {"kind": "git_tree", self.kind: self.hash}


GitTrees: TypeAlias = Mapping[str, tuple[ResolvedGitTree, ...]]
"""The trees of the git mounts of a request, by mount target, the newest first."""
NO_TREES: Final[GitTrees] = MappingProxyType({})


def check(where: str, spec: Mapping[str, Json]) -> None:
    """Check a git_tree mount whose values have the right types. Raises Invalid naming the key."""
    source, name = _only(where, spec, SOURCES)
    selector, revision = _only(where, spec, SELECTORS)
    if source == "uuid" and not is_uuid(name, Infix.REPOSITORY):
        raise Invalid(f"{where}[uuid]: not the uuid of a repository: {name[:80]!r}")
    if source == "repository_name":
        check_name(f"{where}[repository_name]", name)
    if source == "git_url":
        check_url(f"{where}[git_url]", name)
    _check_revision(where, selector, revision)
    path = str(spec.get("path") or "")
    if (
        len(path) > MAX_TEXT
        or any(element in (".", "..", ".git") for element in path.split("/"))
        or not path.isprintable()
    ):
        raise Invalid(f"{where}[path]: not a path inside a repository: {path[:80]!r}")


def _check_revision(where: str, selector: str, revision: str) -> None:
    words = revision.split() if selector == "revisions" else [revision]
    if (
        len(revision) > MAX_TEXT
        or not words
        or not all(_REVISION.fullmatch(word) for word in words)
    ):
        raise Invalid(f"{where}[{selector}]: not a {_MEANING[selector]}: {revision[:80]!r}")
    if selector == "commit" and (".." in revision or revision.startswith("^")):
        raise Invalid(
            f"{where}[commit]: {revision[:80]!r} names a set of commits; give it as revisions"
        )


def check_url(where: str, url: str) -> None:
    """Check an address for `git`. Raises Invalid."""
    # "::" selects a remote helper program (gitremote-helpers(7)).
    if len(url) > MAX_TEXT or not _URL.fullmatch(url) or ".." in url or "::" in url:
        raise Invalid(f"{where}: not the address of a repository: {url[:80]!r}")


def check_name(where: str, name: str) -> None:
    """Check the name of a repository. Raises Invalid."""
    if len(name) > MAX_TEXT or not _NAME.fullmatch(name):
        raise Invalid(f"{where}: not the name of a repository: {name[:80]!r}")


def is_allowed(url: str, allowed: Iterable[str]) -> bool:
    """Whether the list contains this address, or a prefix of it that ends in / or : and names the
    same host: behind `https://host:` an address may go on with `x@other/`.
    """
    return any(url == prefix or _is_below(url, prefix) for prefix in allowed)


def _is_below(url: str, prefix: str) -> bool:
    if not prefix.endswith(("/", ":")) or not url.startswith(prefix):
        return False
    # A prefix that is a scheme alone, such as `https://`, allows every host.
    return prefix.endswith("://") or host_of(url) == host_of(prefix)


def host_of(url: str) -> str | None:
    """Host of a checked address, None for a path of this machine."""
    scheme, separator, remainder = url.partition("://")
    if separator:
        return (
            None
            if scheme.lower() == "file"
            else remainder.partition("/")[0].rpartition("@")[2].partition(":")[0]
        )
    # The scp-like form HOST:PATH (git-clone(1)).
    authority, separator, _ = url.partition(":")
    return authority.rpartition("@")[2] if separator and "/" not in authority else None


class PinnedUrl(msgspec.Struct, frozen=True):
    """An address for `git fetch` with settings (`NAME=VALUE`) and environment."""

    url: str
    settings: tuple[str, ...] = ()
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)


def is_looked_up(url: str) -> bool:
    """Whether `git` looks up the host of an address itself; over ssh, ssh does."""
    return url.partition("://")[0].lower() in ("http", "https", "git")


def pinned(url: str, addresses: Sequence[str]) -> PinnedUrl:
    """A checked address such that git connects to these addresses of its host alone: a second
    look-up of the name may give others. Over ssh the key of the host proves it.
    """
    scheme, _, remainder = url.partition("://")
    authority, slash, path = remainder.partition("/")
    user, at, authority = authority.rpartition("@")
    host, colon, port = authority.partition(":")
    if not addresses or not is_looked_up(url):
        return PinnedUrl(url)
    texts = [f"[{address}]" if ":" in address else address for address in addresses]
    if scheme.lower() == "git":
        # The protocol has the name of the host in its first message.
        moved = f"git://{user}{at}{texts[0]}{colon}{port}{slash}{path}"
        return PinnedUrl(moved, environment={"GIT_OVERRIDE_VIRTUAL_HOST": authority})
    number = port or ("443" if scheme.lower() == "https" else "80")
    return PinnedUrl(url, (f"http.curloptResolve={host}:{number}:{','.join(texts)}",))


def references(mounts: Mapping[str, Json]) -> tuple[GitReference, ...]:
    """The git trees in checked mounts."""
    trees: list[GitReference] = []
    for target, spec in mounts.items():
        if isinstance(spec, dict) and spec.get("kind") == "git_tree":
            source, name = _only(target, spec, SOURCES)
            selector, revision = _only(target, spec, SELECTORS)
            path = "/".join(
                element for element in str(spec.get("path") or "").split("/") if element
            )
            trees.append(
                GitReference(
                    target=target,
                    source=source,
                    name=name,
                    selector=selector,
                    revision=revision,
                    path=path,
                )
            )
    return tuple(trees)


def kind_of(mounts: Mapping[str, Json], object_hash: str) -> str | None:
    """Whether the object is a tree or a blob of resolved mounts; None when no mount has it."""
    for spec in mounts.values():
        if isinstance(spec, dict) and spec.get("kind") == "git_tree":
            for kind in KINDS:
                if object_hash and spec.get(kind) == object_hash:
                    return kind
    return None


def lookup_lines(commits: Iterable[str], path: str) -> str:
    """Input of `git cat-file --batch-check`: the path in each commit."""
    return "".join(f"{commit}:{path}\n" if path else f"{commit}^{{tree}}\n" for commit in commits)


def read_lookup(commits: Sequence[str], answer: str) -> tuple[ResolvedGitTree, ...]:
    """The parsed output of `git cat-file --batch-check`, a line for each commit; each different
    object once, in order.

    Commits without the path are left out.
    """
    found: dict[str, ResolvedGitTree] = {}
    for commit, line in zip(commits, answer.splitlines(), strict=False):
        match = _FOUND.fullmatch(line.strip())
        if match is not None:
            found.setdefault(match[1], ResolvedGitTree(commit, match[2], match[1]))
    return tuple(found.values())


def _only(where: str, spec: Mapping[str, Json], keys: tuple[str, ...]) -> tuple[str, str]:
    given = [(key, value) for key in keys if isinstance(value := spec.get(key), str) and value]
    if len(given) != 1:
        raise Invalid(f"{where}: a git_tree mount needs exactly one of {', '.join(keys)}")
    return given[0]
