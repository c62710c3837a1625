from __future__ import annotations

import pytest

from lading.core.s3.refusals import S3Refusal
from lading.core.s3.xml_documents import document, element, error_document, leaf, parse_document


def test_answers_are_read_again() -> None:
    content = (leaf("Key", "a<&\x01\ud800\tb"), element("In", leaf("Yes", True), leaf("N", 1)))
    root = parse_document(document("Root", content), "Root")
    assert root.value("Key") == "a<&\ufffd\ufffd\tb"
    assert (root.children[1].value("Yes"), root.children[1].value("N")) == ("true", "1")
    assert root.value("None") == ""
    error = error_document("Code", "<m>", resource="/a", request_id="id")
    assert parse_document(error, "Error").value("Message") == "<m>"


BOMB = b'<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><Root>&b;</Root>'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<Root>",
        b"<Other/>",
        b"\xff",
        BOMB,
        b'<!DOCTYPE Root SYSTEM "file:///etc/passwd"><Root/>',
        b"<Root>" + b"<a>" * 9 + b"</a>" * 9 + b"</Root>",
        b"<Root>" + b"<a/>" * 100_001 + b"</Root>",
    ],
)
def test_documents_that_are_refused(body: bytes) -> None:
    with pytest.raises(S3Refusal) as caught:
        parse_document(body, "Root")
    assert caught.value.code == "MalformedXML"
