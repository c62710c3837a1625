from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from lading.core.containers.disk_space import AUTOMATIC, Amount
from lading.wiring.database_room import keep_room, set_aside

MIB = 1 << 20
AUTO = Amount(AUTOMATIC, AUTOMATIC)


def room_behind(path: Path) -> int:
    found = path.stat()
    return found.st_blocks * 512 - found.st_size


def test_room_is_set_aside_and_the_database_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "db.sqlite"
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = wal")
    database.execute("CREATE TABLE t (x)")
    database.commit()
    sizes = [one.stat().st_size for one in sorted(tmp_path.iterdir())]
    for _ in range(2):
        set_aside(path, Amount(256 * MIB, 0))
    assert [one.stat().st_size for one in sorted(tmp_path.iterdir())] == sizes
    for suffix in ("", "-wal", "-shm"):
        assert 16 * MIB <= room_behind(Path(f"{path}{suffix}")) < 17 * MIB
    database.execute("INSERT INTO t VALUES (zeroblob(1000000))")
    database.commit()
    assert database.execute("SELECT length(x) FROM t").fetchall() == [(1000000,)]
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()


def test_where_nothing_can_be_set_aside_nothing_happens(tmp_path: Path) -> None:
    set_aside(tmp_path / "none" / "db.sqlite", AUTO)
    (tmp_path / "db.sqlite").symlink_to("/dev/null")
    set_aside(tmp_path / "db.sqlite", AUTO)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["db.sqlite"]


async def test_it_goes_on_until_it_is_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "db.sqlite"
    keeping = asyncio.create_task(keep_room(path, Amount(0, 0), period=0.0))
    path.write_bytes(b"x")
    async with asyncio.timeout(30):
        while room_behind(path) < MIB:
            await asyncio.sleep(0)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
