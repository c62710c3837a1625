"""Grid Engine as a batch system, beside what all adapters promise
(`lading.testing.conformance.batch_systems`).
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lading.config.batch import BatchSite
from lading.core.errors import Unavailable
from lading.core.resources import GIB
from lading.dispatch.fleets.batch.batch_system import BatchSystem
from lading.dispatch.fleets.batch.programs import (
    JobQuotaReached,
    JobRefused,
    OutcomeUnknown,
    ProgramResult,
)
from lading.dispatch.fleets.batch_adapters.opening import batch_system
from lading.testing.conformance.batch_systems import request
from lading.testing.played_scheduler import PlayedScheduler
from tests.dispatch.fleets.batch_adapters.test_gridengine_answers import recorded
from tests.simulation.gridengine_mouth import GridEngineMouth


class Answering:
    """Programs with one answer."""

    def __init__(self, code: int = 0, out: str = "", err: str = "") -> None:
        self.result = ProgramResult(code, out, err)
        self.calls: list[tuple[str, ...]] = []

    async def __call__(
        self, arguments: Sequence[str], *, stdin: bytes, timeout: float
    ) -> ProgramResult:
        self.calls.append(tuple(arguments))
        return self.result


def system(programs: Answering) -> BatchSystem:
    return batch_system(BatchSite(), run=programs, user="ann")


async def test_the_arguments_of_a_job() -> None:
    scheduler = PlayedScheduler()
    made = batch_system(BatchSite(), run=GridEngineMouth(scheduler), user="ann")
    await made.submit(request(made))
    words = " ".join(scheduler.jobs[0].arguments)
    for part in ("-r n", "-notify", "-pe smp 2", "-l mem_free=300M", "-l h_rt=601", "-q main"):
        assert part in words


# The messages are those of Grid Engine 8.1.9.
@pytest.mark.parametrize(
    ("err", "kind"),
    [
        ('Unable to run job: unknown resource "nosuch"\nExiting.', JobRefused),
        ("error: commlib error: got select error (Connection refused)\nUnable to run job: unable to"
         ' send message to qmaster using port 6444 on host "m": got send error\nExiting.',
         Unavailable),
        ("Unable to run job: job rejected: Only 2 jobs are allowed per user (current job count: 2)."
         "\nExiting.", JobQuotaReached),
        ("error: got read error", OutcomeUnknown),
        ("", OutcomeUnknown),
    ],
)  # fmt: skip
async def test_failures_of_a_submission(err: str, kind: type[Exception]) -> None:
    made = system(Answering(1, err=err))
    with pytest.raises(kind):
        await made.submit(request(made))


async def test_an_answer_without_an_id_tells_nothing() -> None:
    made = system(Answering(out="warning\n"))
    with pytest.raises(OutcomeUnknown, match="no job id"):
        await made.submit(request(made))


async def test_before_the_first_end_there_are_no_accounts() -> None:
    assert await system(Answering(1, err="no jobs running since startup\n")).ended(["1"]) == []
    with pytest.raises(Unavailable, match="qacct"):
        await system(Answering(1, err="error: something new\n")).ended(["1"])


async def test_each_size_of_queue_on_a_host_is_a_kind_of_nodes() -> None:
    small, large = await system(Answering(out=recorded("qhost.xml"))).shapes()
    assert (small.capacity.vcpus, small.partitions) == (2, frozenset({"last.q"}))
    assert (large.capacity.vcpus, large.partitions) == (4, frozenset({"main.q"}))
    assert large.capacity.ram // GIB == 23


async def test_gpus_that_were_free_once_are_those_of_a_host() -> None:
    value = "<resourcevalue name='gpu' dominance='hc'>{}</resourcevalue>\n <queue name='main.q'>"
    programs = Answering()
    made = system(programs)
    for free in ("2.000000", "0.000000"):
        answer = recorded("qhost.xml").replace("<queue name='main.q'>", value.format(free))
        programs.result = ProgramResult(0, answer, "")
        assert {shape.capacity.gpus for shape in await made.shapes()} == {2}
