"""XML of S3: reading of documents that clients send, and writing of answers.

A document of a client is small, UTF-8, without a document type, so that it cannot define entities,
and neither deep nor of many elements. Names are read without their namespace: clients send several.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Final
from xml.parsers import expat
from xml.sax.saxutils import escape

from lading.core.s3.refusals import S3Refusal

NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"
_HEAD: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
_DEEPEST: Final = 8
# A document of 10,000 parts has some 50,000 elements, with a checksum of each.
_MOST_ELEMENTS: Final = 100_000


@dataclass(slots=True)
class XmlElement:
    """An element: its name without namespace, its text as `content`, and the elements in it."""

    name: str
    content: str = ""
    children: list[XmlElement] = field(default_factory=list["XmlElement"])

    def value(self, name: str) -> str:
        """The text of the first child with a name; "" without one."""
        return next((child.content for child in self.children if child.name == name), "")


def parse_document(body: bytes, root_name: str) -> XmlElement:
    """The root of a document of a client. Raises S3Refusal."""
    root = XmlElement("")
    stack, numbers, pieces = [root], count(1), [list[str]()]

    def start(name: str, _: dict[str, str]) -> None:
        if len(stack) > _DEEPEST or next(numbers) > _MOST_ELEMENTS:
            raise _malformed("it is too deep or too large")
        element = XmlElement(name.rpartition(" ")[2])
        stack[-1].children.append(element)
        stack.append(element)
        pieces.append([])

    def end(_: str) -> None:
        stack.pop().content = "".join(pieces.pop())

    def refuse(*_: object) -> None:
        raise _malformed("a document type is not taken")

    # The separator between namespace and name.
    parser = expat.ParserCreate("utf-8", " ")
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = lambda characters: pieces[-1].append(characters)
    # Without a document type there are no entities, and no expansion of them.
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise _malformed(f"it is not XML ({error})") from None
    document = root.children[0]
    if document.name != root_name:
        raise _malformed(f"its root must be {root_name}")
    return document


def _malformed(fault: str) -> S3Refusal:
    return S3Refusal("MalformedXML", f"the document is malformed: {fault}")


def element(name: str, *content: str) -> str:
    """An element with content that is XML already."""
    return f"<{name}>{''.join(content)}</{name}>"


def leaf(name: str, value: str | int | bool) -> str:
    """An element with a value; characters that XML does not allow are replaced."""
    if isinstance(value, bool):
        return element(name, "true" if value else "false")
    return element(name, escape(_printable(str(value))))


def document(name: str, content: Iterable[str]) -> bytes:
    """An answer in the namespace of S3."""
    return f'{_HEAD}<{name} xmlns="{NAMESPACE}">{"".join(content)}</{name}>\n'.encode()


def error_document(code: str, message: str, *, resource: str, request_id: str) -> bytes:
    """An error as clients of S3 read it."""
    content = (
        leaf("Code", code),
        leaf("Message", message),
        leaf("Resource", resource),
        leaf("RequestId", request_id),
    )
    return f"{_HEAD}{element('Error', *content)}\n".encode()


def _printable(value: str) -> str:
    return "".join(
        character
        if (character >= " " and character not in "\ufffe\uffff" and not _is_surrogate(character))
        or character in "\t\n\r"
        else "\ufffd"
        for character in value
    )


def _is_surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"
