"""Another user of the Slurm cluster, or the record of a container, attacks the dispatcher: jobs
with the comment of a dispatcher, and names of partitions for the command line of `sbatch`.
"""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.containers.constraints import Policy, check_scheduling, fill_scheduling
from lading.core.errors import Invalid, Unavailable
from lading.core.resources import MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.core.values import Json
from lading.dispatch.fleets.batch.batch_system import job_mark
from lading.dispatch.fleets.batch.job_script import JobSite, Task, write
from lading.dispatch.fleets.batch.programs import JobRefused, run_program
from lading.dispatch.fleets.slurm.sbatch_arguments import Templates
from lading.dispatch.fleets.slurm.slurm_system import SLURM_DIALECT
from lading.testing.containers import TOKEN
from tests.dispatch.fleets.slurm.test_slurm_fleet import ONE, TWO, UUIDS, fleet_of, order
from tests.simulation.slurm_programs import FakeJob, FakeSlurm

STRANGER = "54321"
PARTITIONS = (
    "a,b", "a\nb", "a\0", "a\r", "a\x1b[31m", "", " ", "a" * 300, "\ud800", "a\u2028b", "\x7f",
)  # fmt: skip


def _forged(number: int, uuids: list[str], state: str) -> FakeJob:
    text = job_mark(TOKEN, uuids)
    made = FakeJob(str(number), uuids[0], "", "x", text, 0, 1, (), state=state, user=STRANGER)
    made.node = "n1"
    return made


@pytest.mark.attack("submits jobs with the comment of a dispatcher, for containers of its queue")
@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETED", "FAILED", "NODE_FAIL"])
async def test_jobs_of_another_user_are_nobodys(state: str) -> None:
    slurm = FakeSlurm()
    forged = [_forged(900 + number, [uuid], state) for number, uuid in enumerate(UUIDS)]
    for job in forged:
        slurm.jobs[job.id] = slurm.live[job.id] = job
    async with fleet_of(slurm) as fleet:
        assert fleet.view().processes == {}
        await fleet.start(order(TWO))
        assert [job.uuid for job in slurm.alive() if job.user != STRANGER] == [TWO]
        assert fleet.view().processes.keys() == {TWO}
    assert not any(call[0] == "scancel" for call in slurm.calls)


@pytest.mark.attack("names partitions that add options, lines or lists to a job")
@pytest.mark.parametrize("name", PARTITIONS)
def test_names_of_partitions_are_checked(name: str) -> None:
    with pytest.raises(Invalid, match=r"\[partitions\]"):
        check_scheduling(
            fill_scheduling({"partitions": ["main", name]}), committing=True, policy=Policy()
        )


@pytest.mark.attack("names so many partitions that no command line takes them")
def test_the_number_of_partitions_is_bounded() -> None:
    names: list[Json] = [f"p{number}" for number in range(1001)]
    with pytest.raises(Invalid, match=r"\[partitions\]"):
        check_scheduling(fill_scheduling({"partitions": names}), committing=True, policy=Policy())


@pytest.mark.attack("has an argument of sbatch that the kernel refuses, so that Slurm seems away")
@pytest.mark.parametrize("argument", ["a" * 200_000, "a\0b", "\ud800"])
async def test_an_argument_that_cannot_be_passed_is_refused_for_good(argument: str) -> None:
    with pytest.raises(JobRefused, match="true"):
        await run_program(("true", argument), stdin=b"", timeout=10)
    with pytest.raises(Unavailable):
        await run_program(("no-such-program",), stdin=b"", timeout=10)


@pytest.mark.attack("adds options, directives or commands to a job by the words of a container")
@given(words=st.lists(st.text(min_size=1).filter(lambda text: "\0" not in text), max_size=3))
def test_words_of_a_container_stay_one_argument(words: list[str]) -> None:
    container = TrackedContainer(
        uuid=ONE, need=Resources(1, MIB), priority=1, partitions=tuple(words)
    )
    arguments = Templates().fill(ONE, container)
    # Nothing but one argument depends on them.
    plain = Templates().fill(ONE, TrackedContainer(uuid=ONE, need=Resources(1, MIB), priority=1))
    assert [one for one in arguments if not one.startswith("--partition=")] == plain


@pytest.mark.attack("has a directive for Slurm in the text of an assignment")
@given(text=st.text().filter(lambda text: "\0" not in text))
def test_a_script_has_no_directives_and_gives_back_what_was_put_in(text: str) -> None:
    lines = "\n#SBATCH --uid=0\n#SBATCH --partition=root\n#BB create\n" + text
    site = JobSite(directory="/node", command=("supervisor",), template={"name": lines})
    script = write(site, [Task(ONE, "'; touch /planted; '")], SLURM_DIALECT).decode()
    head = script.split("\n")
    # sbatch looks for directives until the first line that is no comment (sbatch(1)).
    first = next(number for number, line in enumerate(head) if not line.startswith("#"))
    assert not any(line.startswith(("#SBATCH", "#BB", "#DW")) for line in head[:first])
    given_text = script.split("    given=", 1)[1].split("\n    ;;\n", 1)[0]
    (word,) = shlex.split(given_text)
    assert "planted" in word
