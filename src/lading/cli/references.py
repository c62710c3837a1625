"""Names of stored data in commands: a portable data hash or a uuid with a path; `last` for the
user's last request.

The prefix `keep:` is allowed. The uuid of a request or a container stands for its output. Data
commands also accept the name of one of the user's collections, unless it has the form of a hash or
a uuid.
"""

from __future__ import annotations

from dataclasses import dataclass

from lading.cli.session import CliSession
from lading.client.api import Record
from lading.core.data import filetree
from lading.core.data.filetree import FileTree, Node
from lading.core.errors import Invalid, NotFound
from lading.core.ids import Infix, infix_of, is_pdh, is_uuid

LAST = "last"


@dataclass(frozen=True, slots=True)
class FileReference:
    """A collection (by hash, uuid or name) and a path in it; "" is all of it."""

    name: str
    path: str = ""


def parse_reference(text: str) -> FileReference | None:
    """The reference in `text`; None if it does not have the form of a hash or uuid."""
    name, _, path = text.removeprefix("keep:").partition("/")
    if is_pdh(name) or is_uuid(name) or name == LAST:
        return FileReference(name, path.strip("/"))
    return None


def need_reference(text: str) -> FileReference:
    """The reference in `text`, if necessary by the name of a collection. Raises Invalid for an
    empty name.
    """
    name, _, path = text.partition("/")
    if not name:
        raise Invalid(
            f"{text!r}: names nothing stored; "
            "give a hash, a uuid or the name of a collection, /path for a part of it"
        )
    return parse_reference(text) or FileReference(name, path.strip("/"))


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
    if not (is_pdh(name) or is_uuid(name) or name == LAST):
        name = await _find_name(session, name)
    # In steps: last -> request -> its output collection; container -> hash of its output.
    if name == LAST:
        name = (await find_request(session, LAST))["uuid"]
    if is_uuid(name, Infix.REQUEST):
        record = await session.api.get("container_requests", name)
        if not record["output_uuid"]:
            raise Invalid(
                f"{name}: has no output{'' if record['state'] == 'Final' else ' yet'}; "
                "see 'lading request why'"
            )
        name = record["output_uuid"]
    elif is_uuid(name, Infix.CONTAINER):
        record = await session.api.get("containers", name)
        if not record["output"]:
            raise Invalid(f"{name}: has no output; its state is {record['state']}")
        name = record["output"]
    elif is_uuid(name) and infix_of(name) != Infix.COLLECTION:
        raise Invalid(f"{name}: is neither a collection nor a request")
    return await session.api.get("collections", name)


async def _find_name(session: CliSession, name: str) -> str:
    user = await session.api.get("users", "current")
    found = await session.api.list(
        "collections",
        filters=[["owner_uuid", "=", user["uuid"]], ["name", "=", name]],
        select=["uuid"],
        limit=1,
    )
    if not found:
        raise NotFound(
            f"{name}: names nothing stored: no hash, no uuid, no collection in your home; "
            "see 'lading ls'"
        )
    return str(found[0]["uuid"])


async def find_node(session: CliSession, reference: FileReference) -> Node:
    """The file or directory of a reference. Raises NotFound naming the path."""
    record = await find_collection(session, reference)
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
    if not isinstance(node, FileTree):
        raise Invalid(f"{reference.name}/{reference.path}: is a file, not a directory")
    return node


async def find_request(session: CliSession, text: str) -> Record:
    """The request with this uuid, the caller's last one for `last`, or the one whose uuid ends with
    `text`.

    Raises NotFound, Invalid when several end with it.
    """
    if is_uuid(text):
        return await session.api.get("container_requests", text)
    filters = [["uuid", "like", f"%{text}"]] if text != LAST else []
    # Other characters could be wildcards of LIKE.
    if text != LAST and not (text.isascii() and text.isalnum()):
        raise Invalid(f"{text}: not the uuid of a request; see 'lading request list'")
    found = await session.api.list(
        "container_requests",
        filters=filters,
        order=["created_at desc"],
        # Two are enough to see that the end is ambiguous.
        limit=1 if text == LAST else 2,
    )
    if not found:
        raise NotFound(
            "no request was made yet"
            if text == LAST
            else f"{text}: no request has a uuid that ends so"
        )
    if len(found) > 1:
        raise Invalid(f"{text}: several requests have a uuid that ends so; give more of it")
    return found[0]
