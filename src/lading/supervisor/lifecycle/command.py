"""The step `command`: run the command of the container until it ends, watch it meanwhile, and kill
the processes that it leaves behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lading.core.containers.constraints import KEEP_ON_FAILURE
from lading.core.errors import ExecutionError, LadingError
from lading.process.concurrency import WorkCancelled, wait_at_most
from lading.supervisor.container_spec import amount
from lading.supervisor.ending import refused_by_kernel, signal_name
from lading.supervisor.engines import Exit
from lading.supervisor.lifecycle.run import ContainerRun
from lading.supervisor.lifecycle.start import open_gateway
from lading.supervisor.machine import log_machine

if TYPE_CHECKING:
    from lading.supervisor.limits.gpu_samples import GpuSampler
    from lading.supervisor.monitors import Monitors

# Seconds to read the rest of the output of an ended command.
_DRAIN = 5.0


async def run_command(run: ContainerRun) -> None:
    """Run the command; afterwards no process of the container is left, and its output is read.
    Raises ExecutionError.
    """
    if run.controls.stop.is_set():
        raise WorkCancelled("told to stop")
    for note in (*run.engine.notes, "starting the command"):
        run.log.say(note)
    await end_command(run, await await_command(run))


async def await_command(run: ContainerRun) -> Exit:
    """Let the engine run its container to the end of the command, with all that is done beside it.
    Raises ExecutionError.
    """
    controls = run.controls
    seconds = _seconds_left(run)
    grace = run.config.stop_grace_period
    running = asyncio.ensure_future(run.engine.run(stop=controls.stop, stop_grace=grace))
    try:
        # Its first step starts the command. Work beside it, done first, delayed it by 1.5 ms.
        await asyncio.sleep(0)
        return await _watch(run, running, seconds)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def end_command(run: ContainerRun, ended: Exit) -> None:
    """Leave no process of an ended command, and read the rest of its output. Raises
    ExecutionError.
    """
    facts = run.facts
    facts.exit = ended
    run.journal.write_exit(ended)
    await run.gateway.close()
    # Before output is read: a live process could change it, or replace a directory by a link.
    await run.by_engine(run.engine.kill())
    facts.is_dead = True
    run.costing.end()
    for pump in run.pumps:
        if not await pump.finish(_DRAIN):
            run.log.say(
                "the command has ended but something still holds its output open;"
                " the rest is not read"
            )
    # Its whole standard error is read: the record, the log and the page tell the same code.
    ended = facts.exit = refused_by_kernel(ended, run.log)
    run.log.say(f"the command ended with exit code {ended.code}{signal_name(ended.code)}")
    _become_idle(run)


def _seconds_left(run: ContainerRun) -> float | None:
    """The rest of its max_run_time; None without one."""
    seconds = amount(run.session.container.scheduling_parameters, "max_run_time")
    if not seconds or not run.facts.is_resumed:
        return seconds or None
    return max(0.0, seconds - (run.clock() - run.costing.began).total_seconds())


@contextlib.contextmanager
def _handed_over(run: ContainerRun) -> Iterator[None]:
    """Hand the container over when its command has run for a moment."""
    hand_over = run.controls.hand_over
    if hand_over is None:
        yield
        return
    # After the start of the command, before which it is not needed.
    from lading.supervisor.lifecycle.handover import DELAY, offer

    handle = asyncio.get_running_loop().call_later(DELAY, offer, run, hand_over)
    try:
        yield
    finally:
        handle.cancel()


async def _watch(run: ContainerRun, running: asyncio.Future[Exit], seconds: float | None) -> Exit:
    """Wait for the end of the command, at most so long, with all that is done beside it."""
    facts, stop = run.facts, run.controls.stop
    monitors = run.monitors = _accompany(run)
    async with monitors.beside(run.engine):
        if not facts.is_resumed:
            log_machine(run.log, run.directory, run.config.instance_type)
        run.log.put_record(run.session.record)
        with _handed_over(run):
            await asyncio.wait((running,), timeout=seconds)
        if not running.done():
            facts.is_timed_out = True
            longest = amount(run.session.container.scheduling_parameters, "max_run_time")
            run.log.say(f"it has run for {longest} s, its max_run_time; stopping it")
            stop.set()
        try:
            ended = facts.exit = await running
        except ExecutionError as error:
            facts.engine_fault = error
            raise
        for note in ended.notes:
            run.log.say(note)
        facts.is_stopped = stop.is_set()
        await _keep_failure(run, ended)
        return ended


def _accompany(run: ContainerRun) -> Monitors:
    """The monitors beside the command. A full disk, the end of the mount and a lost container end
    it.
    """
    # After the start of the command, before which they are not needed.
    from lading.supervisor.monitors import Monitors

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
        gateway=functools.partial(open_gateway, run) if run.config.is_started else None,
        is_resumed=run.facts.is_resumed,
        gpus=_gpu_sampler(run),
    )


def _gpu_sampler(run: ContainerRun) -> GpuSampler | None:
    if not run.preparation.gpu_locks.taken:
        return None
    # Imported here: few containers have GPUs.
    from lading.supervisor.limits.gpu_samples import GpuSampler

    root = Path(run.config.device_root)
    return GpuSampler(run.log, root, run.preparation.gpu_locks.taken)


def _become_idle(run: ContainerRun) -> None:
    """Report that the container uses no more resources, unless something of it still does."""
    stage, keep = run.preparation.stage, run.preparation.keep
    uses_memory = stage is None or stage.is_in_memory or (keep is not None and keep.is_open)
    on_idle = run.controls.on_idle
    if on_idle is not None and not (uses_memory or run.facts.is_kept or run.nodes > 1):
        run.preparation.gpu_locks.release()
        on_idle()


async def _keep_failure(run: ContainerRun, ended: Exit) -> None:
    """Keep the container of a failed command for the time that its request asks for, so that users
    can examine it.
    """
    stop = run.controls.stop
    seconds = amount(run.session.container.scheduling_parameters, KEEP_ON_FAILURE)
    if ended.code == 0 or not seconds or stop.is_set():
        return
    # What sessions use in the time for which it is kept is no use by the command.
    run.costing.end()
    if run.monitors is not None:
        run.monitors.usage.finish()
    try:
        run.facts.is_kept = True
        await run.unless_stopped(run.engine.hold())
        until = (run.clock() + timedelta(seconds=seconds)).strftime("%H:%M:%SZ")
        text = (
            f"the command failed with exit code {refused_by_kernel(ended, run.log).code};"
            f" its container is kept until {until}: lading shell"
        )
        run.log.say(text)
        await run.unless_stopped(run.session.add_status({"activity": text}))
    except WorkCancelled:
        return
    except LadingError as error:
        run.log.say(f"the container of the failed command is not kept: {error.message}")
        return
    await wait_at_most(stop, seconds)
