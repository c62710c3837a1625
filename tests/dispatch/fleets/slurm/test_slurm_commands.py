"""Slurm's programs: what their failures mean."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lading.core.errors import Unavailable
from lading.dispatch.fleets.batch.programs import JobRefused, OutcomeUnknown, ProgramResult
from lading.dispatch.fleets.slurm.slurm_commands import Slurm


class Answering:
    """A runner that always answers the same."""

    def __init__(self, done: ProgramResult) -> None:
        self.done, self.calls = done, list[tuple[tuple[str, ...], bytes]]()

    async def __call__(
        self, arguments: Sequence[str], *, stdin: bytes, timeout: float
    ) -> ProgramResult:
        self.calls.append((tuple(arguments), stdin))
        return self.done


def slurm(code: int = 0, out: str = "", err: str = "") -> tuple[Slurm, Answering]:
    run = Answering(ProgramResult(code, out, err))
    return Slurm(run, timeout=1.0), run


async def test_sbatch_gives_the_id() -> None:
    for out in ("12\n", "12;cluster\n"):
        made, run = slurm(out=out)
        assert await made.sbatch(["--x"], b"script") == "12"
        assert run.calls == [(("sbatch", "--parsable", "--x"), b"script")]


@pytest.mark.parametrize(
    ("err", "kind"),
    [
        ("sbatch: error: Batch job submission failed: "
         "Requested node configuration is not available", JobRefused),
        ("sbatch: error: Unable to contact slurm controller (connect failure)", Unavailable),
        ("sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying.",
         Unavailable),
        ("sbatch: error: Batch job submission failed: "
         "Job violates accounting/QOS policy", Unavailable),
        ("sbatch: error: Batch job submission failed: "
         "Socket timed out on send/recv operation", OutcomeUnknown),
        ("", OutcomeUnknown),
    ],
)  # fmt: skip
async def test_failures_of_sbatch(err: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        await slurm(1, err=err)[0].sbatch([], b"")


async def test_an_answer_without_an_id_tells_nothing() -> None:
    with pytest.raises(OutcomeUnknown, match="no job id"):
        await slurm(out="Submitted")[0].sbatch([], b"")


async def test_cancelling_what_has_ended_is_no_fault() -> None:
    await slurm(1, err="scancel: error: Kill job error on job id 9: Invalid job id specified")[
        0
    ].scancel(["9"])
    with pytest.raises(Unavailable):
        await slurm(1, err="scancel: error: Unable to contact slurm controller (connect failure)")[
            0
        ].scancel(["9"])


async def test_all_nice_values_go_to_one_program() -> None:
    made, run = slurm(1, err="Invalid job id specified for job 3")
    await made.renice({"3": 10, "4_1": 0})
    assert run.calls == [(("scontrol",), b"update JobId=3 Nice=10\nupdate JobId=4_1 Nice=0\n")]
    with pytest.raises(Unavailable):
        await slurm(1, err="Unable to contact slurm controller (connect failure)")[0].renice(
            {"3": 1}
        )


async def test_questions() -> None:
    made, run = slurm(out="rows")
    assert [await made.squeue(), await made.sinfo(), await made.ended(["3", "4_1", "4_2"])] == [
        "rows"
    ] * 3
    assert "--jobs=3,4" in run.calls[2][0]
    with pytest.raises(Unavailable, match="squeue: no message"):
        await slurm(1)[0].squeue()


async def test_jobs_that_slurm_has_forgotten_are_none() -> None:
    forgotten = "slurm_load_jobs error: Invalid job id specified"
    assert await slurm(1, err=forgotten)[0].ended(["3"]) == ""
    with pytest.raises(Unavailable, match="connect failure"):
        await slurm(1, err="slurm_load_jobs error: connect failure")[0].ended(["3"])


async def test_jobs_of_others_are_not_asked_for() -> None:
    _, run = slurm(out="rows")
    made = Slurm(run, timeout=1.0, users=("7", "ann"))
    await made.squeue()
    await made.ended(["3"])
    assert all("--user=7,ann" in arguments for arguments, _ in run.calls)
