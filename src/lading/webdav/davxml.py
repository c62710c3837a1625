"""XML of WebDAV: parsing of request bodies and streaming of responses.

Request bodies must be small, UTF-8 and without a document type, so that they cannot define
entities. Source: RFC 4918, 14 and 15.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final
from xml.parsers import expat
from xml.sax.saxutils import escape

from lading.core.data.filetree import File, Node
from lading.core.errors import Malformed
from lading.webdav.http import http_date
from lading.webdav.http import media_type_of as type_of
from lading.webdav.locks import Lock

CONTENT_TYPE: Final = "application/xml; charset=utf-8"
# Bytes of a request body.
MAX_DOCUMENT: Final = 1 << 16
_DAV: Final = "DAV: "
_HEAD: Final = '<?xml version="1.0" encoding="utf-8"?>\n'
# Resources per piece.
_BATCH: Final = 200
# Nested elements; deeper documents are refused, as `_texts` recurses.
_DEEPEST: Final = 32
_LOCK_ENTRY: Final = (
    "<D:lockentry><D:lockscope><D:exclusive/></D:lockscope>"
    "<D:locktype><D:write/></D:locktype></D:lockentry>"
)


class PropfindKind(Enum):
    """Kind of a PROPFIND request."""

    ALL = "allprop"
    NAMES = "propname"
    SOME = "prop"


@dataclass(frozen=True, slots=True)
class Question:
    """The requested properties: for SOME, pairs of namespace and name."""

    kind: PropfindKind
    names: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A file or directory at an encoded address."""

    href: str
    name: str
    node: Node
    tag: str = ""
    modified: datetime | None = None
    locks: tuple[Lock, ...] = ()


@dataclass(slots=True)
class _Element:
    name: str
    children: list[_Element] = field(default_factory=list)
    text: list[str] = field(default_factory=list)


def read_question(body: bytes) -> Question:
    """Parse a PROPFIND; an empty body requests all properties. Raises Malformed."""
    if not body:
        return Question(PropfindKind.ALL)
    root = _parse(body)
    for child in root.children if root.name == f"{_DAV}propfind" else ():
        for kind in PropfindKind:
            if child.name == _DAV + kind.value:
                return Question(
                    kind,
                    tuple(_pair(one.name) for one in child.children)
                    if kind is PropfindKind.SOME
                    else (),
                )
    raise Malformed("request body: expected a DAV: propfind with prop, propname or allprop")


def read_update(body: bytes) -> tuple[tuple[str, str], ...]:
    """The properties that a PROPPATCH sets or removes. Raises Malformed."""
    root = _parse(body)
    if root.name != f"{_DAV}propertyupdate":
        raise Malformed("request body: expected a DAV: propertyupdate")
    return tuple(
        _pair(one.name)
        for change in root.children
        for prop in change.children
        for one in prop.children
    )


def read_lock(body: bytes) -> str:
    """The owner element of a LOCK as text. Raises Malformed, also for a lock that is not
    exclusive.
    """
    root = _parse(body)
    kinds = {child.name: child for child in root.children}
    scope = kinds.get(f"{_DAV}lockscope")
    if (
        root.name != f"{_DAV}lockinfo"
        or scope is None
        or [one.name for one in scope.children] != [f"{_DAV}exclusive"]
    ):
        raise Malformed("request body: expected a DAV: lockinfo that asks for an exclusive lock")
    owner = kinds.get(f"{_DAV}owner")
    # Shown to others, so that its length is limited.
    return " ".join("".join(_texts(owner)).split())[:500] if owner is not None else ""


def multistatus(resources: Iterable[Resource], question: Question) -> Iterator[str]:
    """Body of a 207 response to a PROPFIND: the properties of each resource, in pieces."""
    yield f'{_HEAD}<D:multistatus xmlns:D="DAV:">\n'
    batch: list[str] = []
    for resource in resources:
        batch.append(_response(resource, question))
        if len(batch) == _BATCH:
            yield "".join(batch)
            batch = []
    yield "".join([*batch, "</D:multistatus>\n"])


def refused_update(href: str, names: tuple[tuple[str, str], ...]) -> str:
    """Body of the 207 response to a PROPPATCH: every property is refused, because all are
    read-only.
    """
    shown = _propstat("".join(_empty(name) for name in names), "403 Forbidden")
    head = f'{_HEAD}<D:multistatus xmlns:D="DAV:">\n'
    return (
        f"{head}<D:response><D:href>{escape(href)}</D:href>{shown}</D:response></D:multistatus>\n"
    )


