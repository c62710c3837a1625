from __future__ import annotations

from pathlib import Path

import pytest

from lading.config.site import load
from lading.core.errors import Invalid
from lading.store.databases.sqlite import SqliteDatabase
from lading.wiring.directory import DataDirectory
from lading.wiring.stores import open_database


async def test_without_configuration_it_is_the_file(tmp_path: Path) -> None:
    config = load(None, {"SystemRootToken": "s" * 50})
    database = await open_database(config, DataDirectory(tmp_path))
    assert isinstance(database, SqliteDatabase)
    await database.close()
    with pytest.raises(Invalid, match="needs PostgreSQL"):
        await open_database(config, DataDirectory(tmp_path, tmp_path / "second.sock"))
