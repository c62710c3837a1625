"""The step `container`: create it stopped, and report that it is Running."""

from __future__ import annotations

import asyncio

from lading.core.errors import ExecutionError
from lading.process.concurrency import WorkCancelled, together
from lading.supervisor.container_spec import Given, specify
from lading.supervisor.ending import LAST_CALL
from lading.supervisor.engines import ContainerSpec, Spread
from lading.supervisor.inputs.staging import Stage
from lading.supervisor.lifecycle.run import ContainerRun
from lading.supervisor.logs import RANKS, STDERR, STDOUT


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
    await run.gateway.find_address()
    shown, gateway = bool(run.activity.reported), run.gateway.open()
    run.costing.begin()
    refused = await run.session.report_running(clear_status=shown, gateway=gateway)
    if refused and not await run.gateway.fall_back():
        await run.gateway.close()
        run.log.say(f"nobody can enter this container: {refused}")
    run.facts.is_running = True


def _specify(run: ContainerRun, stage: Stage, gpus: Given) -> ContainerSpec:
    return specify(
        run.session.container,
        stage,
        run.config,
        token=run.session.token,
        given=gpus,
        stdout=stage.stdout if stage.stdout >= 0 else run.add_pump(STDOUT),
        stderr=stage.stderr if stage.stderr >= 0 else run.add_pump(STDERR),
        notices=run.add_pump(RANKS) if run.nodes > 1 else -1,
        spread=_start_ranks(run) if run.nodes > 1 else None,
    )


def _start_ranks(run: ContainerRun) -> Spread | None:
    """Start the ranks of a gang on other machines; None when all are on this one."""
    # Few containers are gangs.
    from lading.supervisor.gang.remote_rank_client import RemoteRankClient

    run.remote_ranks = RemoteRankClient(run.config)
    return run.remote_ranks.open(run.nodes)
