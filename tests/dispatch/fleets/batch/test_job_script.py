"""The job script, run by a real shell."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from lading.dispatch.fleets.batch.job_script import (
    JobSite,
    Task,
    certificate_path,
    write,
)
from lading.dispatch.fleets.slurm.slurm_system import SLURM_DIALECT

ONE, TWO = "zzzzz-dz642-000000000000001", "zzzzz-dz642-000000000000002"
SUPERVISOR = """import json, os, signal, sys
from pathlib import Path
base = Path(sys.argv[1])
if "--clean" in sys.argv:
    base.joinpath("cleaned").write_text(sys.argv[-1])
    sys.exit()
base.joinpath("told").write_text(sys.stdin.read())
base.joinpath("words").write_text(json.dumps(sys.argv[1:]))
base.joinpath("environment").write_text(json.dumps(dict(os.environ)))
if "leave" in os.environ.get("MODE", ""):
    base.joinpath("run", sys.argv[-1]).mkdir()
if "wait" in os.environ.get("MODE", ""):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    base.joinpath("ready").write_text("x")
    signal.pause()
sys.exit(3)
"""


def site(tmp_path: Path, **more: str) -> JobSite:
    program = tmp_path / "supervisor.py"
    program.write_text(SUPERVISOR)
    return JobSite(
        directory=str(tmp_path / "node"),
        command=(sys.executable, "-S", str(program), str(tmp_path / "node")),
        template={"api_url": "https://it's.example"},
        certificate="PEM 'quoted'\n",
        environment={"MODE": more.pop("mode", "")},
        hooks=more.pop("hooks", ""),
    )


def start(script: bytes, **environment: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        ["/bin/sh"], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "SLURM_JOB_ID": "7", **environment},
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(script)
    process.stdin.close()
    return process


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    assert process.stderr is not None
    said = process.stderr.read().decode()
    process.stderr.close()
    return process.wait(20), said


def test_the_supervisor_gets_its_assignment_and_its_exit_code_is_the_jobs(tmp_path: Path) -> None:
    made = site(tmp_path)
    assert finish(start(write(made, [Task(ONE, "v2/secret")], SLURM_DIALECT))) == (3, "")
    told = json.loads((tmp_path / "node/told").read_text())
    assert (told["container_uuid"], told["supervisor_token"]) == (ONE, "v2/secret")
    assert (told["device_directory"], told["instance_share"]) == (f"{tmp_path}/node/gpus", 1.0)
    assert told["run_directory"] == f"{tmp_path}/node/run/{ONE}"
    assert Path(told["api_ca_file"]).read_text() == made.certificate == "PEM 'quoted'\n"
    assert not (tmp_path / "node/cleaned").exists()


def test_no_token_is_in_the_environment_or_a_command_line(tmp_path: Path) -> None:
    finish(start(write(site(tmp_path), [Task(ONE, "v2/secret")], SLURM_DIALECT)))
    assert "v2/secret" not in (tmp_path / "node/environment").read_text()
    assert "secret" not in repr(Task(ONE, "v2/secret"))
    assert (tmp_path / "node").stat().st_mode & 0o777 == 0o700


def test_an_array_gives_each_task_its_own(tmp_path: Path) -> None:
    script = write(site(tmp_path), [Task(ONE, "one"), Task(TWO, "two")], SLURM_DIALECT)
    finish(start(script, SLURM_ARRAY_TASK_ID="1", SLURM_ARRAY_JOB_ID="5"))
    assert json.loads((tmp_path / "node/told").read_text())["supervisor_token"] == "two"
    assert finish(start(script, SLURM_ARRAY_TASK_ID="2"))[0] == 2


def test_a_job_that_slurm_has_started_again_runs_nothing(tmp_path: Path) -> None:
    code, said = finish(
        start(write(site(tmp_path), [Task(ONE, "one")], SLURM_DIALECT), SLURM_RESTART_COUNT="1")
    )
    assert (code, "not run twice" in said) == (0, True)
    assert not (tmp_path / "node").exists()


def test_what_a_dead_supervisor_left_is_cleaned_and_the_end_is_told(tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    script = write(
        site(tmp_path, mode="leave", hooks=str(hooks)), [Task(ONE, "one")], SLURM_DIALECT
    )
    assert finish(start(script))[0] == 3
    assert (tmp_path / "node/cleaned").read_text() == ONE
    finish(start(script, SLURM_ARRAY_TASK_ID="0", SLURM_ARRAY_JOB_ID="5"))
    assert sorted(path.name for path in hooks.iterdir()) == ["5_0", "7"]


def test_term_reaches_the_supervisor_and_is_waited_for(tmp_path: Path) -> None:
    fifo = tmp_path / "node/ready"
    fifo.parent.mkdir(mode=0o700)
    os.mkfifo(fifo)
    process = start(write(site(tmp_path, mode="wait"), [Task(ONE, "one")], SLURM_DIALECT))
    assert fifo.read_text() == "x"
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 7


def test_the_exit_code_is_kept_where_the_supervisor_ends_with_the_signal(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_bytes(write(site(tmp_path), [Task(ONE, "one")], SLURM_DIALECT))
    # Little to take down, so that it ends before the shell looks again: about every fifth time.
    (tmp_path / "supervisor.py").write_text(
        "import os, signal\n"
        "signal.signal(signal.SIGTERM, lambda *_: os._exit(7))\n"
        "os.kill(os.getppid(), signal.SIGTERM)\n"
        "signal.pause()\n"
    )
    often = 'for one in $(seq 60); do SLURM_JOB_ID=7 sh "$0"; echo $?; done'
    done = subprocess.run(["sh", "-c", often, script], capture_output=True, check=True, timeout=60)
    assert done.stdout.split() == [b"7"] * 60


def test_without_a_certificate_there_is_no_path(tmp_path: Path) -> None:
    assert certificate_path(JobSite(directory="/d", command=(), template={})) == ""


def test_the_gpus_that_slurm_gives_are_those_that_may_be_used(tmp_path: Path) -> None:
    made = site(tmp_path)
    cases: tuple[dict[str, str], ...] = (
        {"SLURM_JOB_GPUS": "1,3", "CUDA_VISIBLE_DEVICES": "0,1"},
        {"CUDA_VISIBLE_DEVICES": "1,3"},
        {"ZE_AFFINITY_MASK": "1,3"},
        {"SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": "MIG-a,MIG-b"},
        {},
    )
    given_gpus = (*[["--gpus", "1,3"]] * 3, ["--gpus", "MIG-a,MIG-b"], [])
    for environment, given in zip(cases, given_gpus, strict=True):
        finish(start(write(made, [Task(ONE, "v2/secret")], SLURM_DIALECT), **environment))
        words = json.loads((tmp_path / "node/words").read_text())
        assert words[3:] == [*given, ONE]


def test_annexes_of_a_gang_are_steps_of_the_job_on_its_other_nodes(tmp_path: Path) -> None:
    """srun is acted: it says how it is called, and runs the command."""
    made = site(tmp_path)
    text = write(made, [Task(ONE, "secret", spread=True)], SLURM_DIALECT).decode()
    told = json.loads(
        shlex.split(next(line for line in text.splitlines() if "given=" in line).strip())[0][6:]
    )
    *command, rank, program, sterile, place, base = told["annex_command"]
    assert (rank, program, sterile, place, base) == ("{rank}", *made.command)
    (tmp_path / "srun").write_text('#!/bin/sh\necho "$@" >&2\nshift 7\nexec "$@"\n')
    (tmp_path / "srun").chmod(0o755)
    around = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1",
        "SLURM_CPUS_PER_TASK": "4",
    }
    done = subprocess.run(
        [*command, "2", "echo", "said"], env=around, capture_output=True, text=True, check=True
    )
    assert done.stdout == "said --annex 10.0.0.1\n"
    assert "--overlap --nodes=1 --ntasks=1 --relative=2" in done.stderr
    assert "--cpus-per-task=4" in done.stderr
