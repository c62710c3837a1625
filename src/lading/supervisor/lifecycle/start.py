"""The steps up to a Running container: `record`, `inputs`, `container`."""

from __future__ import annotations

import asyncio

from lading import __version__
from lading.core.errors import ExecutionError
from lading.process.concurrency import WorkCancelled, together
from lading.supervisor.container_spec import specify
from lading.supervisor.ending import LAST_CALL
from lading.supervisor.engines import ContainerSpec, Spread
from lading.supervisor.inputs.staging import Stage
from lading.supervisor.lifecycle.run import ContainerRun
from lading.supervisor.limits.gpu_locks import LockedGpus
from lading.supervisor.logs import RANKS, STDERR, STDOUT
from lading.supervisor.session import GivenBack


async def read_record(run: ContainerRun) -> None:
    """Read the record, and choose the engine of a container with steps. Raises Lost when the
    container is not ours to run.
    """
    run.log.say(f"lading {__version__} supervising {run.config.container_uuid}")
    await run.unless_stopped(run.session.open())
    if run.session.container.steps:
        # Few containers have steps.
        from lading.supervisor.steps import StepEngine

        steps = StepEngine(run.engine, run.make_engine, run.session, run.log)
        run.engine = run.gateway.engine = steps


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
        await run.unless_stopped(turn(work) if turn is not None else work)
    if plan.copies:
        await asyncio.to_thread(preparation.note_copies)
    preparation.limit_disk(run.allowance)


async def release_inputs(run: ContainerRun) -> None:
    """Release cached data, unmount, and lift the limit of the disk."""
    await run.preparation.close()


async def make_container(run: ContainerRun) -> None:
    """Create the container and report Running. Raises Lost when the server refuses the report,
    ExecutionError when the container cannot be made.
    """
    stage = run.preparation.stage
    if stage is None:
        raise ExecutionError("the mounts were not made")
    if run.controls.stop.is_set():
        raise WorkCancelled("told to stop")
    gpus = await run.unless_stopped(
        run.preparation.gpu_locks.take(run.session.container.runtime_constraints)
    )
    if gpus.devices:
        run.log.say(gpus.sentence)
    try:
        await run.preparation.settle(run.engine)
        spec = _specify(run, stage, gpus)
        # The engine stops before the command, so both run at the same time.
        both = together(run.by_engine(run.engine.create(spec)), _become_running(run))
        await run.unless_stopped(both, grace=LAST_CALL)
    finally:
        # In any case: copies that stay open here would keep pipes from ending.
        if run.remote_ranks is not None:
            run.remote_ranks.hand_over()
        stage.close_streams()
        for pump in run.pumps:
            pump.handed_over()


async def remove_container(run: ContainerRun) -> None:
    """Remove its processes, cgroup and mounts, end its remote ranks, and release its GPUs."""
    await run.gateway.close()
    await run.engine.remove()
    if run.remote_ranks is not None:
        await asyncio.to_thread(run.remote_ranks.close)
    run.preparation.gpu_locks.release()
    for pump in run.pumps:
        await pump.finish(0)


async def _become_running(run: ContainerRun) -> None:
    shown = bool(run.activity.reported)
    if run.facts.is_running:
        # Since its lock. Its gateway is opened when it has run for a moment.
        run.costing.begin()
        if shown:
            await run.session.clear_status()
        return
    await run.gateway.find_address()
    gateway = run.gateway.open()
    run.costing.begin()
    refused = await run.session.report_running(clear_status=shown, gateway=gateway)
    await _settle_gateway(run, refused)
    run.facts.is_running = True


async def open_gateway(run: ContainerRun) -> None:
    """Open the gateway of a container that is Running since its lock, and report its address.
    Raises Lost, and the errors of the client.
    """
    await run.gateway.find_address()
    if gateway := run.gateway.open():
        await _settle_gateway(run, await run.session.report_gateway(gateway))


async def _settle_gateway(run: ContainerRun, refused: str) -> None:
    """Replace the gateway whose address the server refused by a tunnel, or else close it.

    `refused` is the server's reason, empty if it took the address.
    """
    if refused and not await run.gateway.fall_back():
        await run.gateway.close()
        run.log.say(f"nobody can enter this container: {refused}")


def _specify(run: ContainerRun, stage: Stage, gpus: LockedGpus) -> ContainerSpec:
    return specify(
        run.session.container,
        stage,
        run.config,
        token=run.session.token,
        gpus=gpus,
        stdout=stage.stdout if stage.stdout >= 0 else run.add_pump(STDOUT),
        stderr=stage.stderr if stage.stderr >= 0 else run.add_pump(STDERR),
        notices=run.add_pump(RANKS) if run.nodes > 1 else -1,
        spread=_start_ranks(run) if run.nodes > 1 else None,
        on_network_fault=run.log.say,
    )


def _start_ranks(run: ContainerRun) -> Spread | None:
    """Start the ranks of a gang on other machines; None when all are on this one."""
    # Few containers are gangs.
    from lading.supervisor.gang.remote_rank_client import RemoteRankClient

    run.remote_ranks = RemoteRankClient(run.config)
    return run.remote_ranks.open(run.nodes)
