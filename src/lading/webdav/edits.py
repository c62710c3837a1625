"""Edits of the files of a collection: what each method of WebDAV changes, as `replace_files`.

PUT creates missing parent directories; MKCOL, COPY and MOVE require them (409). Only COPY and MOVE
replace a directory. Sources of copies and moves refer to the state before the call, so that the
server changes everything at once. Source: RFC 4918, 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lading.core import ids
from lading.core.data import filetree
from lading.core.data.filetree import FileTree, Node
from lading.core.data.splice import Origin
from lading.core.errors import Forbidden, LadingError, MethodNotAllowed, NotFound, from_status
from lading.fileserving.changes import Edit

UPLOADED: Final = "file"
"""Path of the uploaded file in the manifest of the edit."""
# Statuses of a write (RFC 4918, 9.7): a new resource, or one whose content is replaced.
CREATED: Final = 201
REPLACED: Final = 204


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A COPY, or with `away` a MOVE, of `source` to `target`; `shallow` copies a directory without
    its members.
    """

    source: str
    target: str
    overwrite: bool = True
    shallow: bool = False
    away: bool = False


def edit_put(tree: FileTree, path: str) -> Edit:
    """Put the uploaded file at `path`."""
    present = filetree.find(tree, path)
    if isinstance(present, FileTree):
        raise MethodNotAllowed(f"/{path}: is a directory; a file cannot be put in its place")
    # PUT creates missing parents.
    _check_parents(tree, path, missing=True)
    return Edit(
        {f"/{path}": f"{Origin.SUPPLIED}/{UPLOADED}"}, REPLACED if present is not None else CREATED
    )


def edit_delete(tree: FileTree, path: str) -> Edit:
    """Delete a file, or a directory with all its members."""
    if not path:
        raise Forbidden(
            "Forbidden: a collection is deleted through the API:"
            " 'DELETE /arvados/v1/collections/<uuid>'"
        )
    _get(tree, path)
    return Edit({f"/{path}": ""}, REPLACED)


def edit_make_directory(tree: FileTree, path: str) -> Edit:
    """Make an empty directory."""
    if filetree.find(tree, path) is not None:
        raise MethodNotAllowed(f"/{path}: is there already")
    _check_parents(tree, path, missing=False)
    return Edit({f"/{path}": ids.EMPTY_PDH}, CREATED)


def edit_transfer(tree: FileTree, move: Transfer) -> Edit:
    """Copy or move inside one collection."""
    node = _get(tree, move.source)
    source, target = f"/{move.source}", f"/{move.target}"
    # Moving or copying a directory into itself would be endless.
    if not move.source or not move.target or f"{target}/".startswith(f"{source}/"):
        raise Forbidden(
            f"Forbidden: {source} cannot go to {target}: a directory is no part of itself"
        )
    edit = edit_receive(tree, move, node=node, origin=Origin.CURRENT)
    if not move.away:
        return edit
    if f"{source}/".startswith(f"{target}/"):
        # The source lies inside the replaced target and is deleted with it.
        return edit
    return Edit({**edit.files, source: ""}, edit.status)


def edit_receive(tree: FileTree, move: Transfer, *, node: Node, origin: str) -> Edit:
    """Copy a node from another collection into a tree; `origin` is a source of `replace_files`."""
    target = f"/{move.target}"
    if not move.target:
        raise Forbidden(
            "Forbidden: /: a collection itself is not replaced; name a file or directory in it"
        )
    present = filetree.find(tree, move.target)
    if present is not None and not move.overwrite:
        raise _refused(412, f"{target}: is there already, and 'Overwrite: F' was sent")
    _check_parents(tree, move.target, missing=False)
    empty = move.shallow and isinstance(node, FileTree)
    # The source of an empty directory is the empty collection.
    source = (
        ids.EMPTY_PDH if empty or origin == ids.EMPTY_PDH else f"{origin}/{move.source}".rstrip("/")
    )
    return Edit({target: source}, REPLACED if present is not None else CREATED)


def parent_of(path: str) -> str:
    """The parent directory of a path."""
    return path.rpartition("/")[0]


def _get(tree: FileTree, path: str) -> Node:
    found = filetree.find(tree, path)
    if found is None:
        raise NotFound(f"Path not found: /{path[:200]} is not in the collection")
    return found


def _check_parents(tree: FileTree, path: str, *, missing: bool) -> None:
    """Check that `path` can exist in the tree; `missing`: missing parent directories are
    created.
    """
    above = parent_of(path)
    # From the top down: the first missing one decides.
    node: Node | None = tree
    for name in above.split("/") if above else ():
        node = node.entries.get(name) if isinstance(node, FileTree) else node
        if node is None and missing:
            return
        if not isinstance(node, FileTree):
            raise _refused(409, f"/{path}: /{above} is not a directory; make it with MKCOL")


def _refused(status: int, message: str) -> LadingError:
    return from_status(status, message)