def lock_answer(lock: Lock, href: str) -> str:
    """The body of the response to a LOCK."""
    found = f"<D:lockdiscovery>{_active(lock, href)}</D:lockdiscovery>"
    return f'{_HEAD}<D:prop xmlns:D="DAV:">{found}</D:prop>\n'


def _response(resource: Resource, question: Question) -> str:
    known = _properties(resource)
    names = (
        tuple(("DAV:", name) for name in known)
        if question.kind is not PropfindKind.SOME
        else question.names
    )
    bare = question.kind is PropfindKind.NAMES
    found = "".join(
        f"<D:{name}/>" if bare or not known[name] else f"<D:{name}>{known[name]}</D:{name}>"
        for space, name in names
        if space == "DAV:" and name in known
    )
    # Properties that do not exist here are answered with 404 in the same response.
    lacking = "".join(_empty(one) for one in names if one[0] != "DAV:" or one[1] not in known)
    parts = _propstat(found, "200 OK") if found or not lacking else ""
    parts += _propstat(lacking, "404 Not Found") if lacking else ""
    return f"<D:response><D:href>{escape(resource.href)}</D:href>{parts}</D:response>\n"


def _properties(resource: Resource) -> dict[str, str]:
    found = {
        "displayname": escape(_printable(resource.name)),
        "resourcetype": "" if isinstance(resource.node, File) else "<D:collection/>",
        "supportedlock": _LOCK_ENTRY,
        "lockdiscovery": "".join(_active(one, resource.href) for one in resource.locks),
    }
    if resource.modified is not None:
        found["getlastmodified"] = http_date(resource.modified)
        found["creationdate"] = resource.modified.strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(resource.node, File):
        found["getcontentlength"] = str(resource.node.size)
        found["getcontenttype"] = escape(type_of(resource.name))
        found["getetag"] = escape(f'"{resource.tag}"')
    return found


def _active(lock: Lock, href: str) -> str:
    depth = "infinity" if lock.deep else "0"
    owner = f"<D:owner>{escape(_printable(lock.owner))}</D:owner>" if lock.owner else ""
    return (
        "<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:exclusive/></D:lockscope>"
        f"<D:depth>{depth}</D:depth>{owner}<D:timeout>Second-{lock.seconds:.0f}</D:timeout>"
        f"<D:locktoken><D:href>{lock.token}</D:href></D:locktoken>"
        f"<D:lockroot><D:href>{escape(href)}</D:href></D:lockroot></D:activelock>"
    )


def _propstat(properties: str, status: str) -> str:
    return (
        f"<D:propstat><D:prop>{properties}</D:prop>"
        f"<D:status>HTTP/1.1 {status}</D:status></D:propstat>"
    )


def _empty(name: tuple[str, str]) -> str:
    space, local = name
    return (
        # chr(34) is the quotation mark, which `escape` leaves by default.
        f'<X:{local} xmlns:X="{escape(space, {chr(34): "&quot;"})}"/>'
        if space
        else f'<{local} xmlns=""/>'
    )


def _printable(text: str) -> str:
    """The text without characters that XML does not allow."""
    return "".join(one if one >= " " and one not in "\ufffe\uffff" else "\ufffd" for one in text)


def _pair(name: str) -> tuple[str, str]:
    space, _, local = name.rpartition(" ")
    return ("DAV:" if space == "DAV:" else space), local


def _texts(element: _Element) -> Iterator[str]:
    yield from element.text
    for child in element.children:
        yield from _texts(child)


def _parse(body: bytes) -> _Element:
    root = _Element("")
    stack = [root]

    def start(name: str, _: dict[str, str]) -> None:
        if len(stack) > _DEEPEST:
            raise Malformed(f"request body: more than {_DEEPEST} elements in each other")
        element = _Element(name)
        stack[-1].children.append(element)
        stack.append(element)

    def refuse(*_: object) -> None:
        raise Malformed("request body: a document type is not taken")

    # The separator between namespace and name.
    parser = expat.ParserCreate("utf-8", " ")
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: stack.pop()
    parser.CharacterDataHandler = lambda text: stack[-1].text.append(text)
    # Without a document type there are no entities, and no expansion of them.
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise Malformed(f"request body: not XML: {error}") from None
    return root.children[0]
