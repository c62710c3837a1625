"""Containers that try to keep their supervisor busy beyond its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from lading.core import filetree
from tests.reality import need_program, need_root
from tests.system.test_supervisor import Stage, staged

pytestmark = pytest.mark.system
SECONDS = 20.0
"""More than any of it takes, and far less than what is attacked took."""


@pytest.fixture
async def native() -> AsyncIterator[Stage]:
    need_root()
    need_program("crun")
    async with staged(engine="native", stop_grace_period=0.3) as stage:
        yield stage


@pytest.mark.attack("an output_glob of very many stars and a file whose name nearly matches")
@pytest.mark.parametrize("pattern", ["*a" * 40 + "b", "**/" * 40 + "*a" * 40 + "b", "*" * 200 + "b"])
async def test_a_glob_of_many_stars(native: Stage, pattern: str) -> None:
    name = "a" * 200
    async with asyncio.timeout(SECONDS):
        record = await native.run(["sh", "-c", f"mkdir d; echo 1 > {name}; echo 2 > d/{name}b"], output_glob=[pattern])
    assert record["state"] == "Complete"
    kept = native.server.files(record["output"])
    assert set(kept) == ({f"d/{name}b"} if pattern.startswith("**/") else set())


@pytest.mark.attack("an output of a terabyte that takes no room on the disk")
async def test_a_sparse_terabyte(native: Stage) -> None:
    async with asyncio.timeout(SECONDS):
        record = await native.run(["dd", "if=/dev/zero", "of=/out/large", "bs=1", "count=1", "seek=999999999999"])
    assert record["state"] == "Complete", record["runtime_status"]
    (text,) = (
        one["manifest_text"]
        for one in native.server.collections.values()
        if one["portable_data_hash"] == record["output"]
    )
    ((path, file),) = filetree.files(filetree.from_manifest(text))
    assert (path, file.size) == ("large", 10**12)
    assert len({segment.locator for segment in file.segments}) == 2
