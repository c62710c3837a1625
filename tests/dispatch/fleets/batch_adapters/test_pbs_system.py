"""PBS as a batch system, beside what all adapters promise
(`lading.testing.conformance.batch_systems`).
"""

from __future__ import annotations

from dataclasses import replace
from signal import Signals

import pytest

from lading.config.batch import BatchSite
from lading.core.errors import Unavailable
from lading.dispatch.fleets.batch.programs import JobQuotaReached, JobRefused, OutcomeUnknown
from lading.dispatch.fleets.batch_adapters.opening import batch_system
from lading.testing.conformance.batch_systems import request
from lading.testing.played_scheduler import PlayedScheduler, option
from tests.dispatch.fleets.batch_adapters.test_gridengine_system import Answering
from tests.simulation.pbs_mouth import PbsMouth

SITE = BatchSite(System="pbs")


async def test_the_arguments_of_a_job() -> None:
    scheduler = PlayedScheduler()
    system = batch_system(SITE, run=PbsMouth(scheduler), user="lading")
    await system.submit(request(system))
    words = " ".join(scheduler.jobs[0].arguments)
    for part in ("-r n", "-l select=1:ncpus=2:mem=300mb", "-l walltime=601", "-q main"):
        assert part in words


async def test_a_running_job_is_signalled_and_a_waiting_one_deleted() -> None:
    scheduler = PlayedScheduler(slots=1)
    system = batch_system(SITE, run=PbsMouth(scheduler), user="lading")
    jobs = [
        (await system.submit(request(system, f"zzzzz-dz642-{number:015d}")))[0]
        for number in range(2)
    ]
    await system.poll()
    await system.cancel(jobs, Signals.SIGTERM)
    assert scheduler.calls[-2:] == [("qsig", "-s", "TERM", "1.pbs"), ("qdel", "2.pbs")]


@pytest.mark.parametrize(
    ("err", "kind"),
    [
        ("qsub: Unknown queue", JobRefused),
        ("Connection refused\nqsub: cannot connect to server pbs (errno=15010)", Unavailable),
        ("qsub: would exceed queue generic's per-user limit of jobs in 'Q' state",
         JobQuotaReached),
        ("", OutcomeUnknown),
    ],
)  # fmt: skip
async def test_failures_of_a_submission(err: str, kind: type[Exception]) -> None:
    system = batch_system(SITE, run=Answering(1, err=err), user="ann")
    with pytest.raises(kind):
        await system.submit(request(system))


async def test_an_answer_without_an_id_tells_nothing() -> None:
    system = batch_system(SITE, run=Answering(out="welcome\n"), user="ann")
    with pytest.raises(OutcomeUnknown, match="no job id"):
        await system.submit(request(system))


@pytest.mark.parametrize(
    ("partitions", "queue"),
    [
        # A job has one destination.
        (("off", "main", "other"), "main"),
        # Behind "@" PBS reads the name of a server, to which the script and its token would go.
        (("main", "x@elsewhere.example"), "main"),
        (("x@elsewhere.example", "main"), "main"),
    ],
)
async def test_a_job_goes_to_one_queue_of_this_server(
    partitions: tuple[str, ...], queue: str
) -> None:
    scheduler = PlayedScheduler()
    system = batch_system(SITE, run=PbsMouth(scheduler), user="lading")
    await system.shapes()
    asked = request(system)
    asked = replace(asked, container=replace(asked.container, partitions=partitions))
    await system.submit(asked)
    assert option(scheduler.jobs[0].arguments, "-q") == queue


async def test_no_job_goes_to_another_server() -> None:
    scheduler = PlayedScheduler()
    system = batch_system(SITE, run=PbsMouth(scheduler), user="lading")
    asked = request(system)
    asked = replace(asked, container=replace(asked.container, partitions=("x@elsewhere.example",)))
    with pytest.raises(JobRefused, match="no queue of PBS"):
        await system.submit(asked)
    assert not scheduler.jobs
