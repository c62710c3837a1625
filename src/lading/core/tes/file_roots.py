"""Directories of the server's machine that `file` URLs may lead to.

A root is named by the beginning of the paths of its URLs. The longest that fits counts. Only the
users that it names may use it, everybody if it names none; outputs need a writable one.

Inputs of a live root are mounted in the container where they are, those of others are copied. So a
command sees changes of a live root, and changes a writable one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lading.core.errors import Forbidden, Invalid
from lading.core.values import printable

_SETTINGS = ("Path", "Write", "Live", "Users")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRoot:
    """`prefix` is the beginning of the paths of URLs, `directory` the directory of the machine that
    it stands for; `users` are names, email addresses or uuids.
    """

    prefix: str
    directory: str
    is_writable: bool = False
    is_live: bool = False
    users: tuple[str, ...] = ()


def make_roots(configured: Mapping[str, Mapping[str, object]]) -> tuple[FileRoot, ...]:
    """The roots of the configuration, the longest prefix first. Raises Invalid for one that no URL
    can lead to, and for an unknown setting.
    """
    roots = []
    for prefix, settings in configured.items():
        _check_root(prefix, settings)
        users = settings.get("Users")
        roots.append(
            FileRoot(
                prefix=prefix.rstrip("/"),
                directory=str(settings.get("Path") or prefix),
                is_writable=settings.get("Write") is True,
                is_live=settings.get("Live") is True,
                users=tuple(users) if isinstance(users, list) else (),
            )
        )
    return tuple(sorted(roots, key=lambda root: -len(root.prefix)))


def _check_root(prefix: str, settings: Mapping[str, object]) -> None:
    where = f"configuration: TES.FileRoots.{printable(prefix)}"
    if unknown := settings.keys() - _SETTINGS:
        raise Invalid(
            f"{where}: unknown key {printable(min(unknown))}; known here: {', '.join(_SETTINGS)}"
        )
    if not _is_absolute(prefix):
        raise Invalid(
            f"{where}: must be an absolute path without . and .., as the paths of URLs are; "
            "Path is the directory that it stands for"
        )
    path = settings.get("Path") or prefix
    if not isinstance(path, str) or not path.startswith("/"):
        raise Invalid(f"{where}.Path: must be the absolute path of a directory of the machine")
    users = settings.get("Users", [])
    if not isinstance(users, list) or not all(isinstance(user, str) for user in users):
        # A single name must not stand for everybody.
        raise Invalid(f"{where}.Users: must be a list of names; absent, it is everybody")
    for name in ("Write", "Live"):
        if not isinstance(settings.get(name, False), bool):
            raise Invalid(f"{where}.{name}: must be true or false")


def _is_absolute(path: str) -> bool:
    names = path.strip("/").split("/")
    return path.startswith("/") and {".", ".."}.isdisjoint(names) and "//" not in path


def find_root(
    roots: Collection[FileRoot], path: str, names: Collection[str], *, writes: bool = False
) -> tuple[FileRoot, str]:
    """The root of a path and the path below it, for a user with these names. Raises Forbidden."""
    for root in roots:
        if _covers(root, path):
            if root.users and not set(root.users) & set(names):
                break
            if writes and not root.is_writable:
                raise Forbidden(f"file://{path}: the directory is for inputs only")
            return root, path[len(root.prefix) :].strip("/")
    raise Forbidden(
        f"file://{path}: is below no directory that this user may use; service-info lists them "
        "under storage, and TES.FileRoots sets them"
    )


def is_below_root(roots: Collection[FileRoot], path: str, *, writes: bool = False) -> bool:
    """Whether some user may use a path."""
    for root in roots:
        if _covers(root, path):
            return root.is_writable or not writes
    return False


def find_live_root(roots: Collection[FileRoot], path: str) -> FileRoot | None:
    """The live root of a path; None if it is in no root, or in one whose files are copied."""
    for root in roots:
        if _covers(root, path):
            return root if root.is_live else None
    return None


def _covers(root: FileRoot, path: str) -> bool:
    return path == root.prefix or path.startswith(f"{root.prefix}/")
