from __future__ import annotations

import io
import subprocess
import tarfile
import zipfile
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree, Node, Segment
from lading.webdav import archives
from lading.webdav.archives import Format
from tests.reality import need_program

NOW = datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)
LONG = "n" * 200
TREE = filetree.from_files(
    {
        "a": File((Segment("x", 0, 3),)),
        "d/ü": File(),
        "empty": FileTree(),
        f"{LONG}/{LONG}/{LONG}": File((Segment("y", 0, 7),)),
    }
)


async def read(file: File) -> AsyncGenerator[bytes]:
    for segment in file.segments:
        yield segment.locator.encode() * segment.length


async def packed(form: Format, tree: FileTree = TREE, modified: datetime | None = NOW) -> bytes:
    return b"".join(
        [piece async for piece in archives.stream_archive(form, tree, read=read, modified=modified)]
    )


async def test_zip(tmp_path: Path) -> None:
    data = await packed(Format.ZIP)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [
            "a",
            "d/",
            "d/ü",
            "empty/",
            f"{LONG}/",
            f"{LONG}/{LONG}/",
            f"{LONG}/{LONG}/{LONG}",
        ]
        assert archive.read("a") == b"xxx"
        assert archive.getinfo("a").date_time == (2026, 1, 2, 3, 4, 6)
        archive.extractall(tmp_path)
    assert (tmp_path / "empty").is_dir()
    assert data == await packed(Format.ZIP)


async def test_unzip_takes_it(tmp_path: Path) -> None:
    need_program("unzip")
    (tmp_path / "a.zip").write_bytes(await packed(Format.ZIP))
    assert (
        b"No errors detected"
        in subprocess.run(["unzip", "-t", "a.zip"], cwd=tmp_path, capture_output=True).stdout
    )


async def test_tar() -> None:
    data = await packed(Format.TAR)
    assert len(data) % 10240 == 0
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        assert [one.name for one in archive] == [path for path, _ in filetree.walk(TREE)]
        content = archive.extractfile(f"{LONG}/{LONG}/{LONG}")
        assert content is not None
        assert content.read() == b"yyyyyyy"
        assert archive.getmember("a").mtime == int(NOW.timestamp())


@pytest.mark.parametrize(
    "modified", [None, datetime(1960, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)]
)
async def test_times_that_a_zip_does_not_have(modified: datetime | None) -> None:
    with zipfile.ZipFile(io.BytesIO(await packed(Format.ZIP, modified=modified))) as archive:
        assert archive.getinfo("a").date_time[0] == 1980
    assert await packed(Format.TAR, modified=None)


async def test_large_sizes_and_many_members(monkeypatch: pytest.MonkeyPatch) -> None:
    # The same paths as of 4 GiB and 65,535 members, with limits that a test reaches.
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 3)
    nodes: dict[str, Node] = {f"f{number}": File((Segment("z", 0, number),)) for number in range(5)}
    data = await packed(Format.ZIP, filetree.from_files(nodes))
    assert b"PK\6\6" in data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert [one.file_size for one in archive.infolist()] == [0, 1, 2, 3, 4]


async def test_a_member_of_more_than_four_gigabytes(tmp_path: Path) -> None:
    size = (4 << 30) + 5
    tree = filetree.from_files(
        {"big": File((Segment("x", 0, size),)), "small": File((Segment("y", 0, 3),))}
    )
    piece = bytes(1 << 24)

    async def zeros(file: File) -> AsyncGenerator[bytes]:
        for start in range(0, file.size, len(piece)):
            yield piece[: min(len(piece), file.size - start)]

    sparse = tmp_path / "big.zip"
    with sparse.open("wb") as target:
        async for part in archives.stream_archive(Format.ZIP, tree, read=zeros, modified=NOW):
            # Zeros are holes, so that this takes no room.
            target.seek(len(part), 1) if part is piece else target.write(part)
    with zipfile.ZipFile(sparse) as archive:
        assert [one.file_size for one in archive.infolist()] == [size, 3]
        assert archive.read("small") == b"\0\0\0"
        assert archive.getinfo("small").header_offset > 4 << 30
