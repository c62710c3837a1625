"""What dispatchers said: one suite for the memory of one process and for a shared database."""

from __future__ import annotations

from lading.api.server.wait_statuses import STATUSES
from lading.core.quantities import format_time
from lading.core.scheduling.wait_reasons import WaitReason
from lading.testing.world import START, World

NOW = format_time(START)
LATER = format_time(START.replace(hour=START.hour + 1))
QUOTA, LARGE = WaitReason("quota", "The quota is 1."), WaitReason("too large", "Too large.")


async def about(it: World, uuid: str, now: str = NOW) -> list[WaitReason]:
    async with it.database.reading() as tx:
        return await it.app.services.features[STATUSES].about(tx, uuid, now)


async def test_each_dispatcher_is_heard_and_can_take_it_back(it: World) -> None:
    statuses = it.app.services.features[STATUSES]
    many = {str(number): QUOTA for number in range(250)}
    await statuses.report("d1", {"c": QUOTA, **many}, NOW)
    await statuses.report("d2", {"c": LARGE, "unknown": None}, NOW)
    assert await about(it, "c") == [QUOTA, LARGE]
    assert await about(it, "249") == [QUOTA]
    await statuses.report("d1", {"c": None, **dict.fromkeys(many)}, NOW)
    assert await about(it, "c") == [LARGE]
    assert await about(it, "249") == []
    await statuses.report("d2", {"c": QUOTA}, NOW)
    assert await about(it, "c") == [QUOTA]


async def test_what_is_forgotten_is_forgotten_with_the_transaction(it: World) -> None:
    statuses = it.app.services.features[STATUSES]
    await statuses.report("d", {"c": QUOTA}, NOW)
    async with it.database.writing() as tx:
        await statuses.forget(tx, ["c", "unknown"])
    assert await about(it, "c") == []


async def test_the_last_report(it: World) -> None:
    statuses = it.app.services.features[STATUSES]
    async with it.database.reading() as tx:
        assert await statuses.last_report(tx) is None
    await statuses.report("d1", {"c": QUOTA}, NOW)
    await statuses.report("d2", {}, LATER)
    async with it.database.reading() as tx:
        assert await statuses.last_report(tx) == LATER
    assert await about(it, "c", LATER) == []
