from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.errors import Conflict, ExecutionError
from lading.supervisor import journal
from lading.supervisor.engines import Engine, EngineSettings
from lading.supervisor.journal import JournalHeader, RunJournal, StepMark
from lading.supervisor.process.standalone import clean_after_crash as clean
from lading.supervisor.process.standalone import describe_fault as describe
from lading.testing.engine import StubEngine

SETTINGS = EngineSettings(container_uuid="u", run_directory="/r", cache_directory="/c")


class Removed:
    """Makes engines and remembers for what."""

    def __init__(self) -> None:
        self.made: list[tuple[str, EngineSettings]] = []

    def __call__(self, name: str, settings: EngineSettings) -> Engine:
        self.made.append((name, settings))
        return StubEngine(
            settings, faults={"remove": ExecutionError("stuck")} if name == "stuck" else None
        )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    journal.release_lock(journal.acquire_lock(run))
    return run


@pytest.mark.parametrize(
    ("marks", "made"), [([StepMark.BEGUN, StepMark.UNDONE], 0), ([StepMark.BEGUN], 1), ([], 0)]
)
async def test_what_was_begun_is_undone(run: Path, marks: list[StepMark], made: int) -> None:
    journal = RunJournal(run)
    journal.open(JournalHeader(engine="stub", settings=SETTINGS))
    for mark in marks:
        journal.write("container", mark)
    engines = Removed()
    await clean(run, engines=engines)
    assert engines.made == [("stub", SETTINGS)] * made
    assert not run.exists()


async def test_nothing_and_a_bare_directory_are_clean(run: Path) -> None:
    engines = Removed()
    await clean(run, engines=engines)
    await clean(run, engines=engines)
    assert engines.made == []


async def test_the_living_are_left_alone(run: Path) -> None:
    held = journal.acquire_lock(run)
    with pytest.raises(Conflict):
        await clean(run, engines=Removed())
    journal.release_lock(held)
    assert run.exists()


async def test_what_cannot_be_undone_stays(run: Path) -> None:
    journal = RunJournal(run)
    journal.open(JournalHeader(engine="stuck", settings=SETTINGS))
    journal.write("container", StepMark.BEGUN)
    with pytest.raises(ExecutionError, match="stuck"):
        await clean(run, engines=Removed())
    assert run.exists()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Conflict("x"), "it is alive; send it a signal first"),
        (ExecutionError("a\nb"), "a b"),
        (OSError(1, "no"), "[Errno 1] no"),
    ],
)
def test_reasons_are_one_line(error: Exception, text: str) -> None:
    assert describe(error) == text
