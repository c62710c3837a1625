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
    owner = 'a <V:b xmlns:V="DAV:">c</V:b>\n'
    assert davxml.read_lock(text.format("exclusive").encode()) == (owner, False)
    assert davxml.read_lock(text.format("shared").encode()) == (owner, True)
    with pytest.raises(Malformed, match="exclusive or shared"):
        davxml.read_lock(text.format("other").encode())
    long = text.replace("c<", f"{'c' * 2000}<").format("shared").encode()
    assert davxml.read_lock(long) == (f"a {'c' * 498}", True)


def test_updates_in_their_order() -> None:
    update = (
        b'<propertyupdate xmlns="DAV:"><set><prop><a>1</a></prop></set><other/>'
        b'<remove><prop><b xmlns="n"/></prop></remove></propertyupdate>'
    )
    assert davxml.read_update(update) == (
        ("{DAV:}a", '<V:a xmlns:V="DAV:">1</V:a>'),
        ("{n}b", None),
    )
    refused = davxml.update_answer("/f", ["{DAV:}a", "{n}b"])
    assert refused.index("403 Forbidden") < refused.index("424 Failed Dependency")
    assert "200 OK" in davxml.update_answer("/f", ["{n}b"])
    assert "507 Full" in davxml.update_answer("/f", ["{n}b"], status="507 Full")


def test_a_property_is_whole_by_itself() -> None:
    update = (
        '<D:propertyupdate xmlns:D="DAV:" xmlns:n="urn:n"><D:set><D:prop>'
        '<n:a xml:lang="en" n:x="&quot;1&quot;" y="2">t &lt; <n:in/><o xmlns="urn:o">\U00010000</o>'
        "</n:a><plain/></D:prop></D:set></D:propertyupdate>"
    ).encode()
    (name, xml), (plain, bare) = davxml.read_update(update)
    assert (name, plain) == ("{urn:n}a", "{}plain")
    assert xml is not None
    assert bare is not None
    made = ElementTree.fromstring(xml)
    assert made.tag == "{urn:n}a"
    assert made.attrib == {
        "{http://www.w3.org/XML/1998/namespace}lang": "en",
        "{urn:n}x": '"1"',
        "y": "2",
    }
    assert [one.tag for one in made] == ["{urn:n}in", "{urn:o}o"]
    assert made.text == "t < "
    kept = {name: xml, plain: bare}
    assert davxml.checked(kept) == kept
    # Written to the record by others.
    for evil in ("<a/><b/>", "</D:prop>", '<V:a xmlns:V="urn:n"', "text", xml.replace("V:", "W:")):
        assert davxml.checked({name: evil}) == {}
    assert davxml.checked({"{urn:n}other": xml}) == {}


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
