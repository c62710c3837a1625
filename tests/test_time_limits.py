"""Cases that wait for ever fail in their time, name what they wait for, and leave no process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from lading.supervisor import linux
from tests.case_processes import VARIABLE, Owners
from tests.time_limits import Timer, untimed

ROOT = Path(__file__).parents[1]
HEAD = "import asyncio, pytest, subprocess, threading\n"
WAITER = 'subprocess.Popen(["sh", "-c", "echo working on a; sleep {}"], stdout=-1)'
FOR_EVER = "threading.Event().wait()"


def run(folder: Path, code: str, limit: float, *options: str, grace: float = 30.0) -> str:
    """The output of pytest on cases that are interrupted after `limit` seconds, each, and again
    after `grace`.
    """
    (folder / "test_cases.py").write_text(HEAD + code)
    command: list[str | Path] = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.time_limits",
        "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function",
        "--timeout", str(limit), "--rootdir", folder, *options, folder,
    ]  # fmt: skip
    environment = os.environ | {"LADING_TEST_GRACE": str(grace), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def is_running(number: str) -> bool:
    return linux.is_running(int(number))


def test_it_names_the_thread_the_task_and_the_process_with_its_output(tmp_path: Path) -> None:
    code = f"""
async def waits():
    await asyncio.Event().wait()

async def test_waits():
    process = {WAITER.format(1001)}
    await asyncio.create_task(waits(), name="reader")
"""
    said = run(tmp_path, code, 1.5)
    assert "TimeLimitExceeded: not done in 1.5 s" in said
    assert re.search(r"task reader:\n.*test_cases.py:\d+ waits\n.* Event.wait\n", said)
    assert re.search(r"process \d+: sh -c .*1001 \(state S, .*\)\n.*\| working on a\n", said)
    assert re.search(r"process \d+: sleep 1001 \(state S, ", said)
    assert "1 failed" in said


def test_its_processes_end_and_those_of_shared_fixtures_go_on(tmp_path: Path) -> None:
    code = f"""
@pytest.fixture(scope="module")
def shared():
    with subprocess.Popen(["sleep", "1002"]) as process:
        yield process
        process.kill()

def test_waits(shared):
    processes.append({WAITER.format(1003)})
    {FOR_EVER}

def test_next(shared):
    assert shared.poll() is None
    assert processes[0].wait() == -15

processes = []
"""
    said = run(tmp_path, code, 1.5)
    assert "1 failed, 1 passed" in said
    (number,) = {*re.findall(r"process (\d+): sleep 1003", said)}
    assert not is_running(number)
    assert ": sleep 1002" not in said


def test_a_case_that_goes_on_regardless_is_ended_with_its_processes(tmp_path: Path) -> None:
    code = f"""
def test_goes_on():
    process = {WAITER.format(1004)}
    while True:
        try:
            {FOR_EVER}
        except BaseException:
            pass

def test_next():
    pass
"""
    said = run(tmp_path, code, 1.5, "-n", "1", grace=0.2)
    assert "crashed while running 'test_cases.py::test_goes_on'" in said
    assert "1 failed, 1 passed" in said
    numbers = re.findall(r"process (\d+): ", said)
    assert numbers
    assert not any(map(is_running, numbers))


def test_a_case_that_leaves_a_process_fails(tmp_path: Path) -> None:
    code = f"processes = []\ndef test_leaves():\n    processes.append({WAITER.format(1005)})\n"
    said = run(tmp_path, code, 60)
    assert "1 passed, 1 error" in said
    (number,) = {*re.findall(r"the case left running:\n.*process (\d+): sh -c .*1005", said)}
    assert not is_running(number)


def test_orphans_are_named_and_ended_at_the_end_of_the_run(tmp_path: Path) -> None:
    code = 'def test_leaves():\n    subprocess.run(["sh", "-c", "sleep 1006 >/dev/null 2>&1 &"])\n'
    said = run(tmp_path, code, 60)
    assert "1 passed" in said
    (number,) = {*re.findall(r"the run left process (\d+): sleep 1006", said)}
    assert not is_running(number)


def test_long_cases_have_ten_minutes_or_their_own_limit(tmp_path: Path) -> None:
    code = """
LIMITS = {"test_short": (), "test_long": (600.0,), "test_longer": (1800,)}

@pytest.fixture(autouse=True)
def limited(request):
    mark = request.node.get_closest_marker("timeout")
    assert LIMITS[request.node.name] == (mark.args if mark else ())

def test_short(): pass

@pytest.mark.long
def test_long(): pass

@pytest.mark.long
@pytest.mark.timeout(1800)
def test_longer(): pass
"""
    assert "3 passed" in run(tmp_path, code, 60, "-o", "markers=long")


def test_time_for_an_environment_does_not_count() -> None:
    timer = Timer.current
    with untimed():
        assert timer is None or timer.remaining == 0.0
    assert timer is None or timer.remaining > 0.0


def test_a_pause_lasts_until_all_threads_have_ended_theirs() -> None:
    timer = Timer.current
    if timer is None:
        pytest.skip("no time limit")
    before = timer.remaining
    second, done = threading.Event(), threading.Event()

    def pause() -> None:
        with timer.paused():
            second.set()
            done.wait(20)

    thread = threading.Thread(target=pause)
    with timer.paused():
        thread.start()
        second.wait(20)
    assert timer.remaining == 0.0
    done.set()
    thread.join()
    # Not the short time of grace.
    assert before - 20 < timer.remaining <= before


def test_owners_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    owners = Owners()
    owners.begin_case()
    with ExitStack() as stack:

        def start(env: dict[str, str] | None = None) -> int:
            return stack.enter_context(
                subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=env)
            ).pid

        own, bare = start(), start(env={})
        with owners.wide_fixture("shared"):
            shared = {start(), start(env={})}
        assert [one.pid for one in owners.children_of_case()] == [own, bare]
        assert [one.pid for one in owners.of_case()] == [own, bare]
        assert {own} < {one.pid for one in owners.of_run()} < {own, *shared}
        owners.begin_case()
        assert owners.of_case() == []
    assert owners.of_run() == []
