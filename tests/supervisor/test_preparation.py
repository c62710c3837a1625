"""The disk, inputs and GPUs of a container or a rank on one machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.containers.disk_space import Amount
from lading.process.concurrency import together
from lading.supervisor.logs import Log
from lading.supervisor.preparation import Preparation, reserve_of
from lading.supervisor.session import SupervisorSession
from lading.testing.asgi import AsgiTransport
from lading.testing.engine import StubEngine
from tests.supervisor.supervised import MOMENT, Bench

GANG = {
    "scheduling_parameters": {"nodes": 3},
    "mounts": {"/out": {"kind": "tmp", "capacity": 1000}},
    "output_path": "/out",
}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.add("hostname", **GANG, state="Running")
    return made


async def prepared(bench: Bench) -> tuple[Preparation, StubEngine]:
    config = bench.assignment()
    session = SupervisorSession(config, AsgiTransport(bench.server))
    log = Log(bench.run_directory / "log", lambda: MOMENT)
    preparation = Preparation(config, session, log)
    await session.join()
    engine = StubEngine(config.engine_settings)
    preparation.begin()
    plan = preparation.plan(await session.secrets())
    await together(*preparation.open(plan, engine))
    log.close()
    return preparation, engine


async def test_the_mounts_and_the_image_are_there_until_it_is_closed(bench: Bench) -> None:
    preparation, engine = await prepared(bench)
    assert preparation.stage is not None
    (bind,) = [bind for bind in preparation.stage.binds if bind.target == "/out"]
    assert Path(bind.source).is_dir()
    assert (preparation.lacks_room(), preparation.full()) == ("", "")
    preparation.note_copies()
    watch = preparation.disk_watch(engine, preparation.allowance(1))
    assert (watch.run, list(watch.processes())) == (bench.run_directory, [])
    await preparation.close()


async def test_each_rank_may_fill_as_much(bench: Bench) -> None:
    preparation, _ = await prepared(bench)
    alone, three = preparation.allowance(1), preparation.allowance(3)
    assert 0 < alone.files < three.files
    # Without a project in the file system nothing is limited by the kernel.
    preparation.limit_disk(alone)
    await preparation.close()


async def test_the_reserve_is_that_of_the_configuration(bench: Bench) -> None:
    bench.settings = {"disk_reserve": 1 << 60, "disk_reserve_files": 7}
    preparation, _ = await prepared(bench)
    assert preparation.reserve == reserve_of(bench.assignment()) == Amount(1 << 60, 7)
    assert "almost full" in preparation.lacks_room()
    await preparation.close()
