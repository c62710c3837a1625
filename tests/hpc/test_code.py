"""The code's life, in real processes.

Source: docs/spec/hpc-daemon, section Processes.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lading.hpc.plan import make_ssh_keys
from tests.hpc_daemon import Rig, until


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _pids(rig: Rig) -> list[int]:
    return [int(one) for one in (rig.own / "stdout.txt").read_text().split()]


def test_runs_to_stopped_with_its_output_kept(rig: Rig) -> None:
    rig.code("echo hello; echo oops >&2")
    assert rig.start().data == {"message": "code started"}
    seen = rig.reach(codeStatus="Stopped", resultStatus="Stopped")
    assert (seen["codeExitStatus"], seen["percentComplete"], seen["startedBy"]) == (
        0,
        100.0,
        "daemon",
    )
    assert rig.call("GET", "/v1/logs/stdout").body == b"hello\n"
    assert rig.call("GET", "/v1/logs/stderr/").body == b"oops\n"


def test_a_second_start_is_ignored(rig: Rig) -> None:
    rig.code("read x < /dev/null; sleep 60")
    rig.start()
    again = rig.start()
    assert (again.status, again.said, again.data["message"]) == (
        200,
        "fail",
        "Code already started",
    )
    assert rig.query()["codeStatus"] == "Running"


@pytest.mark.parametrize(
    ("policy", "script", "status"),
    [
        ("any", "exit 3", "Error"),
        ("any", "sh -c 'exit 3'; true", "Error"),
        ("any", "(sh -c 'sleep 0.1; exit 3' &) ; sleep 60", "Error"),
        ("any", "sh -c 'kill -9 $$'; sleep 60", "Error"),
        ("direct", "sh -c 'exit 3'; true", "Stopped"),
        ("direct", "sleep 60 & exit 3", "Error"),
        ("none", "(sleep 0.2; touch late) & exit 0", "Stopped"),
        ("none", "(sleep 0.2; touch late) & exit 3", "Error"),
    ],
)
def test_whose_exit_code_counts(rig: Rig, policy: str, script: str, status: str) -> None:
    rig.code(f"cd {rig.root}; {script}")
    rig.configure(childFailurePolicy=policy)
    rig.start()
    seen = rig.reach(codeStatus=status)
    assert bool(seen["reason"]) == (status == "Error")
    assert (rig.root / "late").exists() == (policy == "none")


def test_threads_and_stops_do_not_disturb_what_is_followed(rig: Rig) -> None:
    program = (
        "import threading, os; "
        "[t.start() or t.join() for t in [threading.Thread(target=os.getpid)] * 1]"
    )
    rig.code(
        f"{sys.executable} -c '{program}'; "
        "sleep 0.3 & kill -STOP $!; kill -CONT $!; wait; echo done"
    )
    rig.start()
    rig.reach(codeStatus="Stopped")
    assert rig.call("GET", "/v1/logs/stdout").body == b"done\n"


def test_kill_ends_every_descendant(rig: Rig) -> None:
    """An earlier daemon's kill ended one process."""
    rig.code(
        "trap '' TERM; for i in 1 2 3 4 5; do "
        "(setsid sh -c 'trap \"\" TERM; echo $$; sleep 60') & done; wait"
    )
    rig.start()
    until(lambda: len(_pids(rig)) == 5)
    assert rig.command("Kill").data == {"message": "code killed"}
    assert rig.query()["codeStatus"] == "Killed"
    assert [pid for pid in _pids(rig) if _alive(pid)] == []


def test_a_longer_grace_lets_the_code_save_its_work(rig: Rig) -> None:
    rig.code("trap 'sleep 2.2; echo saved; exit' TERM; echo ready; while :; do sleep 0.05; done")
    rig.configure(killGrace=30)
    rig.start()
    until(lambda: rig.call("GET", "/v1/logs/stdout").body == b"ready\n")
    rig.command("kill")
    assert rig.call("GET", "/v1/logs/stdout").body == b"ready\nsaved\n"


def test_kill_of_nothing_changes_nothing(rig: Rig) -> None:
    assert rig.command("kill").data["message"] == "No process currently running"
    assert rig.query()["codeStatus"] == "Waiting"


@pytest.mark.parametrize(
    ("mode", "content", "reason"),
    [
        (
            0o755,
            None,
            (
                "Code executable is missing: there is no /code; "
                "copy the program there in the image, or set codeName"
            ),
        ),
        (
            0o644,
            "#!/bin/sh\n",
            "The code has failed to start: /code is not executable; set its mode to 755",
        ),
        (
            0o755,
            "#!/no/such/program\n",
            "The code has failed to start: /code cannot be run: No such file or directory "
            "(the program that its first line names, or the loader that it needs)",
        ),
        (
            0o755,
            "echo no script\n",
            "The code has failed to start: /code cannot be run: Exec format error "
            "(neither a program for this machine nor a script that begins with #!)",
        ),
    ],
)
def test_what_cannot_be_started_is_an_error(
    rig: Rig, mode: int, content: str | None, reason: str
) -> None:
    if content is not None:
        (rig.root / "code").write_text(content)
        (rig.root / "code").chmod(mode)
    assert rig.start().data["message"] == reason
    assert rig.reach(codeStatus="Error")["reason"] == reason


def test_a_directory_is_no_executable(rig: Rig) -> None:
    (rig.root / "code").mkdir()
    assert rig.start().data["message"] == "The code has failed to start: /code is not a file"


