from __future__ import annotations

import pytest

from lading.client.transport import Transport
from lading.core.errors import ExecutionError, Failure
from lading.supervisor.journal import read_journal
from lading.supervisor.lifecycle.run import ContainerRun, Controls, open_run
from lading.supervisor.session import SupervisorSession
from lading.testing.asgi import AsgiTransport
from lading.testing.engine import StubEngine
from lading.testing.supervising import CONTAINER
from tests.supervisor.supervised import MOMENT, Bench


def begin(bench: Bench) -> ContainerRun:
    """A run of the container, before its first step."""
    transport: Transport = AsgiTransport(bench.server)
    config = bench.assignment()
    return open_run(
        config,
        SupervisorSession(config, transport),
        clock=lambda: MOMENT,
        engines=lambda _, settings: StubEngine(settings),
        controls=Controls(),
    )


async def test_before_the_first_step_the_journal_names_the_engine(bench: Bench) -> None:
    run = begin(bench)
    found = read_journal(run.directory)
    assert found is not None
    assert (found[0].settings.container_uuid, found[1]) == (CONTAINER, [])
    assert (run.directory / "log").is_dir()


async def test_its_ranks_on_other_machines_fill_no_disk_here(bench: Bench) -> None:
    bench.add(
        "true",
        scheduling_parameters={"nodes": 3},
        mounts={"/out": {"kind": "tmp", "capacity": 1 << 20}},
    )
    bench.settings = {"tmp_capacity": 1 << 20, "scratch_beside": 1 << 10}
    here = begin(bench)
    await here.session.open()
    bench.settings["annex_command"] = ("ssh",)
    spread = begin(bench)
    await spread.session.open()
    assert here.nodes == 3
    assert (here.allowance.beside, spread.allowance.beside) == (3 << 10, 1 << 10)


async def test_only_its_own_engine_is_blamed(bench: Bench) -> None:
    run, other = begin(bench), begin(bench)

    async def fail() -> None:
        raise ExecutionError("the engine does not answer", Failure.NODE)

    with pytest.raises(ExecutionError):
        await run.by_engine(fail())
    assert run.facts.engine_fault is not None
    assert other.facts.engine_fault is None
