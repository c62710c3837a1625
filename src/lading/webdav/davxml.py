"""XML of WebDAV: parsing of request bodies and streaming of responses.

Request bodies must be small, UTF-8 and without a document type, so that they cannot define
entities. Source: RFC 4918, 14 and 15.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final
from xml.parsers import expat
from xml.sax.saxutils import escape

from lading.core.data.dead_properties import Change
from lading.core.data.filetree import File, Node
from lading.core.errors import Malformed
from lading.fileserving.conditions import http_date
from lading.fileserving.media_types import media_type_of as type_of
from lading.webdav.locks import Lock

CONTENT_TYPE: Final = "application/xml; charset=utf-8"
# Bytes of a request body.
MAX_DOCUMENT: Final = 1 << 16
_DAV: Final = "DAV: "
# The namespace of xml:lang.
_XML: Final = "http://www.w3.org/XML/1998/namespace"
_HEAD: Final = '<?xml version="1.0" encoding="utf-8"?>\n'
# Resources per piece.
_BATCH: Final = 200
# Nested elements; deeper documents are refused, as `_texts` recurses.
_DEEPEST: Final = 32
_LOCK_ENTRIES: Final = "".join(
    f"<D:lockentry><D:lockscope><D:{scope}/></D:lockscope>"
    "<D:locktype><D:write/></D:locktype></D:lockentry>"
    for scope in ("exclusive", "shared")
)
# Characters of the owner of a lock, which is shown to others.
_MOST_OWNER: Final = 1000


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
    """A file or directory at an encoded address; `dead` are its properties that clients have set,
    as XML by name.
    """

    href: str
    name: str
    node: Node
    tag: str = ""
    modified: datetime | None = None
    locks: tuple[Lock, ...] = ()
    dead: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class _Element:
    name: str
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    parts: list[_Element | str] = field(default_factory=list["_Element | str"])

    @property
    def children(self) -> list[_Element]:
        """The elements in it, without the text between them."""
        return [content for content in self.parts if isinstance(content, _Element)]


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
                    tuple(_pair(prop.name) for prop in child.children)
                    if kind is PropfindKind.SOME
                    else (),
                )
    raise Malformed("request body: expected a DAV: propfind with prop, propname or allprop")


def read_update(body: bytes) -> tuple[Change, ...]:
    """The properties that a PROPPATCH sets or removes, in its order. Raises Malformed."""
    root = _parse(body)
    if root.name != f"{_DAV}propertyupdate":
        raise Malformed("request body: expected a DAV: propertyupdate")
    return tuple(
        (_named(*_pair(named.name)), "".join(_xml(named)) if change.name == f"{_DAV}set" else None)
        for change in root.children
        # Other elements are ignored (RFC 4918, 17).
        if change.name in (f"{_DAV}set", f"{_DAV}remove")
        for prop in change.children
        if prop.name == f"{_DAV}prop"
        for named in prop.children
    )


def read_lock(body: bytes) -> tuple[str, bool]:
    """The content of the owner element of a LOCK as XML, and whether the lock is shared. Raises
    Malformed.
    """
    root = _parse(body)
    kinds = {child.name: child for child in root.children}
    scope = kinds.get(f"{_DAV}lockscope")
    if (
        root.name != f"{_DAV}lockinfo"
        or scope is None
        or len(scope.children) != 1
        or scope.children[0].name not in (f"{_DAV}exclusive", f"{_DAV}shared")
    ):
        raise Malformed("request body: expected a DAV: lockinfo with lockscope exclusive or shared")
    is_shared = scope.children[0].name == f"{_DAV}shared"
    owner = kinds.get(f"{_DAV}owner")
    return ("" if owner is None else _owner(owner)), is_shared


def _owner(element: _Element) -> str:
    """The content of an owner element, as its client has it; a long one as text, cut."""
    xml = "".join(
        escape(content) if isinstance(content, str) else "".join(_xml(content))
        for content in element.parts
    )
    if len(xml) <= _MOST_OWNER:
        return xml
    return escape(" ".join("".join(_texts(element)).split())[: _MOST_OWNER // 2])


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


def checked(dead: Mapping[str, str]) -> dict[str, str]:
    """The properties whose XML is as this server writes it: others write to the record, too."""
    return {name: xml for name, xml in dead.items() if _is_own(name, xml)}


def _is_own(name: str, xml: str) -> bool:
    try:
        element = _parse(xml.encode("utf-8", "replace"))
    except Malformed:
        return False
    return _named(*_pair(element.name)) == name and "".join(_xml(element)) == xml


def is_protected(name: str) -> bool:
    """Whether a property is one of the server's, which no client sets."""
    return name.startswith("{DAV:}")


def update_answer(href: str, names: Iterable[str], *, status: str = "") -> str:
    """Body of the 207 response to a PROPPATCH: all properties are changed, or none. None is changed
    with a `status` or with a protected property.
    """
    each = [*dict.fromkeys(names)]
    protected = each if status else [name for name in each if is_protected(name)]
    others = [name for name in each if name not in protected]
    shown = ""
    if protected:
        shown += _propstat("".join(map(_empty, map(_split, protected))), status or "403 Forbidden")
    if others:
        outcome = "424 Failed Dependency" if protected else "200 OK"
        shown += _propstat("".join(map(_empty, map(_split, others))), outcome)
    head = f'{_HEAD}<D:multistatus xmlns:D="DAV:">\n'
    return (
        f"{head}<D:response><D:href>{escape(href)}</D:href>{shown}</D:response></D:multistatus>\n"
    )


