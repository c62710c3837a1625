"""References in commands to stored data, requests and projects.

Stored data: a portable data hash, a uuid, or the name of one of the user's collections, each with a
path; the prefix `keep:` is allowed. The uuid or name of a request, the uuid of a container, and
`last` for the user's last request stand for the output. A collection has precedence over a request
of the same name. Of requests, the newest with an output stands for it: one that failed without an
output does not hide the result of the one before, and a message says so.

A request: `last`, a uuid, its name (the newest of that name), or the end of a uuid. A project: a
uuid, a name, or a path of names as `thesis/figures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from lading.cli import display
from lading.client.outcomes import RequestOutcome
from lading.client.request_states import shown_container, shown_state
from lading.core.errors import Invalid, NotFound
from lading.core.ids import EMPTY_PDH, Infix, infix_of, is_pdh, is_uuid
from lading.core.values import printable

if TYPE_CHECKING:
    from lading.cli.session import CliSession
    from lading.client.api import Record
    from lading.core.data.filetree import FileTree, Node

LAST = "last"
_LOOKED_AT = 50
"""Requests with an output that are looked at for one whose command left something."""
_OF_OUTPUT = ("uuid", "state", "priority", "created_at", "container_uuid", "output_uuid")
_OF_CONTAINER = ("uuid", "state", "exit_code", "runtime_status", "output")
_SHOWN = 10
"""Projects of one name that a message lists."""


class FileReference(msgspec.Struct, frozen=True):
    """A collection (by hash, uuid or name) and a path in it; "" is all of it."""

    name: str
    path: str = ""


def parse_reference(written: str) -> FileReference | None:
    """Parse a reference; None if it does not have the form of a hash or uuid."""
    name, _, path = written.removeprefix("keep:").partition("/")
    if is_pdh(name) or is_uuid(name) or name == LAST:
        return FileReference(name, path.strip("/"))
    return None


def need_reference(written: str) -> FileReference:
    """Parse a reference, if necessary as the name of a collection. Raises Invalid for an empty
    name.
    """
    name, _, path = written.partition("/")
    if not name:
        raise Invalid(
            f"{written!r}: names nothing stored; "
            "give a hash, a uuid or the name of a collection, /path for a part of it"
        )
    return parse_reference(written) or FileReference(name, path.strip("/"))


async def find_record(session: CliSession, reference: FileReference) -> Record:
    """The record of a collection that can be changed, so not of a hash. Raises NotFound,
    Invalid.
    """
    if is_pdh(reference.name):
        raise Invalid(
            f"{reference.name}: a hash stands for content that cannot change; "
            "give the uuid of a collection"
        )
    return await find_collection(session, reference)


async def find_collection(session: CliSession, reference: FileReference) -> Record:
    """The collection record with its manifest. Raises NotFound, Invalid when there is no output
    yet.
    """
    name = reference.name
    if not (is_pdh(name) or is_uuid(name)):
        name = await find_stored(session, name)
    return await session.api.get("collections", await _collection_of(session, name))


async def _collection_of(session: CliSession, name: str) -> str:
    """The uuid or hash of the collection that a uuid or a hash means: that of a request or of a
    container is its output. Raises NotFound, Invalid when there is none.
    """
    if is_uuid(name, Infix.REQUEST):
        record = await session.api.get("container_requests", name)
        if not record["output_uuid"]:
            raise Invalid(
                f"{name}: has no output{'' if record['state'] == 'Final' else ' yet'}; "
                "see 'lading request why'"
            )
        return str(record["output_uuid"])
    if is_uuid(name, Infix.CONTAINER):
        record = await session.api.get("containers", name)
        if not record["output"]:
            raise Invalid(f"{name}: has no output; it is {shown_container(record)}")
        return str(record["output"])
    if is_uuid(name) and infix_of(name) != Infix.COLLECTION:
        raise Invalid(f"{name}: is neither a collection nor a request")
    return name


async def find_named(session: CliSession, name: str) -> str:
    """The uuid of the collection in the caller's home, or the newest request, of this name. Raises
    NotFound.
    """
    user = await session.api.get("users", "current")
    matches = await session.api.list(
        "collections",
        filters=[["owner_uuid", "=", user["uuid"]], ["name", "=", name]],
        select=["uuid"],
        limit=1,
    ) or await newest_named(session, name)
    if not matches:
        raise NotFound(
            f"{name}: names nothing stored: no hash, no uuid, no collection in your home, "
            "no request; see 'lading ls', 'lading request list', and for images 'lading image list'"
        )
    return str(matches[0]["uuid"])


async def find_stored(session: CliSession, name: str) -> str:
    """The uuid of the collection in the caller's home of this name, or of the newest request of it
    (the caller's for `last`) with an output. Says so where a newer one has none, or the command
    failed that left this output. Raises NotFound.
    """
    if name != LAST:
        uuid = await find_named(session, name)
        if not is_uuid(uuid, Infix.REQUEST):
            return uuid
    return await find_with_output(session, name)


async def find_with_output(session: CliSession, name: str) -> str:
    """The uuid of the request of this name, as `find_request`; of several, the newest with an
    output. Says so as `find_stored`. Raises NotFound, Invalid.
    """
    newest = await find_request(session, name)
    if name != LAST and newest["name"] != name:
        return str(newest["uuid"])
    condition = await _by_caller(session) if name == LAST else ["name", "=", name]
    with_output = await session.api.list(
        "container_requests",
        filters=[condition, ["output_uuid", "!=", None]],
        order=["created_at desc"],
        select=_OF_OUTPUT,
        limit=_LOOKED_AT,
    )
    containers = await _containers_of(session, [newest, *with_output])
    for request in with_output:
        outcome = RequestOutcome(request, containers.get(request["container_uuid"] or ""))
        if _has_result(outcome):
            _tell_chosen(name, newest=_outcome(newest, containers), chosen=outcome)
            return str(request["uuid"])
    # A message about the newest one says that there is no output.
    return str(newest["uuid"])


def _outcome(request: Record, containers: dict[str, Record]) -> RequestOutcome:
    return RequestOutcome(request, containers.get(request["container_uuid"] or ""))


def _has_result(outcome: RequestOutcome) -> bool:
    """Whether there is an output to take: a failed command that left nothing has none."""
    is_empty = (outcome.container or {}).get("output") == EMPTY_PDH
    return not (is_empty and outcome.exit_code)


def _tell_chosen(name: str, *, newest: RequestOutcome, chosen: RequestOutcome) -> None:
    uuid, newer = chosen.request["uuid"], newest.request["uuid"]
    if uuid != newer:
        display.warn(
            f"{name}: the newest, {newer}, is {shown_state(newest)} and has no output; "
            f"this is the output of {uuid}, "
            f"{display.age(chosen.request['created_at'], datetime.now(UTC))} old"
        )
    elif chosen.exit_code:
        display.warn(f"{name}: {uuid} is {shown_state(chosen)}; this is the output that it left")


async def _containers_of(session: CliSession, requests: list[Record]) -> dict[str, Record]:
    uuids = sorted({request["container_uuid"] for request in requests if request["container_uuid"]})
    rows = await session.api.list(
        "containers", filters=[["uuid", "in", uuids]], select=_OF_CONTAINER, limit=len(uuids) or 1
    )
    return {row["uuid"]: row for row in rows}


async def find_node(session: CliSession, reference: FileReference) -> Node:
    """The file or directory of a reference. Raises NotFound naming the path."""
    record = await find_collection(session, reference)
    # Imported here, and below: most commands read no tree.
    from lading.core.data import filetree

    tree = filetree.from_manifest(record["manifest_text"])
    node = filetree.find(tree, reference.path) if reference.path else tree
    if node is None:
        raise NotFound(
            f"{reference.name}: holds no {reference.path}; see 'lading ls {reference.name}'"
        )
    return node


async def find_tree(session: CliSession, reference: FileReference) -> FileTree:
    """The directory of a reference. Raises NotFound, Invalid for a file."""
    node = await find_node(session, reference)
    from lading.core.data.filetree import FileTree

    if not isinstance(node, FileTree):
        raise Invalid(f"{reference.name}/{reference.path}: is a file, not a directory")
    return node


async def find_request(session: CliSession, name: str) -> Record:
    """The request with this uuid or name, the caller's last one for `last`, or the one whose uuid
    ends with `name`. Of several with the name, the newest.

    Raises NotFound, Invalid when several uuids end with it.
    """
    if is_uuid(name):
        return await session.api.get("container_requests", name)
    if name == LAST:
        matches = await session.api.list(
            "container_requests",
            filters=[await _by_caller(session)],
            order=["created_at desc"],
            limit=1,
        )
        if not matches:
            raise NotFound("last: you have made no request yet; see 'lading request list'")
        return matches[0]
    matches = await newest_named(session, name)
    # Other characters could be wildcards of LIKE.
    if not matches and name.isascii() and name.isalnum():
        # Two are enough to see that the end is ambiguous.
        matches = await session.api.list(
            "container_requests", filters=[["uuid", "like", f"%{name}"]], limit=2
        )
    if not matches:
        raise NotFound(
            f"{name}: no request has this name, or a uuid that ends so; see 'lading request list'"
        )
    if len(matches) > 1:
        raise Invalid(f"{name}: several requests have a uuid that ends so; give more of it")
    return matches[0]


async def _by_caller(session: CliSession) -> list[str]:
    """The condition on requests of the caller: without it a list has those of others, too, for an
    admin all of them.
    """
    user = await session.api.get("users", "current")
    return ["committed_by_uuid", "=", str(user["uuid"])]


async def newest_named(session: CliSession, name: str) -> list[Record]:
    """The newest request of this name; empty if there is none."""
    return await session.api.list(
        "container_requests",
        filters=[["name", "=", name]],
        order=["created_at desc"],
        limit=1,
    )


async def find_project(session: CliSession, path: str) -> str:
    """The uuid of the project (or the user, for a home) with this uuid, name or path of names.

    Of several with the name, the one in the caller's home. Raises NotFound, Invalid when several
    have it.
    """
    if is_uuid(path):
        if infix_of(path) not in (Infix.GROUP, Infix.USER):
            raise Invalid(f"{path}: is not the uuid of a project")
        return path
    projects = await _projects_named(session, path)
    above, slash, name = path.rpartition("/")
    if not projects and slash and above and name:
        owner = await find_project(session, above)
        projects = await _projects_named(session, name, ["owner_uuid", "=", owner])
    if len(projects) > 1:
        user = await session.api.get("users", "current")
        projects = [
            record for record in projects if record["owner_uuid"] == user["uuid"]
        ] or projects
    if not projects:
        raise NotFound(f"{path}: no project is called so; see 'lading project list'")
    if len(projects) > 1:
        raise Invalid(
            f"{path}: several projects are called so; give PARENT/{path}, or the uuid: "
            + ", ".join(str(record["uuid"]) for record in projects)
        )
    return str(projects[0]["uuid"])


async def check_storage_classes(session: CliSession, names: Sequence[str]) -> None:
    """Refuse a storage class that the site does not have: the API takes any, and stores in others.

    Raises Invalid.
    """
    if not names:
        return
    config = await session.api.request("GET", "config")
    known = sorted(config.get("StorageClasses") or ()) if isinstance(config, dict) else []
    if unknown := [name for name in names if name not in known]:
        raise Invalid(
            f"--storage-class: this site has no class {printable(unknown[0])!r};"
            f" its classes: {', '.join(known[:10])}"
        )


async def project_of(session: CliSession, path: str) -> str:
    """The uuid of the project (or the user, for a home) at `path`; "" if it names a
    collection or a request, which come first, or nothing. Raises Invalid as `find_project`,
    NotFound for the uuid of a project that is not there.
    """
    name = path.strip("/")
    if is_uuid(name):
        infix = infix_of(name)
        if infix not in (Infix.GROUP, Infix.USER):
            return ""
        # A project that is not there would look like an empty one.
        record = await session.api.get("groups" if infix == Infix.GROUP else "users", name)
        return str(record["uuid"])
    if not name or path.startswith("/") or parse_reference(path):
        return ""
    with suppress(NotFound):
        await find_named(session, name.partition("/")[0])
        return ""
    with suppress(NotFound):
        return await find_project(session, name)
    return ""


async def _projects_named(session: CliSession, name: str, *more: list[str]) -> list[Record]:
    filters: list[Any] = [["group_class", "in", ["project", "filter"]], ["name", "=", name], *more]
    return await session.api.list(
        "groups", filters=filters, select=["uuid", "owner_uuid"], limit=_SHOWN
    )
