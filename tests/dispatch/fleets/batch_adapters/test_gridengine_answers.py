"""Answers of the programs of Grid Engine 8.1.9, as Debian 12 has it, recorded on one host."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.errors import Failure, Unavailable
from lading.core.resources import GIB
from lading.dispatch.fleets.batch.batch_system import JobPhase, owner
from lading.dispatch.fleets.batch_adapters.gridengine_answers import (
    read_accounts,
    read_hosts,
    read_jobs,
    read_reasons,
    read_size,
)

RECORDED = Path(__file__).with_name("recorded")
TOKEN = "zzzzz-gj3su-000000000000000"


def recorded(name: str) -> str:
    return (RECORDED / f"gridengine-{name}").read_text()


def test_jobs_are_read() -> None:
    first, *_, last = read_jobs(recorded("qstat.xml"))
    assert (first.job, first.phase, first.node, first.nice) == ("1", JobPhase.RUNNING, "n1", -23)
    assert owner(first, token=TOKEN) == "zzzzz-dz642-000000000000001"
    assert (last.job, last.phase, last.node) == ("4", JobPhase.WAITING, "")
    assert owner(last, token=TOKEN) is None


@pytest.mark.parametrize(
    ("state", "phase", "is_stuck", "restarts", "is_ending"),
    [
        ("qw", JobPhase.WAITING, False, 0, False),
        ("hqw", JobPhase.WAITING, False, 0, False),
        ("Eqw", JobPhase.WAITING, True, 0, False),
        ("Rq", JobPhase.WAITING, False, 1, False),
        ("Rr", JobPhase.RUNNING, False, 1, False),
        ("dr", JobPhase.RUNNING, False, 0, True),
        ("t", JobPhase.RUNNING, False, 0, False),
        ("S", JobPhase.RUNNING, False, 0, False),
    ],
)
def test_states_are_letters(
    state: str, phase: JobPhase, is_stuck: bool, restarts: int, is_ending: bool
) -> None:
    answer = recorded("qstat.xml").replace("<state>r</state>", f"<state>{state}</state>", 1)
    row = read_jobs(answer)[0]
    assert (row.phase, row.is_stuck, row.restarts, row.is_ending) == (
        phase,
        is_stuck,
        restarts,
        is_ending,
    )
    assert row.is_movable is ("h" not in state)


def test_an_answer_that_was_cut_is_none() -> None:
    with pytest.raises(Unavailable, match="no XML"):
        read_jobs(recorded("qstat.xml")[:700])
    with pytest.raises(Unavailable, match="no XML"):
        read_hosts("")


def test_hosts_are_read_with_their_queues() -> None:
    (host,) = read_hosts(recorded("qhost.xml"))
    assert (host.name, host.vcpus, host.ram // GIB) == ("n1", 2, 23)
    assert [(queue.queue, queue.slots, queue.is_open) for queue in host.queues] == [
        ("main.q", 4, True),
        ("last.q", 2, True),
    ]


@pytest.mark.parametrize(("letters", "is_open"), [("", True), ("a", True), ("d", False), ("au", 0)])
def test_a_queue_that_starts_nothing_is_closed(letters: str, is_open: bool) -> None:
    value = "<queuevalue qname='main.q' name='state_string'>"
    (host,) = read_hosts(recorded("qhost.xml").replace(value, value + letters))
    assert host.queues[0].is_open is bool(is_open)


def test_accounts_are_read() -> None:
    rows = read_accounts(recorded("qacct.txt"))
    assert [(row.job, row.phase, row.state) for row in rows] == [
        ("1", JobPhase.ENDED, "failed 100"),
        ("4", JobPhase.ENDED, "failed 100"),
    ]
    assert owner(rows[0], token=TOKEN) == "zzzzz-dz642-000000000000001"
    assert (rows[0].end, rows[0].node) == ("it was killed, by Grid Engine or by its owner", "n1")


@pytest.mark.parametrize(
    ("failed", "failure"),
    [
        ("37  : qmaster enforced h_rt limit", Failure.TIMEOUT),
        ("25  : rescheduling", Failure.NODE),
        ("8   : in prolog", Failure.NODE),
        ("0", Failure.INFRASTRUCTURE),
        ("odd", Failure.INFRASTRUCTURE),
    ],
)
def test_the_code_of_an_end_gives_its_class(failed: str, failure: Failure) -> None:
    answer = recorded("qacct.txt").replace("100 : assumedly after job", failed)
    assert {row.failure for row in read_accounts(answer)} == {failure}


def test_reasons_are_read() -> None:
    assert read_reasons(recorded("qstat-j.txt"))["4"].startswith(
        'queue instance "main.q@n1" dropped because it is full; queue instance'
    )


@pytest.mark.parametrize(
    ("words", "size"), [("23.5G", 23.5 * GIB), ("2.000000", 2.0), ("-", None), ("1.2.3G", None)]
)
def test_sizes(words: str, size: float | None) -> None:
    assert read_size(words) == size
