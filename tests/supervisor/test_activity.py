"""What takes long is told, and nothing else."""

from __future__ import annotations

import asyncio

from lading.core.errors import Unavailable
from lading.supervisor.session import Activity


async def test_what_takes_long_is_told_once() -> None:
    reported: list[str] = []
    heard = asyncio.Event()

    async def tell(text: str) -> None:
        reported.append(text)
        heard.set()
        if len(reported) == 1:
            raise Unavailable

    notes: list[str] = []
    activity = Activity(tell, note=notes.append, patience=0.001)
    async with activity.shown(), asyncio.timeout(180):
        await activity.doing("unpacking its image", heard.wait())  # type: ignore[arg-type]
        heard.clear()
        await asyncio.gather(*(activity.doing(what, heard.wait()) for what in ("one", "two")))  # type: ignore[arg-type]
    assert reported == ["unpacking its image", "one and two"]
    assert activity.reported == "one and two"
    assert [note.split(" took ")[0] for note in notes] == ["unpacking its image", "one", "two"]


async def test_what_is_over_soon_is_not_told() -> None:
    notes: list[str] = []
    activity = Activity(lambda text: asyncio.sleep(0), note=notes.append)
    async with activity.shown():
        await activity.doing("nothing", asyncio.sleep(0))
    assert (activity.reported, notes) == ("", [])
