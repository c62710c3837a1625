"""Directories above collections, as keep-web of Arvados has them.

    /                           by_id/ and users/
    /by_id/                     empty; every collection and project is there by its uuid
    /by_id/PROJECT/...          what is in a project: projects and collections by name
    /users/                     the users whom the caller can see, by user name
    /users/NAME/...             the home project of a user

The caller's token decides what is seen. Nothing is written to these directories; the files of their
collections are. Names that are no name of a file, such as one with a slash, are left out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from lading.client.api import ApiClient, Json, Record
from lading.core import ids
from lading.core.data import manifest
from lading.core.errors import Malformed, NotFound
from lading.core.ids import Infix
from lading.webdav.file_request import FileAddress

BY_ID: Final = "by_id"
USERS: Final = "users"
# Entries of a directory that are shown.
_MOST: Final = 10_000
# Projects in each other that a path goes through.
_LEVELS: Final = 100
# Elements of a path: projects in each other, then a collection and its directories.
_DEEPEST: Final = 1000
_PROJECT: Final[list[Json]] = ["group_class", "=", "project"]


@dataclass(frozen=True, slots=True)
class ProjectDirectory:
    """A directory above collections: its encoded address without the last slash, its name, and the
    names of the directories in it.
    """

    root: str
    name: str
    names: Sequence[str]


def parse(raw: str) -> list[str] | None:
    """The elements of a raw path to a directory above collections, or to a file below it; None for
    all other paths. Raises Malformed.
    """
    parts = raw.strip("/").split("/") if raw.strip("/") else []
    is_above = (
        not parts
        or parts[0] == USERS
        or (parts[0] == BY_ID and (len(parts) == 1 or _is_project(parts[1])))
    )
    if not is_above:
        return None
    if len(parts) > _DEEPEST:
        raise Malformed(f"the path has {len(parts)} elements; at most {_DEEPEST} are taken")
    try:
        elements = [unquote_to_bytes(segment).decode() for segment in parts]
    except UnicodeDecodeError:
        raise Malformed("the path is not UTF-8") from None
    if not all(map(_is_name, elements)):
        raise Malformed(f"{raw[:80]!r}: no path of a file")
    return elements


def _is_project(name: str) -> bool:
    return ids.is_uuid(name) and ids.infix_of(name) == Infix.GROUP


def _is_name(name: str) -> bool:
    return bool(name) and "/" not in name and not manifest.fault_of(name)


async def resolve(
    api: ApiClient, elements: Sequence[str], *, folder: bool
) -> ProjectDirectory | FileAddress:
    """The directory at a path, or the address in the collection that the path leads to. Raises
    NotFound.
    """
    root = "".join(f"/{quote(element)}" for element in elements)
    if len(elements) < 2:
        # The names are no secret, but a caller without a valid token gets no answer.
        await api.request("GET", "users/current", params={"select": ["uuid"]})
        if not elements:
            return ProjectDirectory("", "/", (BY_ID, USERS))
        names = [] if elements[0] == BY_ID else await _users(api)
        return ProjectDirectory(root, elements[0], names)
    owner = elements[1] if elements[0] == BY_ID else await _user(api, elements[1])
    if elements[0] == BY_ID:
        await api.get("groups", owner, select=("uuid",))
    for number, name in enumerate(elements[2:], 3):
        if number > _LEVELS:
            # Each asks the API.
            raise NotFound(f"Path not found: more than {_LEVELS} projects in each other")
        project = await _owned(api, "groups", owner, name)
        if project is not None:
            owner = project
            continue
        collection = await _owned(api, "collections", owner, name)
        if collection is None:
            raise NotFound(f"Path not found: nothing here is called {name[:80]!r}")
        return FileAddress(
            collection=collection,
            path="/".join(elements[number:]),
            folder=folder,
            root="".join(f"/{quote(element)}" for element in elements[:number]),
        )
    return ProjectDirectory(root, elements[-1], await _contents(api, owner))


async def _user(api: ApiClient, name: str) -> str:
    found = await api.list("users", filters=[["username", "=", name]], select=("uuid",), limit=1)
    if not found:
        raise NotFound(f"Path not found: no user is called {name[:80]!r}")
    return str(found[0]["uuid"])


async def _users(api: ApiClient) -> list[str]:
    filters: list[Json] = [["username", "!=", None]]
    return await _names(api.pages("users", filters=filters, select=("uuid", "username")))


async def _owned(api: ApiClient, plural: str, owner: str, name: str) -> str | None:
    """The uuid of the project or collection of an owner with a name."""
    filters: list[Json] = [["owner_uuid", "=", owner], ["name", "=", name]]
    if plural == "groups":
        filters.append(_PROJECT)
    found = await api.list(plural, filters=filters, select=("uuid",), limit=1)
    return str(found[0]["uuid"]) if found else None


async def _contents(api: ApiClient, owner: str) -> list[str]:
    filters: list[Json] = [["owner_uuid", "=", owner]]
    projects = await _names(
        api.pages("groups", filters=[*filters, _PROJECT], select=("uuid", "name"))
    )
    collections = await _names(api.pages("collections", filters=filters, select=("uuid", "name")))
    return sorted({*projects, *collections})


async def _names(pages: AsyncGenerator[Sequence[Record]]) -> list[str]:
    names: list[str] = []
    async for page in pages:
        names += _usable(page)
        if len(names) >= _MOST:
            await pages.aclose()
            break
    return sorted(names[:_MOST])


def _usable(page: Iterable[Record]) -> Iterator[str]:
    for record in page:
        name = str(record.get("username") or record.get("name") or "")
        if _is_name(name):
            yield name


def page(directory: ProjectDirectory) -> str:
    """The HTML of a directory."""
    rows = "".join(
        f'<tr><td><a href="{escape(f"{directory.root}/{quote(name)}/")}">{escape(name)}/</a></td>'
        "</tr>\n"
        for name in directory.names
    )
    title = escape(directory.name)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"</head><body>\n<h1>{title}</h1>\n<table>\n{rows}</table>\n</body></html>\n"
    )
