"""Forms in several parts."""

from __future__ import annotations

import pytest

from lading.core.errors import Malformed
from lading.core.protocols.http_head import MOST_FIELDS as MOST
from lading.core.protocols.http_head import parse_form as parse

TYPE = "multipart/form-data; boundary=----WebKitFormBoundaryq7"


def body(*fields: str, line: str = "------WebKitFormBoundaryq7") -> bytes:
    parts = "".join(f"{line}\r\nContent-Disposition: form-data; {field}\r\n" for field in fields)
    return f"{parts}{line}--\r\n".encode()


def test_names_and_values_in_order() -> None:
    given = body(
        'name="_method"\r\n\r\nGET',
        'name="filters"\r\n\r\n[["a","=","é\r\n--"]]',
        'name="e\\"x"\r\n\r\n',
    )
    assert parse(given, TYPE) == [
        ("_method", "GET"),
        ("filters", '[["a","=","é\r\n--"]]'),
        ('e"x', ""),
    ]
    assert parse(body(), TYPE) == []


def test_a_boundary_in_quotes_and_a_preamble() -> None:
    given = b"nobody reads this\r\n" + body(
        'name="a"\r\nContent-Type: text/plain\r\n\r\n1', line="--a b"
    )
    assert parse(given, 'Multipart/Form-Data; Boundary="a b"; charset=utf-8') == [("a", "1")]


@pytest.mark.parametrize(
    ("given", "media", "why"),
    [
        (body(), "multipart/form-data", "boundary"),
        (b"", TYPE, "ends without"),
        (body('name="a"\r\n\r\n1')[:-4], TYPE, "ends without"),
        (body(*['name="a"\r\n\r\n1'] * (MOST + 1)), TYPE, "more than"),
        (body('name="a"; filename="f"\r\n\r\n1'), TYPE, "not a file"),
        (body("\r\n\r\n1"), TYPE, "not a file"),
        (body('name="a"'), TYPE, "not a file"),
        (body('name="a"\r\nContent-Disposition: form-data; name="b"\r\n\r\n1'), TYPE, "not a file"),
        (body('name="a"\r\n\r\n').replace(b'"a"\r\n\r\n', b'"a"\r\n\r\n\xff'), TYPE, "utf-8"),
    ],
)
def test_what_cannot_be_read(given: bytes, media: str, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        parse(given, media)


def test_as_many_parts_as_parameters_of_a_form() -> None:
    assert len(parse(body(*['name="a"\r\n\r\n1'] * MOST), TYPE)) == MOST
