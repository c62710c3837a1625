"""The process that submits the steps of a run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lading.client.run_records import submitting
from lading.client.run_records.submitting import ProcessFacts
from lading.core.errors import Invalid


def process(pid: int, parent: int, **more: int | str | bool) -> ProcessFacts:
    """A process of a group, a session and a terminal of its own, unless `more` says otherwise."""
    values = {"group": pid, "session": pid, "terminal": 0, "started": f"t{pid}"}
    return ProcessFacts(pid=pid, parent=parent, **{**values, **more})  # type: ignore[arg-type]


def session(own: int, *known: ProcessFacts) -> str:
    """The session of a process among some."""
    table = {each.pid: each for each in known}
    return submitting.session_of({}, table.get, own, "boot")


SHELL = process(10, 1, session=10, terminal=5)


def at_terminal(pid: int, parent: int, group: int) -> ProcessFacts:
    """A process below the shell of a terminal."""
    return process(pid, parent, group=group, session=10, terminal=5)


def test_a_script_at_a_terminal_is_one_session_and_its_next_run_another() -> None:
    first, second = at_terminal(20, 10, 20), at_terminal(30, 10, 30)
    steps = [at_terminal(pid, 20, 20) for pid in (21, 22)]
    # Below xargs, in the same job.
    deep = [at_terminal(23, 20, 20), at_terminal(24, 23, 20)]
    known = (SHELL, first, second, *steps, *deep, at_terminal(31, 30, 30))
    assert session(21, *known) == session(22, *known) == session(24, *known)
    assert session(31, *known) != session(21, *known)


def test_commands_that_are_typed_are_of_the_shell() -> None:
    known = (SHELL, at_terminal(40, 10, 40), at_terminal(41, 10, 41))
    assert session(40, *known) == session(41, *known)


def test_without_a_terminal_the_first_process_with_the_variable_counts() -> None:
    agent = process(50, 1)
    script = process(60, 50, has_variable=True)
    make = process(61, 60, has_variable=True)
    known = (agent, script, make, process(62, 61), process(63, 60), process(70, 50))
    assert session(62, *known) == session(63, *known)
    # A script that sets the variable itself.
    assert session(70, *known) != session(62, *known)


def test_a_process_that_cannot_be_read() -> None:
    assert session(5) == session(5)
    assert session(5) != session(6)
    gone = process(80, 79, terminal=4, session=1, group=77)
    assert submitting.submitter({80: gone, 79: process(79, 1)}.get, 80) == process(79, 1)
    first = process(90, 89, has_variable=True)
    assert submitting.submitter({91: process(91, 90), 90: first}.get, 91) == first


def test_a_session_that_is_named() -> None:
    assert submitting.session_of({"LADING_SESSION": "build 7"}, lambda _: None, 1, "") == "build 7"


def test_this_process_has_a_session() -> None:
    assert submitting.this_session() == submitting.this_session()
    facts = submitting.read_process(os.getpid())
    assert facts is not None
    assert facts.parent == os.getppid()


@pytest.mark.parametrize(
    ("environment", "named", "run"),
    [
        ({}, None, None),
        ({}, "a", ("a", None)),
        ({"LADING_RUN": "b"}, "a#3", ("a", 3)),
        ({"LADING_RUN": "b", "LADING_ATTEMPT": "2"}, None, ("b", 2)),
        ({"LADING_RUN": "b#4", "LADING_ATTEMPT": "2"}, None, ("b", 4)),
        ({"LADING_RUN": " "}, None, None),
    ],
)
def test_names_of_runs(
    environment: dict[str, str], named: str | None, run: tuple[str, int | None] | None
) -> None:
    assert submitting.run_of(environment, named) == run
    if run is None:
        with pytest.raises(Invalid, match="LADING_RUN"):
            submitting.need_run(run)
    else:
        assert submitting.need_run(run) == run


def test_bad_numbers() -> None:
    with pytest.raises(Invalid, match="LADING_ATTEMPT"):
        submitting.run_of({"LADING_RUN": "b", "LADING_ATTEMPT": "x"})


def test_the_code_of_a_run(tmp_path: Path) -> None:
    script = tmp_path / "p.sh"
    script.write_text("true\n")
    facts = submitting.script_facts(script)
    assert facts["script"] == "p.sh"
    assert facts["script_hash"].startswith("sha256:")
    assert submitting.script_facts(tmp_path / "none") == {}
    assert submitting.commit_facts(tmp_path) == {}
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "p.sh"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    facts = submitting.commit_facts(tmp_path)
    assert (len(facts["commit"]), facts["is_dirty"]) == (40, False)
    script.write_text("false\n")
    assert submitting.commit_facts(tmp_path)["is_dirty"] is True
    assert isinstance(submitting.this_source(), dict)
