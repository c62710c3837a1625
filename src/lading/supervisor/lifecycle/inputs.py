"""The step `inputs`: make the mounts and prepare the image, at the same time."""

from __future__ import annotations

import asyncio

from lading.process.concurrency import together
from lading.supervisor.lifecycle.run import ContainerRun
from lading.supervisor.session import GivenBack


async def make_inputs(run: ContainerRun) -> None:
    """Make the mounts, prepare the image, and limit the disk. Raises GivenBack when the disk has no
    room, ExecutionError when an input or the image cannot be had.
    """
    preparation = run.preparation
    if why := preparation.lacks_room():
        raise GivenBack(f"the container cannot begin, and is given back: {why}")
    preparation.begin()
    plan = preparation.plan(await run.unless_stopped(run.session.secrets()))
    set_stage, unpack = preparation.open(plan, run.engine)
    work = together(
        run.activity.doing("fetching its inputs", set_stage),
        run.activity.doing("unpacking its image", run.by_engine(unpack)),
    )
    turn = run.controls.turn
    async with run.activity.shown():
        await run.unless_stopped(turn.prepare(work) if turn is not None else work)
    if plan.copies:
        await asyncio.to_thread(preparation.note_copies)
    preparation.limit_disk(run.allowance)


async def release_inputs(run: ContainerRun) -> None:
    """Release cached data, unmount, and lift the limit of the disk."""
    await run.preparation.close()
