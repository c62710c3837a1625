"""Backup while records and blocks are written, and restoration that verifies."""

from __future__ import annotations

import asyncio
import os
import tarfile
from hashlib import md5
from io import BytesIO
from pathlib import Path

import pytest
import yaml

from lading.blobs.directory import DirectoryVolume
from lading.core.errors import Conflict, Corrupt, Invalid, NotFound, Unavailable
from lading.core.records.record_types import COLLECTIONS
from lading.store import records, schema
from lading.store.databases.seal import Seal
from lading.store.databases.sqlite import SqliteDatabase
from lading.wiring.backup import backup, restore
from lading.wiring.directory import DataDirectory


def quiet(done: int, total: int) -> None:
    assert 0 <= done <= total


def opened(directory: DataDirectory) -> SqliteDatabase:
    return SqliteDatabase(directory.database, seal=Seal("root", entropy=os.urandom))


async def store(database: SqliteDatabase, directory: DataDirectory, number: int) -> str:
    """A block, and then a collection that names it; the block's hash."""
    data = str(number).encode()
    name = md5(data, usedforsecurity=False).hexdigest()
    await DirectoryVolume(directory.blocks, reserve=0).put(name, data)
    async with database.writing() as tx:
        text = f". {name}+{len(data)} 0:{len(data)}:f\n"
        await records.insert(
            tx,
            COLLECTIONS,
            {"uuid": str(number), "portable_data_hash": name, "manifest_text": text},
        )
    return name


@pytest.fixture
async def directory(tmp_path: Path) -> DataDirectory:
    made = DataDirectory(tmp_path / "data")
    made.prepare()
    made.secrets(entropy=os.urandom(400))
    database = opened(made)
    await schema.prepare(database, now="now")
    for number in range(5):
        await store(database, made, number)
    await database.close()
    return made


async def test_what_was_there_when_it_began_comes_back_while_more_is_written(
    directory: DataDirectory,
) -> None:
    database, file, again = (
        opened(directory),
        directory.root.with_name("b"),
        DataDirectory(directory.root.with_name("r")),
    )
    working = asyncio.create_task(asyncio.to_thread(backup, directory, file, progress=quiet))
    number = 5
    while not working.done():
        await store(database, directory, number)
        number += 1
    await database.close()
    assert (await working).blocks >= 5
    assert file.stat().st_mode & 0o777 == 0o600
    made = restore(file, again, progress=quiet)
    assert (made.damaged, made.missing) == ((), ())
    assert again.secrets() == directory.secrets()
    copy = opened(again)
    async with copy.reading() as tx:
        found = {row["uuid"] for row in await records.find(tx, copy.dialect, COLLECTIONS, ())}
    await copy.close()
    assert {str(one) for one in range(5)} <= found
    assert sorted(path.name for path in directory.root.parent.iterdir()) == ["b", "data", "r"]


def test_damaged_and_missing_blocks_are_told(directory: DataDirectory, tmp_path: Path) -> None:
    one, other = sorted(path for path in directory.blocks.glob("*/*") if path.parent.name != "tmp")[
        :2
    ]
    one.write_bytes(b"damaged")
    other.unlink()
    backup(directory, tmp_path / "b", progress=quiet)
    made = restore(tmp_path / "b", DataDirectory(tmp_path / "r"), progress=quiet)
    assert (made.blocks, made.damaged, made.missing) == (3, (one.name,), (other.name,))
    assert not list((tmp_path / "r").glob(f"blocks/*/{one.name}"))


def test_a_backup_that_was_cut_off_or_changed_is_refused(
    directory: DataDirectory, tmp_path: Path
) -> None:
    backup(directory, tmp_path / "b", progress=quiet)
    members = {}
    with tarfile.open(tmp_path / "b") as tar:
        for member in tar:
            file = tar.extractfile(member)
            members[member.name] = file.read() if file else b""
    for name, change in (
        ("complete.json", None),
        ("db.sqlite", b"other"),
        ("../evil", b"x"),
        ("blocks/000/" + "0" * 32, b"unasked"),
    ):
        changed = {**members, name: change} if name in members else {name: change, **members}
        with tarfile.open(tmp_path / "c", "w") as tar:
            for path, data in changed.items():
                if data is not None:
                    info = tarfile.TarInfo(path)
                    info.size = len(data)
                    tar.addfile(info, BytesIO(data))
        with pytest.raises(Corrupt, match="/c: "):
            restore(tmp_path / "c", DataDirectory(tmp_path / "r"), progress=quiet)
    (tmp_path / "c").write_bytes((tmp_path / "b").read_bytes()[:20_000])
    with pytest.raises(Corrupt):
        restore(tmp_path / "c", DataDirectory(tmp_path / "r"), progress=quiet)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "c", "data"]


