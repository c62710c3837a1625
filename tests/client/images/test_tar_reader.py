"""Archives of strangers are read in bounded memory; the attacks are in tests/security."""

from __future__ import annotations

import io
import tarfile
from typing import Any

import pytest

from lading.client.images.tar_reader import ArchiveRefused, TarReader, members


def _archive(
    *found: tarfile.TarInfo, format: int = tarfile.PAX_FORMAT, **headers: str
) -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=format, pax_headers=headers) as archive:
        for one in found:
            archive.addfile(one, io.BytesIO(bytes(one.size)))
    made.seek(0)
    return made


def _names(file: io.BytesIO, mode: Any = "r:", most: int = 100) -> list[str]:
    with TarReader.open(fileobj=file, mode=mode) as archive:
        found = []
        for member in members(archive, most=most):
            found.append(member.name)
            assert vars(archive)["members"] == []
        return found


@pytest.mark.parametrize("mode", ["r:", "r|"])
def test_members_come_in_turn_and_are_forgotten(mode: str) -> None:
    found = [tarfile.TarInfo("a"), tarfile.TarInfo("long/" * 50 + "b"), tarfile.TarInfo("c")]
    found[0].size = 9999
    assert _names(_archive(*found, format=tarfile.GNU_FORMAT, comment="all"), mode) == [
        one.name for one in found
    ]
    assert _names(_archive(*found, comment="all"), mode) == [one.name for one in found]


def test_their_number_is_bounded() -> None:
    assert _names(_archive(*map(tarfile.TarInfo, "ab")), most=2) == ["a", "b"]
    with pytest.raises(ArchiveRefused, match="more than 1 members"):
        _names(_archive(*map(tarfile.TarInfo, "ab")), most=1)


def test_a_map_of_a_sparse_file_is_read_and_bounded() -> None:
    member = tarfile.TarInfo("sparse")
    member.size = 512
    member.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.realsize": "4096",
    }
    head = _archive(member).getvalue()[:1536]
    data = b"1\n4096\n0\n"
    assert _names(io.BytesIO(head + data.ljust(512, b"\0") + bytes(1024))) == ["sparse"]
    with pytest.raises(ArchiveRefused, match="headers of a member have more"):
        _names(io.BytesIO(head + b"9999999\n" + b"0\n" * (1 << 20)))


def test_headers_are_bounded() -> None:
    def header(kind: bytes, size: int) -> bytes:
        made = tarfile.TarInfo("x")
        made.type, made.size = kind, size
        return made.tobuf(tarfile.GNU_FORMAT)

    with pytest.raises(ArchiveRefused, match="a header of 1073741824 bytes"):
        _names(io.BytesIO(header(tarfile.XHDTYPE, 1 << 30)))
    chain = (header(tarfile.GNUTYPE_LONGNAME, 512) + bytes(512)) * 20
    with pytest.raises(ArchiveRefused, match="more than 16 headers"):
        _names(io.BytesIO(chain))
    plain = tarfile.TarInfo("plain").tobuf()
    wide = b"".join(
        tarfile.TarInfo.create_pax_global_header({f"k{one}": "v" * 30000}) + plain
        for one in range(40)
    )
    with pytest.raises(ArchiveRefused, match="for all members"):
        _names(io.BytesIO(wide))
