"""Files of the site as streams."""

from __future__ import annotations

import io
from uuid import uuid4

import pytest

import lading
from lading.client.remote_files.streams import StoredWriter, buffered, open_stream
from lading.core.errors import Invalid


def test_a_reader_seeks(site: lading.Site) -> None:
    address = f"c{uuid4().hex}/a"
    site.call(site.files.write(address, bytes(range(100))))
    with buffered(open_stream(site, address, "r")) as stream:
        assert stream.readable()
        assert stream.seekable()
        assert stream.seek(10) == 10
        assert stream.read(3) == bytes([10, 11, 12])
        assert stream.seek(-1, io.SEEK_END) == 99
        assert stream.read() == bytes([99])
        assert stream.read() == b""
        assert stream.seek(-2, io.SEEK_CUR) == 98
        with pytest.raises(ValueError, match="no position"):
            stream.seek(-200, io.SEEK_END)


def test_a_writer_commits_at_its_close_unless_it_is_dropped(site: lading.Site) -> None:
    address = f"c{uuid4().hex}/a"
    stream = open_stream(site, address, "w")
    assert isinstance(stream, StoredWriter)
    assert stream.writable()
    assert stream.write(b"12") == 2
    assert stream.tell() == 2
    stream.close()
    stream.close()
    assert site.call(site.files.read(address)) == b"12"
    dropped = open_stream(site, address, "w")
    assert isinstance(dropped, StoredWriter)
    dropped.write(b"3")
    dropped.discard()
    assert site.call(site.files.read(address)) == b"12"
    with pytest.raises(Invalid, match="write r, w, x or a"):
        open_stream(site, address, "q")
