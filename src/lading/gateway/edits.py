"""What a write comes to: the `replace_files` that carries it out, or the status that WebDAV has for what is wrong.

A directory above a new file is made if it is missing, as everybody who sends one file expects; MKCOL, COPY and MOVE
want it to be there (409). Nothing is written over a directory but by COPY and MOVE. What is moved or copied comes from
the state before, so that the server does it at one moment. Source: RFC 4918, 9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lading.core import filetree, ids
from lading.core.errors import Forbidden, LadingError, MethodNotAllowed, NotFound, from_status
from lading.core.filetree import Node, Tree
from lading.core.splice import Origin

UPLOADED: Final = "file"
"""The path of what was uploaded, in the manifest that goes with the edit."""
CREATED: Final = 201
REPLACED: Final = 204


@dataclass(frozen=True, slots=True)
class Edit:
    """The targets and sources of a change, and the status when it is done; without targets nothing is to be done."""

    files: Mapping[str, str]
    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """COPY, or MOVE with `away`, of `source` to `target`; `shallow` takes a directory without what is in it."""

    source: str
    target: str
    overwrite: bool = True
    shallow: bool = False
    away: bool = False


def put(tree: Tree, path: str) -> Edit:
    """Put what was uploaded at `path`."""
    found = filetree.find(tree, path)
    if isinstance(found, Tree):
        raise MethodNotAllowed(f"/{path}: is a directory; a file cannot be put in its place")
    _check_parents(tree, path, missing=True)
    return Edit({f"/{path}": f"{Origin.SUPPLIED}/{UPLOADED}"}, REPLACED if found is not None else CREATED)


def delete(tree: Tree, path: str) -> Edit:
    """Take away a file, or a directory with all that is in it."""
    if not path:
        raise Forbidden("Forbidden: a collection is deleted through the API: 'DELETE /arvados/v1/collections/<uuid>'")
    _get(tree, path)
    return Edit({f"/{path}": ""}, REPLACED)


def make_directory(tree: Tree, path: str) -> Edit:
    """Make an empty directory."""
    if filetree.find(tree, path) is not None:
        raise MethodNotAllowed(f"/{path}: is there already")
    _check_parents(tree, path, missing=False)
    return Edit({f"/{path}": ids.EMPTY_PDH}, CREATED)


def transfer(tree: Tree, wish: Transfer) -> Edit:
    """Copy or move inside one collection."""
    node = _get(tree, wish.source)
    source, target = f"/{wish.source}", f"/{wish.target}"
    if not wish.source or not wish.target or f"{target}/".startswith(f"{source}/"):
        raise Forbidden(f"Forbidden: {source} cannot go to {target}: a directory is no part of itself")
    edit = receive(tree, wish, node=node, origin=Origin.CURRENT)
    if not wish.away:
        return edit
    if f"{source}/".startswith(f"{target}/"):
        # What is moved lies inside what it replaces, and goes with that.
        return edit
    return Edit({**edit.files, source: ""}, edit.status)


def receive(tree: Tree, wish: Transfer, *, node: Node, origin: str) -> Edit:
    """Take a node of another state or content, `origin` in the words of `replace_files`, into a tree."""
    target = f"/{wish.target}"
    if not wish.target:
        raise Forbidden("Forbidden: /: a collection itself is not replaced; name a file or directory in it")
    found = filetree.find(tree, wish.target)
    if found is not None and not wish.overwrite:
        raise _refused(412, f"{target}: is there already, and 'Overwrite: F' was sent")
    _check_parents(tree, wish.target, missing=False)
    empty = wish.shallow and isinstance(node, Tree)
    source = ids.EMPTY_PDH if empty or origin == ids.EMPTY_PDH else f"{origin}/{wish.source}".rstrip("/")
    return Edit({target: source}, REPLACED if found is not None else CREATED)


def parent_of(path: str) -> str:
    """The directory that something is in."""
    return path.rpartition("/")[0]


def _get(tree: Tree, path: str) -> Node:
    found = filetree.find(tree, path)
    if found is None:
        raise NotFound(f"Path not found: /{path[:200]} is not in the collection")
    return found


def _check_parents(tree: Tree, path: str, *, missing: bool) -> None:
    """See that `path` can be in the tree; `missing`: directories that are not there are made."""
    above = parent_of(path)
    node: Node | None = tree
    for name in above.split("/") if above else ():
        node = node.entries.get(name) if isinstance(node, Tree) else node
        if node is None and missing:
            return
        if not isinstance(node, Tree):
            raise _refused(409, f"/{path}: /{above} is not a directory; make it with MKCOL")


def _refused(status: int, message: str) -> LadingError:
    return from_status(status, message)
