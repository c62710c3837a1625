"""Edits of the files of a collection: what PUT and DELETE change, as `replace_files`.

A key needs directories above it, which PUT makes. They vanish with the last key in them, since S3
has no directories. Source: docs/spec/s3, section Writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from lading.core import ids
from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree
from lading.core.data.splice import Origin
from lading.core.s3.bucket_names import is_directory_key, readable_path
from lading.core.s3.refusals import S3Refusal

UPLOADED: Final = "file"
"""Path of the uploaded file in the manifest of an edit."""
Files = Mapping[str, str]


def put_file(tree: FileTree, path: str) -> Files:
    """Put the uploaded file at `path`. Raises S3Refusal."""
    _check_parents(tree, path)
    if isinstance(filetree.find(tree, path), FileTree):
        raise S3Refusal(
            "ObjectExistsAsDirectory", f"/{path[:200]}: other keys are below it; choose another key"
        )
    return {f"/{path}": f"{Origin.SUPPLIED}/{UPLOADED}"}


def put_directory(tree: FileTree, path: str) -> Files:
    """Make an empty directory, unless there is one. Raises S3Refusal."""
    present = filetree.find(tree, path)
    if isinstance(present, FileTree):
        return {}
    if isinstance(present, File):
        raise _below_object(path, path)
    _check_parents(tree, path)
    return {f"/{path}": ids.EMPTY_PDH}


def delete_keys(tree: FileTree, keys: Iterable[str]) -> Files:
    """Delete files and empty directories, with the directories that have nothing left; keys that
    name nothing are ignored.
    """
    removed = {path for path in map(readable_path, _existing(tree, keys)) if path is not None}
    top: set[str] = set()
    # The deepest first: a directory is looked at after those in it.
    for path in sorted(removed, key=lambda path: path.count("/"), reverse=True):
        _climb(tree, path, removed, top)
    return {
        f"/{path}": "" for path in sorted(top) if not any(above in top for above in _above(path))
    }


def _climb(tree: FileTree, path: str, removed: set[str], top: set[str]) -> None:
    """Note the highest directory that has nothing left without `path`."""
    while (parent := path.rpartition("/")[0]) and parent not in removed:
        siblings = filetree.subtree(tree, parent).entries
        if not all(f"{parent}/{name}" in removed for name in siblings):
            break
        removed.add(parent)
        path = parent
    top.add(path)


def _existing(tree: FileTree, keys: Iterable[str]) -> Iterable[str]:
    for key in keys:
        path = readable_path(key)
        node = None if path is None else filetree.find(tree, path)
        is_empty = isinstance(node, FileTree) and not node.entries
        if is_empty if is_directory_key(key) else isinstance(node, File):
            yield key


def _above(path: str) -> Iterable[str]:
    parent = path.rpartition("/")[0]
    while parent:
        yield parent
        parent = parent.rpartition("/")[0]


def _check_parents(tree: FileTree, path: str) -> None:
    for parent in _above(path):
        if isinstance(filetree.find(tree, parent), File):
            raise _below_object(path, parent)


def _below_object(path: str, parent: str) -> S3Refusal:
    return S3Refusal(
        "ParentIsObject", f"/{path[:100]}: /{parent[:100]} is an object, which has nothing below it"
    )