def test_a_missing_home_directory_is_told(rig: Rig) -> None:
    rig.code("exit 0")
    rig.prepare()
    shutil.rmtree(rig.home)
    home = rig.home.relative_to(rig.root)
    assert rig.command("start").data["message"] == (
        f"The code has failed to start: it begins in the home directory /{home}, "
        "which cannot be entered: No such file or directory"
    )


def test_arguments_that_are_too_long_together_are_told(rig: Rig) -> None:
    rig.code("exit 0")
    rig.prepare()
    assert rig.process
    # The limit is a quarter of that of the stack, as of now.
    resource.prlimit(rig.process.pid, resource.RLIMIT_STACK, (1 << 20, 1 << 20))
    rig.configure(codeArguments=["x" * 100_000] * 5)
    assert rig.command("start").data["message"] == (
        "The code has failed to start: /code cannot be run: Argument list too long "
        "(arguments and parameters together; send large parameters as files)"
    )


def test_nothing_is_started_before_the_cluster_is_set_up(rig: Rig) -> None:
    rig.code("exit 0")
    refused = rig.command("start")
    assert (refused.status, refused.said) == (200, "fail")
    assert refused.data["message"] == (
        "the code cannot be started without worldRank, worldSize, "
        "sshAddresses, sshPrivateKey, sshPublicKey: send daemon-configuration"
    )
    keys = make_ssh_keys()
    rig.configure(
        worldRank=0,
        worldSize=2,
        sshAddresses={},
        sshPrivateKey=keys.private,
        sshPublicKey=keys.public,
    )
    assert "without sshAddresses: " in rig.command("start").data["message"]
    assert rig.query()["codeStatus"] == "Waiting"
    rig.configure(worldSize=1)
    assert rig.command("start").said == "success"


def test_starts_without_arguments_and_parameters(rig: Rig) -> None:
    """An earlier daemon wanted both to have been set."""
    rig.code('echo "$#"; env > env', name="hpcaas/code/ring")
    rig.configure(codeName="ring")
    assert rig.start().data == {"message": "code started"}
    assert rig.reach(codeStatus="Stopped")["startedBy"] == "daemon"
    assert rig.call("GET", "/v1/logs/stdout").body == b"0\n"


def test_a_restarted_daemon_follows_the_code_on(rig: Rig) -> None:
    """An earlier daemon believed a Running of the day before."""
    rig.code(f"cd {rig.root}; while ! [ -e go ]; do sleep 0.05; done; echo end")
    rig.start()
    rig.kill()
    rig.up()
    assert rig.query()["codeStatus"] == "Running"
    (rig.root / "go").touch()
    assert rig.reach(codeStatus="Stopped", resultStatus="Stopped")["codeExitStatus"] == 0
    assert rig.call("GET", "/v1/logs/stdout").body == b"end\n"


def test_code_that_ended_unseen_is_an_error(rig: Rig) -> None:
    rig.code("echo $$; sleep 60")
    rig.start()
    until(lambda: len(_pids(rig)) == 1)
    rig.kill()
    os.killpg(_pids(rig)[0], signal.SIGKILL)
    until(lambda: not _alive(_pids(rig)[0]))
    rig.up()
    assert "could not see its exit code" in rig.reach(codeStatus="Error")["reason"]


def test_a_restarted_daemon_can_still_kill(rig: Rig) -> None:
    rig.code("echo $$; sleep 60 & echo $!; wait")
    rig.start()
    until(lambda: len(_pids(rig)) == 2)
    rig.kill()
    rig.up()
    assert rig.command("kill").said == "success"
    rig.reach(codeStatus="Killed")
    assert [pid for pid in _pids(rig) if _alive(pid)] == []


def test_code_that_others_start_is_noticed(rig: Rig) -> None:
    """The code's name is what mpirun starts through ssh; it may come again."""
    name = f"rank{os.getpid()}"
    rig.code("read x", name=f"hpcaas/code/{name}")
    rig.configure(codeName=name)
    for _ in range(2):
        with subprocess.Popen([rig.root / "hpcaas/code" / name], stdin=subprocess.PIPE) as other:
            seen = rig.reach(codeStatus="Running")
            assert seen["startedBy"] == "externally"
            other.communicate()
        rig.reach(codeStatus="Stopped", resultStatus="Stopped")


def test_nothing_is_watched_when_the_code_has_ended(rig: Rig) -> None:
    """An earlier daemon's watcher never ended. This one has a descriptor for each process it
    awaits.
    """

    def watched() -> list[str]:
        assert rig.process
        found = []
        for one in Path(f"/proc/{rig.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append(str(one.readlink()))
        return [one for one in found if "pidfd" in one]

    rig.code("echo $$; sleep 60")
    rig.start()
    until(lambda: len(_pids(rig)) == 1)
    rig.kill()
    rig.up()
    until(lambda: watched() != [])
    rig.command("kill")
    rig.reach(codeStatus="Killed")
    until(lambda: watched() == [])


def test_code_that_others_start_is_killed_too(rig: Rig) -> None:
    name = f"other{os.getpid()}"
    rig.code("read x", name=f"hpcaas/code/{name}")
    rig.configure(codeName=name)
    with subprocess.Popen([rig.root / "hpcaas/code" / name], stdin=subprocess.PIPE) as other:
        rig.reach(codeStatus="Running")
        killed = rig.command("kill")
        assert other.wait() != 0
    assert killed.said == "success"
    rig.reach(codeStatus="Killed")
