from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.data.filetree import File, FileTree, Segment
from lading.core.errors import Malformed
from lading.webdav import davxml
from lading.webdav.davxml import PropfindKind, Question, Resource

FILE = Resource(
    href="/f",
    name="f.txt",
    node=File((Segment("x", 0, 5),)),
    tag="t",
    modified=datetime(2026, 1, 2, tzinfo=UTC),
)
ALL = Question(PropfindKind.ALL)


def test_questions() -> None:
    assert davxml.read_question(b"") == ALL
    assert davxml.read_question(b'<propfind xmlns="DAV:"><propname/></propfind>') == Question(
        PropfindKind.NAMES
    )
    body = (
        b'<D:propfind xmlns:D="DAV:"><D:prop><D:getetag/><x xmlns="u:r"/><y/></D:prop></D:propfind>'
    )
    assert davxml.read_question(body) == Question(
        PropfindKind.SOME, (("DAV:", "getetag"), ("u:r", "x"), ("", "y"))
    )


@pytest.mark.parametrize(
    "body", [b"<a/>", b"<a", b"\xff\xfe<a/>", b"<!DOCTYPE a><a/>", b"<a>" * 99, b"", b"\0"]
)
def test_what_cannot_be_read(body: bytes) -> None:
    readers = (
        (davxml.read_update, davxml.read_lock)
        if not body
        else (davxml.read_question, davxml.read_lock)
    )
    for read in readers:
        with pytest.raises(Malformed):
            read(body)


def test_locks_and_updates() -> None:
    text = (
        '<lockinfo xmlns="DAV:"><lockscope><{}/></lockscope><owner>a <b>c</b>\n</owner></lockinfo>'
    )
    assert davxml.read_lock(text.format("exclusive").encode()) == "a c"
    with pytest.raises(Malformed, match="exclusive"):
        davxml.read_lock(text.format("shared").encode())
    update = (
        b'<propertyupdate xmlns="DAV:"><set><prop><a/></prop></set>'
        b"<remove><prop><b/></prop></remove></propertyupdate>"
    )
    assert davxml.read_update(update) == (("DAV:", "a"), ("DAV:", "b"))
    assert "403 Forbidden" in davxml.refused_update("/f", (("DAV:", "a"),))


def answer(*resources: Resource, question: Question = ALL) -> ElementTree.Element:
    return ElementTree.fromstring("".join(davxml.multistatus(resources, question)))


def test_properties() -> None:
    found = answer(FILE, Resource(href="/d/", name="d", node=FileTree()))
    assert [one.text for one in found.iter("{DAV:}href")] == ["/f", "/d/"]
    assert [one.text for one in found.iter("{DAV:}getcontentlength")] == ["5"]
    assert [one.text for one in found.iter("{DAV:}getetag")] == ['"t"']
    assert len(list(found.iter("{DAV:}collection"))) == 1
    names = answer(FILE, question=Question(PropfindKind.NAMES))
    assert [one.text for one in names.iter("{DAV:}getetag")] == [None]


@given(st.text(), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{}")))
def test_every_name_makes_xml(name: str, space: str) -> None:
    question = Question(
        PropfindKind.SOME,
        (("DAV:", "displayname"), ("u:" + "".join(filter(str.isprintable, space)), "x")),
    )
    plain = name.encode("utf-8", "replace").decode()
    answer(Resource(href="/f", name=plain, node=File()), question=question)


def test_many_resources_come_in_pieces() -> None:
    pieces = list(davxml.multistatus([FILE] * 450, ALL))
    assert len(pieces) == 4
