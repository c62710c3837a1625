"""Answers of the programs of OpenPBS, in the forms that sites have published."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.errors import Failure, Unavailable
from lading.core.resources import GIB
from lading.dispatch.fleets.batch.batch_system import JobPhase, owner
from lading.dispatch.fleets.batch_adapters.pbs_answers import read_jobs, read_nodes, read_queues

RECORDED = Path(__file__).with_name("recorded")
TOKEN = "zzzzz-gj3su-000000000000000"


def recorded(name: str) -> str:
    return (RECORDED / f"pbs-{name}.json").read_text()


def test_jobs_of_the_user_are_read() -> None:
    running, stuck, ended = read_jobs(recorded("qstat"), user="ann")
    assert (running.job, running.phase, running.node) == ("157.pbs", JobPhase.RUNNING, "n24")
    assert (running.nice, running.restarts) == (-12, 0)
    assert owner(running, token=TOKEN) == "zzzzz-dz642-000000000000001"
    assert (stuck.phase, stuck.is_stuck, stuck.failure) == (JobPhase.WAITING, True, Failure.NODE)
    assert (ended.phase, ended.failure) == (JobPhase.ENDED, Failure.TIMEOUT)


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (-27, Failure.OOM),
        (-20, Failure.NODE),
        (-11, Failure.PREEMPTED),
        (-3, Failure.NODE),
        (271, Failure.INFRASTRUCTURE),
        (0, Failure.INFRASTRUCTURE),
        (1, Failure.INFRASTRUCTURE),
    ],
)
def test_the_exit_state_gives_the_class(status: int, failure: Failure) -> None:
    answer = recorded("qstat").replace('"Exit_status":-29', f'"Exit_status":{status}')
    assert read_jobs(answer, user="ann")[-1].failure is failure


def test_a_job_that_never_ran_has_ended_before() -> None:
    answer = recorded("qstat").replace('"Exit_status":-29,', "")
    assert read_jobs(answer, user="ann")[-1].end == "it ended before it ran"


@pytest.mark.parametrize("answer", ["", "{", '{"Jobs":[]}', "[]", '{"Jobs":{"1":2}}'])
def test_an_answer_of_another_form_is_none(answer: str) -> None:
    if answer in ("", "{"):
        with pytest.raises(Unavailable, match="no JSON"):
            read_jobs(answer, user="ann")
    else:
        assert read_jobs(answer, user="ann") == []


def test_queues_that_start_jobs() -> None:
    assert read_queues(recorded("queues")) == ("qexp",)


def test_nodes_that_take_jobs() -> None:
    free, bound = read_nodes(recorded("nodes"), queues=("qexp",), gpus="ngpus", scratch=GIB)
    assert (free.name, free.capacity.vcpus, free.capacity.ram) == ("hpcnode03", 56, 384000000 << 10)
    assert (free.partitions, free.is_default) == (frozenset({"qexp"}), True)
    assert (bound.partitions, bound.is_default) == (frozenset({"test"}), False)
    assert bound.capacity.gpus == 2