def test_a_damaged_database_is_not_backed_up(directory: DataDirectory, tmp_path: Path) -> None:
    data = bytearray(directory.database.read_bytes())
    # Everything but the page with the header and the schema's root.
    data[8192:] = b"\xff" * (len(data) - 8192)
    directory.database.write_bytes(data)
    with pytest.raises(
        Corrupt, match="is damaged .*; no backup was made. Keep the earlier backups"
    ):
        backup(directory, tmp_path / "b", progress=quiet)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_what_cannot_be_done_is_one_line(directory: DataDirectory, tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"mine")
    with pytest.raises(Conflict, match="choose another name"):
        backup(directory, tmp_path / "b", progress=quiet)
    with pytest.raises(Invalid, match="no data here"):
        backup(DataDirectory(tmp_path / "none"), tmp_path / "c", progress=quiet)
    with pytest.raises(Unavailable, match="/nowhere/c: "):
        backup(directory, tmp_path / "nowhere" / "c", progress=quiet)
    with pytest.raises(Invalid, match="is not empty"):
        restore(tmp_path / "b", directory, progress=quiet)
    with pytest.raises(NotFound, match="not there"):
        restore(tmp_path / "none", DataDirectory(tmp_path / "r"), progress=quiet)
    with pytest.raises(Corrupt, match="not a backup"):
        restore(tmp_path / "b", DataDirectory(tmp_path / "r"), progress=quiet)
    (directory.root / "config.yml").write_text(
        yaml.safe_dump({"PostgreSQL": {"Connection": {"host": "h"}}})
    )
    with pytest.raises(Invalid, match="pg_dump"):
        backup(directory, tmp_path / "c", progress=quiet)
    assert (tmp_path / "b").read_bytes() == b"mine"


def test_blocks_that_are_kept_elsewhere_are_left_out(
    directory: DataDirectory, tmp_path: Path
) -> None:
    volume = {
        "zzzzz-nyw5e-000000000000000": {
            "Driver": "Directory",
            "DriverParameters": {"Root": "/volume"},
        }
    }
    (directory.root / "config.yml").write_text(yaml.safe_dump({"Volumes": volume}))
    with pytest.raises(Invalid, match="--without-blocks"):
        backup(directory, tmp_path / "b", progress=quiet)
    assert backup(directory, tmp_path / "b", progress=quiet, with_blocks=False).blocks == 0
    made = restore(tmp_path / "b", DataDirectory(tmp_path / "r"), progress=quiet)
    assert (made.blocks, made.missing) == (0, ())


async def test_packed_blocks_are_saved_and_come_back_as_files(
    directory: DataDirectory, tmp_path: Path
) -> None:
    volume = DirectoryVolume(directory.blocks, reserve=0, pack_small_blocks=True)
    # One is in a file and in a pack, one is damaged in its pack, and one is gone. The content of
    # the damaged one is long enough to be nowhere else in the pack, as in a hash or a time.
    blocks = (b"0", b"p", b"damaged block", b"gone")
    names = [md5(data, usedforsecurity=False).hexdigest() for data in blocks]
    for data, name in zip(blocks, names, strict=True):
        (directory.blocks / name[:3] / name).unlink(missing_ok=True)
        await volume.put(name, data)
    await DirectoryVolume(directory.blocks, reserve=0).put(names[0], b"0")
    await volume.discard(names[3], (await volume.head(names[3])).mtime_ns)
    mtime = (await volume.head(names[1])).mtime_ns // 10**9
    (pack,) = (directory.blocks / "packs").glob("*.pack")
    pack.write_bytes(pack.read_bytes().replace(b"damaged block", b"Damaged block"))
    contents = backup(directory, tmp_path / "b", progress=quiet)
    again = DataDirectory(tmp_path / "again")
    restored = restore(tmp_path / "b", again, progress=quiet)
    assert contents.blocks == restored.blocks == 6
    assert (restored.damaged, restored.missing) == ((), ())
    assert (again.blocks / names[1][:3] / names[1]).stat().st_mtime == mtime
    fresh = DirectoryVolume(again.blocks)
    assert [one.hash async for one in fresh.index()] == sorted(
        {*(md5(str(one).encode()).hexdigest() for one in range(5)), names[1]}
    )
