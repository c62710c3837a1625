"""Requests, forms and ranges as the daemon reads them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import Invalid, Malformed
from lading.core.protocols.daemon_http import (
    MOST_PARTS,
    FormPart,
    RequestHead,
    byte_range,
    form_parts,
    media_type,
    parse_head,
    waiting_time,
)


def test_a_head_is_read() -> None:
    head = parse_head(
        b"POST /v1/command?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\nX-Y:  z \r\nX-Y: w"
    )
    assert head == RequestHead(
        "POST", "/v1/command", {"host": "a", "content-length": "12", "x-y": "w"}, True
    )
    assert head.length == 12


def test_bodies_have_a_length_or_chunks() -> None:
    assert parse_head(b"GET / HTTP/1.0").length == 0
    assert not parse_head(b"GET / HTTP/1.0").keep_alive
    assert not parse_head(b"GET / HTTP/1.1\r\nConnection: Close").keep_alive
    assert parse_head(b"POST / HTTP/1.1\r\nTransfer-Encoding: Chunked").length is None


@pytest.mark.parametrize(
    "data",
    [
        b"", b"GET /", b"get / HTTP/1.1", b"GET / HTTP/2.0", b"GET /\x80 HTTP/1.1",
        b"GET / HTTP/1.1\r\n: x", b"GET / HTTP/1.1\r\nA : x", b"GET / HTTP/1.1\r\nA: x\r\n folded",
        b"GET / HTTP/1.1\r\nA: \0", b"GET / HTTP/1.1\r\nAuthorization: a\r\nauthorization: b",
        b"GET / HTTP/1.1\r\nContent-Length: -1",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip",
    ],
)  # fmt: skip
def test_what_could_be_read_in_two_ways_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_head(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_head_or_refused(data: bytes) -> None:
    with contextlib.suppress(Malformed):
        assert parse_head(data).method.isupper()


def test_media_types_are_read_with_quotes() -> None:
    assert media_type('Multipart/Form-Data; boundary="a\\"b"; charset=utf-8') == (
        "multipart/form-data",
        {"boundary": 'a"b', "charset": "utf-8"},
    )
    assert media_type("") == ("", {})


FORM = (
    b'preamble\r\n--XX\r\nContent-Disposition: form-data; name="a"; filename="one.txt"\r\n'
    b"Content-Type: text/plain\r\n\r\n1\r\n2\r\n--XX\r\n"
    b"X: y\r\ncontent-disposition: form-data; name=b; filename*=UTF-8''%C3%A4\r\n\r\n\r\n--XX--\r\n"
)


def test_forms_are_read_by_offset() -> None:
    one, two = form_parts(FORM, "XX")
    assert (one.name, one.filename, FORM[one.start : one.end]) == ("a", "one.txt", b"1\r\n2")
    assert (two.name, two.filename, FORM[two.start : two.end]) == ("b", "ä", b"")
    plain = b'--X\r\nContent-Disposition: form-data; name="k"\r\n\r\nv\r\n--X--'
    assert form_parts(plain, "X") == [FormPart("k", None, 49, 50)]
    assert form_parts(b"--X--", "X") == []


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (b'; name=f; filename="a.txt"', "a.txt"),
        (b'; name="f"; filename="a;b.txt";', "a;b.txt"),
        (b'; name="f"; filename=""', ""),
        (b'; name="f" ; filename = a.txt', "a.txt"),
        # Not escaped, as browsers send it; escaped, as libraries do.
        (b'; name="f"; filename="C:\\Users\\me\\in.txt"', r"C:\Users\me\in.txt"),
        (b'; name="f"; filename="C:\\\\in.txt"', r"C:\in.txt"),
        (b'; name="f"; filename="end\\"', "end\\"),
        (b'; name="f"; filename="say \\"a\\".txt"', 'say "a".txt'),
        # Folded lines, which mail libraries write.
        (b';\r\n name="f";\r\n\tfilename="a.txt"', "a.txt"),
        (b'; name="f"; filename="\xc3\xa4.txt"', "\xe4.txt"),
        (b'; name="f"; filename="\xe4.txt"', "\xe4.txt"),
        (b"; name=\"f\"; filename=a; filename*=iso-8859-1'de'%E4.txt", "\xe4.txt"),
        (b"; name=\"f\"; filename=a; filename*=UTF-16''%E4.txt", "a"),
    ],
)
def test_names_of_files_are_read_as_clients_write_them(header: bytes, name: str) -> None:
    body = b"--X\r\nContent-Disposition: form-data" + header + b"\r\n\r\nv\r\n--X--"
    (part,) = form_parts(body, "X")
    assert (part.name, part.filename) == ("f", name)


@pytest.mark.parametrize(
    ("body", "boundary"),
    [
        (b"", ""), (b"", "b\xe4d"), (b"nothing", "X"), (b"--Xy", "X"), (b"--X\r\n", "X"),
        (b"--X\r\nA: b\r\n\r\nno end", "X"),
        (b"--X\r\nA: b\r\n\r\nx\r\n--X--", "X"),
        (b"--X\r\nContent-Disposition: form-data\r\n\r\nx\r\n--X--", "X"),
        (b"--X\r\nContent-Disposition: file; name=a\r\n\r\nx\r\n--X--", "X"),
        (b'--X\r\nContent-Disposition: form-data; name=a; filename="x"y"\r\n\r\nx\r\n--X--', "X"),
        (b"--X\r\nContent-Disposition: form-data;filename*=utf-8''%E4;name=a\r\n\r\n\r\n--X", "X"),
    ],
)  # fmt: skip
def test_broken_forms_are_refused(body: bytes, boundary: str) -> None:
    with pytest.raises(Invalid):
        form_parts(body, boundary)


def test_a_form_of_very_many_parts_is_refused() -> None:
    part = b"--X\r\nContent-Disposition: form-data; name=n\r\n\r\n\r\n"
    assert len(form_parts(part * MOST_PARTS + b"--X--", "X")) == MOST_PARTS
    with pytest.raises(Invalid, match="more than 10000 parts"):
        form_parts(part * (MOST_PARTS + 1) + b"--X--", "X")


@given(st.lists(st.binary(max_size=30), max_size=4))
def test_contents_come_back_whole(contents: list[bytes]) -> None:
    body = b"".join(
        b"--q0\r\nContent-Disposition: form-data; name=n\r\n\r\n" + one + b"\r\n"
        for one in contents
    )
    if not any(b"--q0" in one for one in contents):
        body += b"--q0--\r\n"
        assert [body[part.start : part.end] for part in form_parts(body, "q0")] == contents


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("", (0, 10)), ("bytes=2-4", (2, 5)), ("bytes=7-", (7, 10)), ("bytes=-3", (7, 10)),
        ("bytes=-30", (0, 10)), ("bytes=5-99", (5, 10)), ("bytes=10-", (10, 10)),
        ("bytes=11-", None), ("bytes=5-3", None), ("bytes=-", (0, 10)), ("lines=1-2", (0, 10)),
    ],
)  # fmt: skip
def test_ranges_are_cut_to_what_is_there(text: str, span: tuple[int, int] | None) -> None:
    assert byte_range(text, 10) == span


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [
        ("wait=5", 5),
        ("respond-async, Wait = 7", 7),
        ("wait=900", 60),
        ("", 0),
        ("await=5", 0),
        ("wait=x", 0),
    ],
)
def test_how_long_an_answer_may_take(prefer: str, seconds: float) -> None:
    assert waiting_time(prefer) == seconds
