"""Real MPI over ssh between containers with addresses of their own, through `lading up`; and what
goes wrong.

The faults marked `long` are run by `make hpc`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lading.supervisor.limits.cgroup import Cgroup, find_hierarchy
from lading.supervisor.machine import mount_table
from tests.hpc_daemon import Rig, until
from tests.reality import need_ipv6, need_program, need_root
from tests.system.cloud import TYPES, Cloud, running_cloud
from tests.system.cluster import (
    LADING,
    Cluster,
    left_mounts,
    left_processes,
    processes_naming,
    running_cluster,
)
from tests.system.docker_daemon import DockerDaemon
from tests.system.podman_service import PodmanService
from tests.system.records import Api
from tests.system.slurm_cluster import SlurmCluster, running_slurm

pytestmark = pytest.mark.system
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "mpi"
# More than there are, so that four ranks run at once on a small machine.
CONFIG = "Local: {VCPUs: 8, RAM: 4GiB}\nContainers: {StopGracePeriod: 2s}\n"
BUSY = 'echo begun > /hpcaas/results/r; touch "rank-$OMPI_COMM_WORLD_RANK"; sleep %s'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_root()
    for program in ("mpicc", "mpirun", "sshd", "crun", "ip"):
        need_program(program)
    folder = tmp_path_factory.mktemp("mpi")
    programs = []
    for name in ("ring", "allreduce", "heat"):
        programs.append(str(folder / name))
        flags = ["-O2", "-ffp-contract=off", "-o", programs[-1], str(EXAMPLES / f"{name}.c")]
        subprocess.run(["mpicc", *flags], check=True)
    with running_cluster(folder / "data", CONFIG) as running:
        # By relative paths, as the documentation has it.
        named = [f"./{Path(one).name}" for one in programs]
        subprocess.run(
            [LADING, "image", "hpc", *named],
            cwd=folder,
            env=running.environment,
            check=True,
            timeout=120,
        )
        yield running
    assert left_processes(folder / "data") == []
    assert left_mounts(folder / "data") == set()


@pytest.mark.quick
def test_a_ring_an_allreduce_and_the_heat_equation(cluster: Cluster, tmp_path: Path) -> None:
    script = "mpirun ring && mpirun allreduce 12345 && mpirun heat field 1000 300"
    gang = (
        "hpc",
        "run",
        "--size",
        "4",
        "--launcher",
        "first",
        "--output",
        str(tmp_path / "out"),
        "--",
        "sh",
        "-c",
        script,
    )
    done = cluster.lading(*gang)
    *ring, closed, summed, heat = done.stdout.splitlines()
    assert sorted([*ring, closed])[:4] == [
        f"rank {n} of 4 on container-{n} has token {n + 1}" for n in range(4)
    ]
    assert "ring closed with token 4" in done.stdout
    serial = sum(n * n for n in range(1, 12346))
    assert (summed, heat) == (
        f"4 ranks: {serial}, serial: {serial}",
        "4 ranks, 1000 cells, 300 steps",
    )
    single = [str(cluster.data.parent / "heat"), str(tmp_path / "field"), "1000", "300"]
    subprocess.run(
        ["mpirun", "--allow-run-as-root", "-np", "1", *single],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    assert (tmp_path / "out" / "field").read_bytes() == (tmp_path / "field").read_bytes()
    again = cluster.lading(*(word.replace("/out", "/again") for word in gang))
    assert "reused" in again.stderr
    assert (tmp_path / "again" / "field").read_bytes() == (tmp_path / "field").read_bytes()


@pytest.mark.long
def test_the_wheel_alone_brings_the_daemon(tmp_path: Path) -> None:
    """`lading hpc daemon` in a Python where nothing but the wheel is installed."""
    source, python = tmp_path / "source", tmp_path / "bare" / "bin" / "python"
    shutil.copytree(
        ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__")
    )
    (source / "docs").mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "docs/lading.1"):
        shutil.copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    alone = ["--no-deps", "--no-index"]
    subprocess.run(
        [*pip, "wheel", *alone, "--no-build-isolation", "-w", tmp_path, source], check=True
    )
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    wheel = next(tmp_path.glob("lading-*.whl"))
    subprocess.run([*pip, "--python", python, "install", *alone, f"{wheel}[hpc]"], check=True)
    assert len(list((tmp_path / "bare").glob("lib/*/site-packages/*.dist-info"))) == 1
    rig = Rig(tmp_path / "root", program=(str(python.with_name("lading")), "hpc", "daemon"))
    rig.up()
    try:
        rig.code("echo hello")
        rig.start()
        assert rig.reach(codeStatus="Stopped", resultStatus="Stopped")["codeExitStatus"] == 0
    finally:
        rig.down()


@pytest.mark.long
def test_another_number_of_ranks_is_another_computation(cluster: Cluster) -> None:
    for size in ("2", "3"):
        done = cluster.lading("hpc", "run", "--size", size, "--", "allreduce", "7")
        assert "reused" not in done.stderr
        assert done.stdout == f"{size} ranks: 140, serial: 140\n"


@pytest.mark.long
def test_every_rank_gets_parameters_and_files_and_its_results_are_kept(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "mesh.txt").write_text("mesh\n")
    script = (
        "stat -c %a /hpcaas/files/mesh.txt > /hpcaas/results/mode; "
        'echo "$WORLD_RANK" >> /hpcaas/files/mesh.txt; '
        'echo "$WORLD_RANK of $WORLD_SIZE: $STEPS" '
        "| cat - /hpcaas/files/mesh.txt > /hpcaas/results/r"
    )
    cluster.lading(
        "hpc", "run", "--size", "3", "--vcpus", "0", "--launcher", "all", "--param", "STEPS=5",
        "--file", str(tmp_path / "mesh.txt"), "--output", str(tmp_path / "out"),
        "--", "sh", "-c", script,
    )  # fmt: skip
    for rank in range(3):
        kept = (tmp_path / f"out/ranks/{rank}/results/r").read_text()
        # Each has a copy of its own, which it may change.
        assert kept == f"{rank} of 3: 5\nmesh\n{rank}\n"
        assert (tmp_path / f"out/ranks/{rank}/results/mode").read_text() == "666\n"


def test_each_rank_has_the_secrets_and_no_record_does(cluster: Cluster) -> None:
    script = 'test ${#DB_PASSWORD} = 7 && test "$(cat /run/secrets/DB_PASSWORD)" = "$DB_PASSWORD"'
    words = ("hpc", "run", "--size", "2", "--launcher", "all", "--secret", "DB_PASSWORD=hunter2")
    done = cluster.lading(*words, "--", "sh", "-c", f"{script} && echo well")
    assert sorted(done.stdout.split()) == ["[0]", "[1]", "well", "well"]
    told = cluster.lading("request", "show", "last", "--json").stdout
    told += cluster.lading("request", "logs", "last", "--file", "crunch-run.txt").stdout
    told += cluster.lading("request", "why", "last", "--json").stdout + done.stdout + done.stderr
    assert "hunter2" not in told


@pytest.mark.long
def test_a_gang_through_slurm_is_one_job(tmp_path_factory: pytest.TempPathFactory) -> None:
    need_root()
    for program in ("slurmctld", "slurmd", "munged", "mpirun", "sshd", "crun"):
        need_program(program)
    root = tmp_path_factory.mktemp("slurm")
    with running_slurm(root / "slurm", nodes=2, vcpus=4, ram=4000) as slurm:
        config = (
            "Containers: {Dispatcher: slurm, ReserveExtraRAM: 0, "
            f"SLURM: {{NodeDirectory: {root / 'node'}}}}}\n"
        )
        with running_cluster(root / "data", config, slurm.environment) as cluster:
            cluster.lading("image", "hpc")
            gang = (
                "hpc",
                "run",
                "--size",
                "3",
                "--no-reuse",
                "--",
                "sh",
                "-c",
                'echo "$OMPI_COMM_WORLD_RANK"; sleep 3',
            )
            with subprocess.Popen(
                [LADING, *gang],
                env=cluster.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            ) as process:
                until(lambda: bool(slurm.jobs()))
                shown = slurm.run("scontrol", "show", "job", slurm.jobs()[0].split()[0])
                said, _ = process.communicate(timeout=120)
            assert (process.returncode, sorted(said.split())) == (0, ["0", "1", "2"])
            assert {"NumTasks=3", "CPUs/Task=1", "NumCPUs=3"} <= set(shown.split())
            until(lambda: not slurm.jobs())


@pytest.fixture(params=["127.0.0.1"])
def spread(
    tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[SlurmCluster, Cluster]]:
    """Three nodes of Slurm, of which none can hold two ranks of two CPUs; the parameter is their
    address.
    """
    need_root()
    if ":" in request.param:
        need_ipv6()
    for program in ("slurmctld", "slurmd", "munged", "mpirun", "sshd", "crun", "bridge"):
        need_program(program)
    with running_slurm(
        tmp_path / "slurm", nodes=3, vcpus=2, ram=4000, address=request.param
    ) as slurm:
        config = (
            "Containers: {Dispatcher: slurm, ReserveExtraRAM: 0, "
            f"SLURM: {{NodeDirectory: {tmp_path}/node}}}}\n"
        )
        with running_cluster(tmp_path / "data", config, slurm.environment) as cluster:
            cluster.lading("image", "hpc")
            yield slurm, cluster
            until(lambda: not slurm.jobs())
            until(lambda: not list((tmp_path / "node").glob("annex/*")))
            assert left_processes(tmp_path / "node") == []
            assert left_mounts(tmp_path / "node") == set()


SPREAD = ("hpc", "run", "--size", "3", "--vcpus", "2", "--no-reuse")


@pytest.mark.long
@pytest.mark.parametrize("spread", ["127.0.0.1", "::1"], indirect=True)
def test_a_gang_over_several_nodes_of_slurm(
    spread: tuple[SlurmCluster, Cluster], tmp_path: Path
) -> None:
    slurm, cluster = spread
    script = "touch w$OMPI_COMM_WORLD_RANK; echo r > /hpcaas/results/r; hostname; sleep 2"
    command = [LADING, *SPREAD, "--output", str(tmp_path / "out"), "--", "sh", "-c", script]
    with subprocess.Popen(
        command,
        env=cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        until(lambda: any("RUNNING" in job for job in slurm.jobs()))
        shown = slurm.run("scontrol", "show", "job", slurm.jobs()[0].split()[0])
        said, _ = process.communicate(timeout=120)
    assert {"NumNodes=3", "NumTasks=3", "CPUs/Task=2"} <= set(shown.split())
    assert (process.returncode, sorted(said.split())) == (
        0,
        sorted(2 * ["container-0", "container-1", "container-2"]),
    )
    files = {
        str(one.relative_to(tmp_path / "out"))
        for one in (tmp_path / "out").rglob("*")
        if one.is_file()
    }
    assert files == {
        *(f"w{rank}" for rank in range(6)),
        *(f"ranks/{rank}/results/r" for rank in range(3)),
    }


@pytest.mark.long
@pytest.mark.parametrize("what", ["cancel", "machine", "rank", "supervisor"])
def test_what_goes_wrong_with_a_gang_over_several_nodes(
    spread: tuple[SlurmCluster, Cluster], tmp_path: Path, what: str
) -> None:
    _, cluster = spread
    # A duration that no other process of this machine sleeps: the container's processes do not
    # carry Slurm's environment, so only their command line tells them from strangers.
    seconds = 9 if what == "supervisor" else 100_000 + os.getpid()
    command = [
        LADING,
        *SPREAD[:-1],
        "--json",
        "--",
        "sh",
        "-c",
        f"touch r$OMPI_COMM_WORLD_RANK; sleep {seconds}",
    ]
    with subprocess.Popen(
        command,
        env=cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        until(lambda: len(list((tmp_path / "node").glob("annex/*/mounts/*/r*"))) == 4)
        if what == "cancel":
            process.send_signal(signal.SIGINT)
        elif what == "machine":
            os.kill(_of(cluster, "lading.supervisor --annex")[0], signal.SIGKILL)
        elif what == "rank":
            os.kill(_sleepers(seconds)[-1], signal.SIGKILL)
        else:
            os.kill(_of(cluster, "-m lading.supervisor --lock-directory")[0], signal.SIGKILL)
        outcome = json.loads(process.communicate(timeout=120)[0])
    assert outcome["state"] == ("Cancelled" if what == "cancel" else "Complete")
    if what != "cancel":
        assert (outcome["exit_code"] == 0) == (what == "supervisor")


def _of(cluster: Cluster, words: str) -> list[int]:
    """Processes with these words in their command line that belong to Slurm's jobs for a
    cluster.
    """
    mine = f"SLURM_CONF={cluster.around['SLURM_CONF']}"
    pids = sorted(int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return [pid for pid in pids if words in _command_line(pid) and mine in _surroundings(pid)]


def _sleepers(seconds: int) -> list[int]:
    """Processes of this machine that are a sleep of that many seconds, oldest first."""
    line = f"sleep {seconds}"
    return sorted(pid for pid in processes_naming(line) if _command_line(pid).strip() == line)


def _surroundings(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return []


@pytest.mark.long
def test_gangs_of_the_docker_engine(docker_daemon: DockerDaemon, tmp_path: Path) -> None:
    _gangs_of(f"RuntimeEngine: docker, DockerSocket: {docker_daemon.socket}", tmp_path)
    for kind in ("ps -aq", "network ls -q"):
        listed = [
            "docker",
            "-H",
            f"unix://{docker_daemon.socket}",
            *kind.split(),
            "--filter",
            "label=lading.gang",
        ]
        assert subprocess.run(listed, capture_output=True, check=True).stdout == b""


@pytest.mark.long
def test_gangs_of_the_podman_engine(podman_service: PodmanService, tmp_path: Path) -> None:
    _gangs_of(f"RuntimeEngine: podman, PodmanSocket: {podman_service.socket}", tmp_path)


@pytest.mark.long
def test_a_gang_on_a_vm_of_a_cloud(tmp_path: Path) -> None:
    """It waits for a VM that holds all of it, and the VM goes when it has ended."""
    need_root()
    for program in ("mpirun", "sshd", "ip", "unshare", "nsenter", "crun"):
        need_program(program)
    large = {
        "ProviderType": "t3.xlarge",
        "VCPUs": 8,
        "RAM": "3GiB",
        "IncludedScratch": "20GiB",
        "Price": 0.4,
    }
    with running_cloud(tmp_path, types={**TYPES, "large": large}, MaxInstances=2) as cloud:
        cloud.start()
        cloud.cluster.lading("image", "hpc")
        script = 'echo "$OMPI_COMM_WORLD_RANK $(hostname)"; echo r > /hpcaas/results/r'
        gang = (
            "hpc",
            "run",
            "--size",
            "4",
            "--output",
            str(tmp_path / "out"),
            "--",
            "sh",
            "-c",
            script,
        )
        done = cloud.cluster.lading(*gang)
        assert sorted(done.stdout.splitlines()) == [f"{rank} container-{rank}" for rank in range(4)]
        assert (tmp_path / "out/ranks/3/results/r").read_text() == "r\n"
        again = cloud.cluster.lading(*(word.replace("/out", "/again") for word in gang))
        assert "reused" in again.stderr
        assert (cloud.ec2.started, cloud.ec2.most) == (1, 1)
        until(lambda: not cloud.ec2.running(), patience=60)


@pytest.fixture
def clouded(tmp_path: Path) -> Iterator[Cloud]:
    """A cloud none of whose VMs can hold two ranks of two CPUs."""
    need_root()
    for program in ("mpirun", "sshd", "ip", "bridge", "unshare", "nsenter", "crun"):
        need_program(program)
    with running_cloud(tmp_path, types=TYPES, MaxInstances=3) as cloud:
        cloud.start()
        cloud.cluster.lading("image", "hpc")
        yield cloud
        until(lambda: not cloud.ec2.running(), patience=60)
        assert cloud.ec2.troubles == {}


@pytest.mark.long
def test_a_gang_over_several_vms_of_a_cloud(clouded: Cloud, tmp_path: Path) -> None:
    """It waits for three VMs, its dispatcher is killed meanwhile, and all VMs go when it has
    ended.
    """
    script = "touch w$OMPI_COMM_WORLD_RANK; echo r > /hpcaas/results/r; hostname; sleep 9"
    command = [LADING, *SPREAD, "--output", str(tmp_path / "out"), "--", "sh", "-c", script]
    with subprocess.Popen(
        command,
        env=clouded.cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        until(lambda: len(_written(clouded)) == 6, patience=120)
        clouded.stop(signal.SIGKILL)
        clouded.start()
        said, told = process.communicate(timeout=120)
    assert (process.returncode, sorted(said.split())) == (
        0,
        sorted(2 * ["container-0", "container-1", "container-2"]),
    ), told
    files = {
        str(one.relative_to(tmp_path / "out"))
        for one in (tmp_path / "out").rglob("*")
        if one.is_file()
    }
    assert files == {
        *(f"w{rank}" for rank in range(6)),
        *(f"ranks/{rank}/results/r" for rank in range(3)),
    }
    assert (clouded.ec2.started, clouded.ec2.most) == (3, 3)


@pytest.mark.long
@pytest.mark.parametrize("what", ["cancel", "machine", "supervisor"])
def test_what_goes_wrong_with_a_gang_over_several_vms(clouded: Cloud, what: str) -> None:
    seconds = 9 if what == "supervisor" else 60
    command = [
        LADING,
        *SPREAD[:-1],
        "--json",
        "--",
        "sh",
        "-c",
        f"touch w$OMPI_COMM_WORLD_RANK; sleep {seconds}",
    ]
    with subprocess.Popen(
        command,
        env=clouded.cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        until(lambda: len(_written(clouded)) == 6, patience=120)
        if what == "cancel":
            process.send_signal(signal.SIGINT)
        elif what == "machine":
            clouded.ec2.client.terminate_instances(InstanceIds=_of_annexes(clouded)[:1])
        else:
            (lock,) = _below(clouded, "run/*-dz642-*/lock")
            for pid in _holders(lock):
                os.kill(pid, signal.SIGKILL)
        outcome = json.loads(process.communicate(timeout=180)[0])
    assert outcome["state"] == ("Cancelled" if what == "cancel" else "Complete")
    if what != "cancel":
        assert (outcome["exit_code"] == 0) == (what == "supervisor")


def _written(cloud: Cloud) -> list[Path]:
    """The files that the command has made on all VMs."""
    return [
        path for kind in ("run", "annex") for path in _below(cloud, f"{kind}/*/mounts/*/w[0-9]")
    ]


def _of_annexes(cloud: Cloud) -> list[str]:
    """The VMs of ranks whose supervisor is elsewhere."""
    root = cloud.root / "vms"
    return sorted({path.relative_to(root).parts[0] for path in _below(cloud, "annex/*")})


def _below(cloud: Cloud, pattern: str) -> list[Path]:
    """What is in the directories of the dispatcher on all VMs."""
    return list((cloud.root / "vms").glob(f"*/disk/lading/{pattern}"))


def _holders(lock: Path) -> list[int]:
    """The processes that have a file open."""
    wanted, found = lock.stat(), []
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            one = descriptor.stat()
            if (one.st_dev, one.st_ino) == (wanted.st_dev, wanted.st_ino):
                found.append(int(descriptor.parts[2]))
    return found


def _gangs_of(engine: str, root: Path) -> None:
    """A gang runs to its end; a second one is ended with its supervisor, runs again and is
    cancelled.
    """
    for program in ("mpirun", "sshd"):
        need_program(program)
    config = CONFIG.replace("Containers: {", f"Containers: {{{engine}, ")
    with running_cluster(root / "data", config) as cluster:
        cluster.lading("image", "hpc")
        script = 'echo "$OMPI_COMM_WORLD_RANK $(hostname)"; echo r > /hpcaas/results/r'
        done = cluster.lading(
            "hpc", "run", "--size", "3", "--output", str(root / "out"), "--", "sh", "-c", script
        )
        assert sorted(done.stdout.splitlines()) == [f"{rank} container-{rank}" for rank in range(3)]
        assert (root / "out/ranks/2/results/r").read_text() == "r\n"
        gang = (
            "hpc",
            "run",
            "--json",
            "--no-reuse",
            "--size",
            "2",
            "--",
            "sh",
            "-c",
            "touch here; sleep 60",
        )
        with subprocess.Popen(
            [LADING, *gang],
            env=cluster.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            until(lambda: bool(list(cluster.data.glob("run/*/mounts/*/here"))))
            os.kill(cluster.pids("supervisor")[0], signal.SIGKILL)
            until(lambda: len(list(cluster.data.glob("run/*/lock"))) == 1, patience=60)
            process.send_signal(signal.SIGINT)
            assert json.loads(process.communicate(timeout=120)[0])["state"] == "Cancelled"


@dataclass
class Running:
    """A gang that runs: its request, and its processes."""

    cluster: Cluster
    process: subprocess.Popen[str]

    @property
    def uuid(self) -> str:
        """The container's."""
        (folder,) = (self.cluster.data / "run").glob("*-dz642-*")
        return folder.name

    def processes(self, *words: str) -> list[int]:
        """Those in its cgroup whose command line has all these words, oldest first."""
        group = Cgroup(find_hierarchy(mount_table()), self.uuid)
        lines = {pid: _command_line(pid) for pid in sorted(group.processes())}
        return [pid for pid, line in lines.items() if all(word in line for word in words)]

    @property
    def output(self) -> Path:
        """The directory that all ranks share, on this machine."""
        return next(self.cluster.data.glob("run/*/mounts/*/rank-0")).parent

    def end(self) -> dict[str, object]:
        """Wait for its end; the outcome. Nothing of it is left."""
        said, _ = self.process.communicate(timeout=120)
        outcome: dict[str, object] = json.loads(said)
        until(lambda: not list((self.cluster.data / "run").glob("*-dz642-*")))
        assert not any(
            Cgroup(find_hierarchy(mount_table()), str(outcome["container_uuid"])).processes()
        )
        return outcome

    def kept(self, outcome: dict[str, object]) -> set[str]:
        """The files of the output."""
        listed = json.loads(
            self.cluster.lading("ls", "--json", "--recursive", str(outcome["output"])).stdout
        )
        return {str(one["path"]) for one in listed}


