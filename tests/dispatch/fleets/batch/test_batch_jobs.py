"""The table of jobs: what each source of knowledge may say, and when."""

from __future__ import annotations

import pytest

from lading.core.errors import Failure
from lading.core.scheduling.planning import TrackedContainer
from lading.core.scheduling.slurm_nice import renice
from lading.dispatch.fleets.batch.batch_jobs import BatchJobs
from lading.dispatch.fleets.batch.batch_system import JobPhase, QueueRow, job_mark
from lading.dispatch.fleets.slurm.slurm_commands import read_squeue

TOKEN = "zzzzz-gj3su-000000000000000"
ONE, TWO, THREE = (f"zzzzz-dz642-{n:015d}" for n in range(3))


def rows(
    job: str,
    uuids: list[str],
    state: str = "RUNNING",
    *,
    restarts: int = 0,
    nice: int = 10,
    top: int = 90,
) -> list[QueueRow]:
    return read_squeue(
        f"{job}|n|{nice}|{top}|{state}|None|{restarts}|n1|{job_mark(TOKEN, uuids)}|\n"
    )


@pytest.fixture
def jobs() -> BatchJobs:
    made = BatchJobs(TOKEN, "Slurm")
    made.submitting(ONE)
    made.submitted(ONE, "7")
    return made


def alive(jobs: BatchJobs, uuid: str = ONE) -> bool:
    return jobs.processes()[uuid].alive


def test_a_submitted_job_lives_until_a_later_look_does_not_show_it(jobs: BatchJobs) -> None:
    early = jobs.begin_look()
    jobs.submitting(TWO)
    jobs.submitted(TWO, "8")
    jobs.observe([], early)
    assert (alive(jobs), alive(jobs, TWO)) == (False, True)
    jobs.observe([], jobs.begin_look())
    assert not alive(jobs, TWO)


def test_what_a_look_does_not_show_can_be_asked_about_first(jobs: BatchJobs) -> None:
    jobs.submitting(TWO)
    jobs.submitted(TWO, "8")
    look = jobs.begin_look()
    cut = rows("7", [ONE])
    cut += read_squeue("8|n|10|90|RUNNING|None|0|n1|lading zzzzz-gj3su-0")
    assert [job.uuid for job in jobs.missing(cut, look)] == [TWO]
    jobs.observe(cut, look, unsettled={TWO})
    assert (alive(jobs), alive(jobs, TWO)) == (True, True)
    jobs.observe([], look + 1, unsettled={TWO})
    assert (alive(jobs), alive(jobs, TWO)) == (False, True)


def test_an_id_that_slurm_gives_again_is_the_new_jobs(jobs: BatchJobs) -> None:
    jobs.finish(["7"])
    jobs.drop(ONE)
    jobs.submitting(TWO)
    jobs.submitted(TWO, "7")
    jobs.observe(rows("7", [TWO]), jobs.begin_look())
    assert alive(jobs, TWO)


def test_a_look_that_began_before_the_answer_proves_nothing() -> None:
    jobs = BatchJobs(TOKEN, "Slurm")
    jobs.submitting(ONE)
    look = jobs.begin_look()
    jobs.observe([], look)
    jobs.submitted(ONE, "7")
    jobs.observe([], look)
    assert alive(jobs)


def test_an_unsure_submission_is_decided_by_the_look_that_shows_it_or_two_that_do_not() -> None:
    jobs = BatchJobs(TOKEN, "Slurm")
    for uuid in (ONE, TWO):
        jobs.submitting(uuid)
        jobs.unsure(uuid)
    assert alive(jobs)
    jobs.observe(rows("7", [ONE]), jobs.begin_look())
    assert (alive(jobs), alive(jobs, TWO)) == (True, True)
    jobs.observe(rows("7", [ONE]), jobs.begin_look())
    assert (alive(jobs), alive(jobs, TWO)) == (True, False)
    job = jobs.get(ONE)
    assert job is not None
    assert job.id == "7"


def test_a_refused_submission_leaves_nothing(jobs: BatchJobs) -> None:
    jobs.submitting(TWO)
    jobs.refused(TWO)
    assert jobs.get(TWO) is None


