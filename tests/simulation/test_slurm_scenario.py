"""A few dramas of a Slurm of which three commands in ten fail; `make simulate` plays large ones."""

from __future__ import annotations

import itertools

import pytest

from lading.dispatch.fleets.batch.batch_system import job_mark
from lading.dispatch.fleets.batch.programs import OutcomeUnknown
from lading.testing.simulated_loop import play
from tests.simulation.slurm_faults import Malady, Unreliable
from tests.simulation.slurm_programs import FakeSlurm
from tests.simulation.slurm_scenario import SlurmDrama


@pytest.mark.parametrize("seed", range(3))
def test_every_container_ends_once_and_no_job_is_left(seed: int) -> None:
    drama = SlurmDrama(seed, containers=40, waves=3, restarts=2)
    outcome = play(drama.play())
    assert not drama.slurm.alive()
    assert sum(drama.ran.values()) == len(drama.ran) >= outcome.complete
    assert outcome.failed > outcome.commands / 10


def test_a_seed_is_played_again_exactly() -> None:
    first, second = (
        play(SlurmDrama(4, containers=20, waves=2, restarts=1).play()) for _ in range(2)
    )
    assert first == second


def test_a_container_that_ends_for_nothing_is_found() -> None:
    drama = SlurmDrama(5, containers=3, waves=1, restarts=0)
    play(drama.play())
    drama.excused.clear()
    for record in drama.server.records.values():
        record["state"] = "Cancelled"
    with pytest.raises(AssertionError, match="though nothing had happened to it"):
        drama.judge()


def test_squeue_cuts_its_answers_and_gives_old_ones_and_never_twice_in_a_row() -> None:
    async def acts() -> None:
        slurm = FakeSlurm(slots=0)
        malady = Malady(away=0.0, pretend=0.0, hang=0.0, deaf=0.0, cut=0.5, stale=0.5, lag=1.0)
        programs = Unreliable(slurm, malady, seed=1, harmed=hidden.add)
        told = []
        for number in range(40):
            script = (
                f"{number}\n0)\n    uuid=zzzzz-dz642-{number:015d}\n"
                f'    given=\'{{"supervisor_token":"t"}}\'\n    ;;\n'
            )
            mark = job_mark("zzzzz-gj3su-000000000000000", [f"zzzzz-dz642-{number:015d}"])
            options = ["sbatch", "--job-name=x", f"--comment={mark}", "--nice=0"]
            await slurm(options, stdin=script.encode(), timeout=1.0)
            done = await programs(["squeue"], stdin=b"", timeout=1.0)
            told.append(done.out.count("\n") == number + 1)
        assert 5 < programs.lies <= 20
        assert not any(first is second is False for first, second in itertools.pairwise(told))
        assert hidden

    hidden: set[str] = set()
    play(acts())


def test_three_commands_in_ten_fail() -> None:
    async def acts() -> None:
        programs = Unreliable(FakeSlurm(), Malady(lag=0.0), seed=1)
        assert programs.malady.failing == pytest.approx(0.3)
        for _ in range(500):
            try:
                await programs(["squeue"], stdin=b"", timeout=30.0)
            except OutcomeUnknown:
                continue
        assert 0.25 < programs.failed / programs.commands < 0.35

    play(acts())