def _command_line(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    except OSError:
        return ""


@pytest.fixture
def busy(cluster: Cluster) -> Iterator[Callable[..., Running]]:
    """Starts a gang of three that runs for some seconds, and waits until all ranks do."""
    started: list[subprocess.Popen[str]] = []

    def start(seconds: str) -> Running:
        command = [
            LADING,
            "hpc",
            "run",
            "--json",
            "--no-reuse",
            "--size",
            "3",
            "--",
            "sh",
            "-c",
            BUSY % seconds,
        ]
        process = subprocess.Popen(
            command,
            env=cluster.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        started.append(process)
        until(lambda: len(list(cluster.data.glob("run/*/mounts/*/rank-[0-2]"))) == 3)
        return Running(cluster, process)

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.long
def test_kill_9_of_a_rank_ends_the_gang_and_keeps_what_there_is(
    busy: Callable[..., Running],
) -> None:
    gang = busy("60")
    os.kill(gang.processes("sleep 60")[-1], signal.SIGKILL)
    outcome = gang.end()
    assert (outcome["state"], outcome["exit_code"]) == ("Complete", 137)
    assert {"rank-0", "rank-1", "rank-2", "ranks/0/results/r"} <= gang.kept(outcome)


@pytest.mark.long
def test_kill_9_of_a_daemon_changes_nothing(busy: Callable[..., Running]) -> None:
    gang = busy("4")
    for pid in gang.processes("python3", "hpcaas-daemon"):
        os.kill(pid, signal.SIGKILL)
    outcome = gang.end()
    assert (outcome["state"], outcome["exit_code"]) == ("Complete", 0)
    assert {f"ranks/{rank}/results/r" for rank in range(3)} <= gang.kept(outcome)


@pytest.mark.long
def test_kill_9_of_sshd_changes_nothing(busy: Callable[..., Running]) -> None:
    gang = busy("4")
    for pid in gang.processes("sshd: /usr/sbin/sshd"):
        os.kill(pid, signal.SIGKILL)
    outcome = gang.end()
    assert (outcome["state"], outcome["exit_code"]) == ("Complete", 0)


@pytest.mark.long
def test_kill_9_of_a_container_ends_the_gang(busy: Callable[..., Running]) -> None:
    gang = busy("60")
    first = [pid for pid in gang.processes("hpcaas-init") if _innermost(pid) == 1]
    os.kill(first[-1], signal.SIGKILL)
    outcome = gang.end()
    assert outcome["state"] == "Complete"
    assert outcome["exit_code"] != 0
    assert "rank-2" in gang.kept(outcome)


@pytest.mark.long
def test_kill_9_of_the_conductor_runs_the_gang_again(
    busy: Callable[..., Running], cluster: Cluster
) -> None:
    gang = busy("4")
    first = gang.uuid
    os.kill(gang.processes("lading.hpc.conductor")[0], signal.SIGKILL)
    outcome = gang.end()
    assert (outcome["state"], outcome["exit_code"]) == ("Complete", 0)
    assert outcome["container_uuid"] != first
    lost = Api(cluster).get(f"containers/{first}")
    assert (lost["state"], lost["runtime_status"]["failure"]) == ("Cancelled", "node")
    # What there was of the first attempt is in the trash, as of any container that was cancelled.
    filters = [["name", "=", f"output for {first}"]]
    (kept,) = Api(cluster).get("collections", filters=filters, include_trash=True)["items"]
    cluster.lading("undelete", kept["uuid"])
    assert {"rank-0", "rank-1", "rank-2"} <= gang.kept({"output": kept["uuid"]})


@pytest.mark.long
def test_kill_9_of_the_supervisor_runs_the_gang_again(
    busy: Callable[..., Running], cluster: Cluster
) -> None:
    gang = busy("4")
    first = gang.uuid
    os.kill(cluster.pids("supervisor")[0], signal.SIGKILL)
    outcome = gang.end()
    assert (outcome["state"], outcome["exit_code"]) == ("Complete", 0)
    assert outcome["container_uuid"] != first


@pytest.mark.long
def test_a_network_cut_between_ranks_ends_the_gang(busy: Callable[..., Running]) -> None:
    gang = busy("60")
    conductor = gang.processes("lading.hpc.conductor")[0]
    subprocess.run(
        ["nsenter", "--net", f"--target={conductor}", "ip", "link", "set", "rank2", "down"],
        check=True,
    )
    outcome = gang.end()
    assert outcome["state"] == "Complete"
    assert outcome["exit_code"] != 0
    assert {"rank-0", "rank-1", "rank-2", "ranks/0/results/r", "ranks/1/results/r"} <= gang.kept(
        outcome
    )


@pytest.mark.long
def test_a_cancelled_gang_leaves_nothing(busy: Callable[..., Running]) -> None:
    gang = busy("60")
    gang.process.send_signal(signal.SIGINT)
    assert gang.end()["state"] == "Cancelled"


def _innermost(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("NSpid:")[2].split("\n")[0].split()[-1])