def test_jobs_of_an_earlier_dispatcher_are_found_again() -> None:
    jobs = BatchJobs(TOKEN, "Slurm")
    jobs.observe(
        rows("5_[0-1]", [ONE, TWO], "PENDING") + rows("5_2", [ONE, TWO, THREE]), jobs.begin_look()
    )
    assert (jobs.count(JobPhase.WAITING), jobs.count(JobPhase.RUNNING)) == (2, 1)
    assert jobs.processes()[ONE].note == "Waiting in Slurm as job 5_0."
    assert jobs.processes()[THREE].note == "Started by Slurm as job 5_2 on n1; being prepared."


@pytest.mark.parametrize("again", [rows("7", [ONE], "PENDING"), rows("7", [ONE], restarts=1)])
def test_a_job_that_slurm_queued_again_has_ended(jobs: BatchJobs, again: list[QueueRow]) -> None:
    jobs.observe(rows("7", [ONE]), jobs.begin_look())
    jobs.observe(again, jobs.begin_look())
    ended = jobs.get(ONE)
    assert ended is not None
    assert ended.lost
    assert not ended.alive
    assert ended.failure is Failure.NODE
    assert "not run twice" in jobs.processes()[ONE].fate
    jobs.observe(rows("7", [ONE], restarts=1), jobs.begin_look())
    assert not alive(jobs)


def test_what_slurm_has_not_noticed_for_long_is_cancelled(jobs: BatchJobs) -> None:
    jobs.finish(["7"])
    jobs.drop(ONE)
    for _ in range(9):
        jobs.observe(rows("7", [ONE]), jobs.begin_look())
        assert jobs.take_strays() == []
    jobs.observe(rows("7", [ONE], "COMPLETING"), jobs.begin_look())
    assert jobs.take_strays() == []
    for _ in range(2):
        jobs.observe(rows("7", [ONE]), jobs.begin_look())
    assert (jobs.take_strays(), jobs.get(ONE)) == (["7"], None)


def test_what_is_over_stays_over(jobs: BatchJobs) -> None:
    assert jobs.finish(["7", "99"])
    assert not jobs.finish(["7"])
    jobs.observe(rows("7", [ONE], "COMPLETING"), jobs.begin_look())
    assert not alive(jobs)
    jobs.drop(ONE)
    jobs.observe(rows("7", [ONE], "COMPLETING"), jobs.begin_look())
    assert jobs.processes() == {}


def test_a_second_job_for_a_container_is_a_stray(jobs: BatchJobs) -> None:
    jobs.observe(rows("7", [ONE]) + rows("9", [ONE]), jobs.begin_look())
    assert jobs.take_strays() == ["9"]
    assert jobs.take_strays() == []
    jobs.observe(rows("8", [TWO]) + rows("10", [TWO]) + rows("7", [ONE]), jobs.begin_look())
    assert jobs.take_strays() == ["10"]


def test_why_a_job_ended(jobs: BatchJobs) -> None:
    jobs.observe([], jobs.begin_look())
    jobs.explain(rows("7", [ONE], "NODE_FAIL") + rows("8", [TWO], "COMPLETED"))
    process = jobs.processes()[ONE]
    assert process.failure is Failure.NODE
    assert process.fate == "Slurm job 7 on n1: its node failed (NODE_FAIL, None)."
    jobs.explain(rows("7", [ONE], "FAILED"))
    assert "NODE_FAIL" in jobs.processes()[ONE].fate


def test_waiting_jobs_are_reniced_an_array_as_one(jobs: BatchJobs) -> None:
    wanted = {ONE: 5 << 50, TWO: 5 << 50, THREE: 9 << 50}
    found = rows("5_[0-1]", [ONE, TWO], "PENDING", top=100) + rows("6", [THREE], "PENDING", top=90)
    fresh = BatchJobs(TOKEN, "Slurm")
    fresh.observe(found, fresh.begin_look())

    def look(uuid: str) -> TrackedContainer | None:
        return TrackedContainer(uuid=uuid, priority=wanted[uuid]) if uuid in wanted else None

    assert renice(fresh.waiting(look), spread=10) == {"6": 0, "5": 20}
    wanted[TWO] = 1 << 50
    assert set(renice(fresh.waiting(look), spread=10)) == {"6", "5_0", "5_1"}
    assert fresh.waiting(lambda _: None) == []
    assert jobs.waiting(look) == []
