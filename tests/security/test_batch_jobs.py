"""Another user of a batch system's nodes, or the record of a container, attacks the dispatcher."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.config.batch import BatchSite
from lading.core.errors import Unavailable
from lading.core.resources import MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.dispatch.fleets.batch.argument_templates import ArgumentTemplates
from lading.dispatch.fleets.batch.job_script import JobSite, Task, secret_assignments, write
from lading.dispatch.fleets.batch.job_secrets import put_secrets
from lading.dispatch.fleets.batch_adapters.opening import batch_system
from lading.testing.played_scheduler import PlayedScheduler
from tests.simulation.batch_scenario import MOUTHS

UUID = "zzzzz-dz642-000000000000001"
DIRECTIVES = ("#$ -q root.q", "#PBS -q root", "#BSUB -q root", "#SBATCH --uid=0")


@pytest.mark.attack("reads the script of a job where the batch system lets every user read it")
@pytest.mark.parametrize("name", list(MOUTHS))
def test_a_script_that_others_read_holds_no_token(name: str) -> None:
    programs = MOUTHS[name](PlayedScheduler())
    dialect = batch_system(BatchSite(System=name), run=programs, user="ann").dialect
    site = JobSite(directory="/n", command=("s",), template={}, secrets="/shared/secrets")
    tasks = [Task(UUID, "a secret")]
    is_in_script = b"a secret" in write(site, tasks, dialect)
    assert is_in_script is dialect.is_private
    assert bool(secret_assignments(site, tasks, dialect)) is not dialect.is_private


@pytest.mark.attack("reads the directory with the tokens of jobs")
def test_a_directory_that_others_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir(mode=0o755)
    with pytest.raises(Unavailable, match="mode 0700"):
        put_secrets(str(tmp_path / "secrets"), {UUID: "secret"})


@pytest.mark.attack("names queues that add options to a job, or a directive to its script")
@given(words=st.lists(st.text(min_size=1), min_size=1, max_size=3))
def test_words_of_a_container_stay_one_argument(words: list[str]) -> None:
    container = TrackedContainer(uuid=UUID, need=Resources(1, MIB), partitions=tuple(words))
    templates = ArgumentTemplates(arguments=("-q %P",))
    assert templates.fill(UUID, container, name="job", level=0) == ["-q", ",".join(words)]


@pytest.mark.attack("has a directive for a batch system in the text of an assignment")
@pytest.mark.parametrize("name", list(MOUTHS))
def test_no_line_of_a_script_is_a_directive(name: str) -> None:
    programs = MOUTHS[name](PlayedScheduler())
    dialect = batch_system(BatchSite(System=name), run=programs, user="ann").dialect
    template = {"name": "\n".join(("", *DIRECTIVES, ""))}
    site = JobSite(directory="/n", command=("s",), template=template)
    lines = write(site, [Task(UUID, "\n".join(DIRECTIVES))], dialect).decode().splitlines()
    assert not any(line.startswith(("#$", "#PBS", "#BSUB", "#SBATCH")) for line in lines)