def lock_answer(lock: Lock, href: str) -> str:
    """The body of the response to a LOCK."""
    found = f"<D:lockdiscovery>{_active(lock, href)}</D:lockdiscovery>"
    return f'{_HEAD}<D:prop xmlns:D="DAV:">{found}</D:prop>\n'


def _response(resource: Resource, question: Question) -> str:
    properties = _properties(resource)
    names: Sequence[tuple[str, str]] = question.names
    if question.kind is not PropfindKind.SOME:
        names = (*(("DAV:", name) for name in properties), *map(_split, resource.dead))
    live = [name for space, name in names if space == "DAV:" and name in properties]
    dead = [name for name in names if _named(*name) in resource.dead]
    if question.kind is PropfindKind.NAMES:
        live_xml = "".join([*(_live(name, "") for name in live), *map(_empty, dead)])
    else:
        live_xml = "".join(_live(name, properties[name]) for name in live)
        live_xml += "".join(resource.dead[_named(*name)] for name in dead)
    # Properties that do not exist here are answered with 404 in the same response.
    present = {*(("DAV:", name) for name in live), *dead}
    lacking = "".join(_empty(name) for name in names if name not in present)
    parts = _propstat(live_xml, "200 OK") if live_xml or not lacking else ""
    parts += _propstat(lacking, "404 Not Found") if lacking else ""
    return f"<D:response><D:href>{escape(resource.href)}</D:href>{parts}</D:response>\n"


def _live(name: str, value: str) -> str:
    return f"<D:{name}>{value}</D:{name}>" if value else f"<D:{name}/>"


def _properties(resource: Resource) -> dict[str, str]:
    properties = {
        "displayname": escape(_printable(resource.name)),
        "resourcetype": "" if isinstance(resource.node, File) else "<D:collection/>",
        "supportedlock": _LOCK_ENTRIES,
        "lockdiscovery": "".join(_active(lock, resource.href) for lock in resource.locks),
    }
    if resource.modified is not None:
        properties["getlastmodified"] = http_date(resource.modified)
        properties["creationdate"] = resource.modified.strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(resource.node, File):
        properties["getcontentlength"] = str(resource.node.size)
        properties["getcontenttype"] = escape(type_of(resource.name))
        properties["getetag"] = escape(f'"{resource.tag}"')
    return properties


def _active(lock: Lock, href: str) -> str:
    depth = "infinity" if lock.deep else "0"
    owner = f"<D:owner>{lock.owner}</D:owner>" if lock.owner else ""
    scope = "shared" if lock.shared else "exclusive"
    return (
        "<D:activelock><D:locktype><D:write/></D:locktype>"
        f"<D:lockscope><D:{scope}/></D:lockscope>"
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


def _printable(string: str) -> str:
    """The text without characters that XML does not allow."""
    return "".join(
        character if character >= " " and character not in "\ufffe\uffff" else "\ufffd"
        for character in string
    )


def _pair(name: str) -> tuple[str, str]:
    space, _, local = name.rpartition(" ")
    return ("DAV:" if space == "DAV:" else space), local


def _named(space: str, local: str) -> str:
    return f"{{{space}}}{local}"


def _split(name: str) -> tuple[str, str]:
    space, _, local = name[1:].rpartition("}")
    return space, local


def _texts(element: _Element) -> Iterator[str]:
    for content in element.parts:
        if isinstance(content, str):
            yield content
        else:
            yield from _texts(content)


def _xml(element: _Element) -> Iterator[str]:
    """An element as XML. Each element declares its own namespace."""
    space, local = _pair(element.name)
    opened = f'V:{local} xmlns:V="{_quoted(space)}"' if space else f'{local} xmlns=""'
    for number, (name, value) in enumerate(sorted(element.attributes.items())):
        above, own = _pair(name)
        if above == _XML:
            opened += f' xml:{own}="{_quoted(value)}"'
        elif above:
            opened += f' xmlns:A{number}="{_quoted(above)}" A{number}:{own}="{_quoted(value)}"'
        else:
            opened += f' {own}="{_quoted(value)}"'
    if not element.parts:
        yield f"<{opened}/>"
        return
    yield f"<{opened}>"
    for content in element.parts:
        if isinstance(content, str):
            yield escape(content)
        else:
            yield from _xml(content)
    yield f"</{'V:' if space else ''}{local}>"


def _quoted(value: str) -> str:
    return escape(value, {chr(34): "&quot;", "\n": "&#10;", "\t": "&#9;", "\r": "&#13;"})


def _parse(body: bytes) -> _Element:
    root = _Element("")
    stack = [root]

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(stack) > _DEEPEST:
            raise Malformed(f"request body: more than {_DEEPEST} elements in each other")
        element = _Element(name, attributes)
        stack[-1].parts.append(element)
        stack.append(element)

    def refuse(*_: object) -> None:
        raise Malformed("request body: a document type is not taken")

    # The separator between namespace and name.
    parser = expat.ParserCreate("utf-8", " ")
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: stack.pop()
    parser.CharacterDataHandler = lambda characters: stack[-1].parts.append(characters)
    # Without a document type there are no entities, and no expansion of them.
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise Malformed(f"request body: not XML: {error}") from None
    return root.children[0]
