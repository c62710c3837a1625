"""What squeue and sinfo print."""

from __future__ import annotations

from lading.core.resources import MIB, Resources
from lading.dispatch.fleets.batch.batch_system import JobPhase, job_mark, owner
from lading.dispatch.fleets.slurm.slurm_commands import read_sinfo, read_squeue

TOKEN = "zzzzz-gj3su-000000000000000"
UUIDS = [f"zzzzz-dz642-{n:015d}" for n in range(3)]
MARK = job_mark(TOKEN, UUIDS)


def line(job: str = "12", state: str = "RUNNING", text: str = MARK, restarts: str = "0") -> str:
    return f"{job}|name|10000|4294891759|{state}|Resources|{restarts}|n1|{text}|\n"


def test_a_plain_job() -> None:
    (row,) = read_squeue(line())
    assert (row.job, row.index, row.nice, row.priority, row.node) == (
        "12",
        0,
        10000,
        4294891759,
        "n1",
    )
    assert row.phase is JobPhase.RUNNING
    assert owner(row, token=TOKEN) == UUIDS[0]


def test_an_array_that_waits_is_one_line_and_many_rows() -> None:
    rows = read_squeue(line("12_[0-1,7%4]", "PENDING") + line("12_2"))
    assert [(row.job, row.index) for row in rows] == [
        ("12_0", 0),
        ("12_1", 1),
        ("12_7", 7),
        ("12_2", 2),
    ]
    assert [owner(row, token=TOKEN) for row in rows] == [UUIDS[0], UUIDS[1], None, UUIDS[2]]
    assert rows[0].phase is JobPhase.WAITING


def test_jobs_of_others_belong_to_nobody_here() -> None:
    for text in ("(null)", "", "lading", "lading other abc", f"lading {TOKEN} tooshort"):
        assert [owner(row, token=TOKEN) for row in read_squeue(line(text=text))] == [None]


def test_lines_that_cannot_be_read_are_left_out() -> None:
    assert read_squeue("\nslurm_load_jobs error\n" + line("x") + line(restarts="?")) == []


def test_phases() -> None:
    states = {
        "PENDING": JobPhase.WAITING, "REQUEUED": JobPhase.WAITING, "COMPLETING": JobPhase.RUNNING,
        "SUSPENDED": JobPhase.RUNNING, "NODE_FAIL": JobPhase.ENDED, "COMPLETED": JobPhase.ENDED,
    }  # fmt: skip
    assert {state: read_squeue(line(state=state))[0].phase for state in states} == states


def test_kinds_of_nodes() -> None:
    text = (
        "main*|16|20000|50000|idle|(null)|2\nbig|16|20000|50000|mixed*|(null)|2\ngpu|8+|1000|0|allocated|gpu:a100:2(S:0)|2\n"
        "main*|64|1|1|down*|(null)|2\nmain*|64|1|1|drained|(null)|2\nnonsense\nmain*|x|1|1|idle|(null)|2\n"
    )
    small, large = read_sinfo(text)
    assert (small.capacity, small.partitions, small.default) == (
        Resources(8, 1000 * MIB, 0, 2),
        frozenset({"gpu"}),
        False,
    )
    assert (large.capacity.vcpus, large.partitions, large.default) == (
        16,
        frozenset({"main", "big"}),
        True,
    )
    assert (small.counts, large.counts) == ({"gpu": 2}, {"main": 2, "big": 2, "": 2})
    assert large.name == "Slurm nodes of 16 VCPUs, 19.5 GiB RAM and 48.8 GiB scratch in big, main"
