"""The monitors beside the command of a run, and the effects of their findings on it.

A supervisor imports this module after the start of the command, before which it is not needed.
"""

from __future__ import annotations

from lading.supervisor.container_spec import amount
from lading.supervisor.lifecycle.run import ContainerRun
from lading.supervisor.monitors import Monitors


def accompany(run: ContainerRun) -> Monitors:
    """The monitors of a run. A full disk, the end of the mount and a lost container end it."""

    def end_lost() -> None:
        run.facts.is_lost = True
        run.controls.stop.set()

    def end_unmounted() -> None:
        run.facts.is_unmounted = True
        run.log.say("the mount of its collections has ended; stopping the command")
        run.controls.stop.set()

    async def end_overfull(why: str) -> None:
        run.facts.overfull = why
        run.log.say(f"{why}; ending the container")
        run.controls.stop.set()
        await run.engine.abort()

    return Monitors(
        assignment=run.config,
        session=run.session,
        log=run.log,
        costing=run.costing,
        ram=amount(run.session.container.runtime_constraints, "ram"),
        flush=run.controls.flush,
        reprice=run.controls.reprice,
        on_lost=end_lost,
        keep=run.preparation.keep,
        on_unmounted=end_unmounted,
        disk=run.preparation.disk_watch(run.engine, run.allowance, run.processes),
        on_full=end_overfull,
    )
