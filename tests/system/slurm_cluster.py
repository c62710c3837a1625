"""A Slurm cluster of its own on this machine: munged, slurmctld and several slurmd, in one
directory.

Needs root and Debian's slurm-wlm and munge. It starts in about a second, knows nothing of any other
Slurm of the machine, and leaves nothing behind: jobs, daemons and steps are ended, whoever of them
has been killed meanwhile.

    with running_slurm(Path("/tmp/x"), nodes=2) as slurm:
        subprocess.run(["sbatch", ...], env=os.environ | slurm.environment)
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.time_limits import started_for_all

_TUNED = "batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1"
_PATH = "/usr/sbin:/sbin:/usr/bin:/bin:/usr/local/bin"
_PATIENCE = 180.0
_CONFIGURATION = """ClusterName=lading
SlurmctldHost={host}({address})
SlurmctldPort={port}
SlurmdPort={port}
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
ReturnToService=2
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/%n.pid
SlurmdSpoolDir={root}/spool/%n
StateSaveLocation={root}/state
SlurmUser=root
SlurmdUser=root
SwitchType=switch/none
TaskPlugin=task/none
SchedulerType=sched/{scheduler}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdLogFile={root}/log/%n.log
SlurmdTimeout={node_timeout}
BatchStartTimeout=2
MessageTimeout=10
KillWait=5
SlurmdParameters=config_overrides
MaxJobCount=20000
MaxArraySize=10001
MinJobAge={remembered}
SchedulerParameters={parameters}
"""


@dataclass(kw_only=True)
class SlurmCluster:
    """A running cluster. `environment` is what a program needs to talk to it."""

    root: Path
    nodes: tuple[str, ...]
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that name it."""
        return {
            "SLURM_CONF": str(self.root / "slurm.conf"),
            "PATH": f"{os.environ.get('PATH', '')}:{_PATH}",
        }

    def run(self, *command: str, check: bool = True, text: str = "") -> str:
        """Run one of Slurm's programs; its standard output."""
        done = subprocess.run(
            command, env=os.environ | dict(self.environment), input=text, capture_output=True,
            text=True, timeout=60, check=False,
        )  # fmt: skip
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def start(self, name: str) -> None:
        """Start `munged`, `slurmctld` or a node again."""
        command = self._commands()[name]
        # Also where a case starts one again: the cluster is that of all cases.
        with started_for_all("slurm"), (self.root / "log" / f"{name}.out").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, env=os.environ | dict(self.environment), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """End one of the daemons and wait for its end."""
        process = self._processes.pop(name)
        process.send_signal(number)
        process.wait(_PATIENCE)

    def jobs(self) -> list[str]:
        """A line for each job that has not ended."""
        return self.run("squeue", "--all", "--noheader", "--format=%i %j %T").splitlines()

    def wait_ready(self, nodes: int | None = None) -> None:
        """Until so many nodes (all) are there for jobs. Raises AssertionError."""
        wanted, until = len(self.nodes) if nodes is None else nodes, time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            ready = self.run(
                "sinfo", "--Node", "--noheader", "--format=%N %T", check=False
            ).splitlines()
            good = {
                line.split()[0]
                for line in ready
                if line.split()[1:] in ([["idle"], ["mixed"], ["allocated"]])
            }
            if len(good) >= wanted:
                return
            time.sleep(0.02)
        raise AssertionError(f"Slurm did not come up: {self.words()}")

    def resume(self) -> list[str]:
        """Take nodes that Slurm has drained back into service, as an operator does. Returns their
        names.

        A `slurmctld` that is killed forgets its last moments, and may give the id of a job that
        runs to another one: the node then refuses it ("Duplicate jobid"), and is drained.
        """
        shown = self.run(
            "sinfo", "--Node", "--noheader", "--format=%N %T", check=False
        ).splitlines()
        drained = sorted({line.split()[0] for line in shown if "drain" in line})
        for name in drained:
            self.run("scontrol", "update", f"NodeName={name}", "State=RESUME", check=False)
        return drained

    def words(self) -> str:
        """The last lines of all logs."""
        logs = sorted((self.root / "log").iterdir())
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-600:]}" for path in logs)

    def close(self) -> None:
        """End everything."""
        with suppress(AssertionError, subprocess.TimeoutExpired):
            self.run("scancel", "--state=PENDING", check=False)
        for name in sorted(self._processes, key=lambda one: ("slurmctld", "munged").count(one)):
            self._processes[name].kill()
        for process in self._processes.values():
            process.wait(_PATIENCE)
        for pid in self.left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def left(self) -> list[int]:
        """Live daemons, steps and scripts of this cluster, known by their environment or command
        line.
        """
        return [pid for pid in map(_pid, Path("/proc").iterdir()) if pid and self._is_ours(pid)]

    def _is_ours(self, pid: int) -> bool:
        try:
            mine = f"SLURM_CONF={self.root}/slurm.conf".encode()
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False
        programs = (b"slurmstepd", b"slurmd", b"slurmctld", b"munged", b"slurm_script")
        return (mine in words or str(self.root).encode() in line) and any(
            one in line for one in programs
        )

    def _commands(self) -> dict[str, list[str]]:
        root = str(self.root)
        munge = [
            "munged",
            "--foreground",
            "--force",
            f"--socket={root}/munge.socket",
            f"--key-file={root}/munge.key",
        ]
        munge += [
            f"--pid-file={root}/munge.pid",
            f"--log-file={root}/log/munge.log",
            f"--seed-file={root}/munge.seed",
        ]
        found = {"munged": munge, "slurmctld": ["slurmctld", "-D", "-f", f"{root}/slurm.conf"]}
        return found | {
            node: ["slurmd", "-D", "-N", node, "-f", f"{root}/slurm.conf"] for node in self.nodes
        }


@contextmanager
def running_slurm(
    root: Path,
    *,
    nodes: int = 2,
    vcpus: int = 16,
    ram: int = 20_000,
    disk: int = 100_000,
    node_timeout: int = 10,
    remembered: int = 10,
    scheduler: str = "backfill",
    parameters: str = _TUNED,
    cards: Sequence[str] = (),
    types: Sequence[str] = (),
    address: str = "127.0.0.1",
) -> Iterator[SlurmCluster]:
    """A cluster of `nodes` with so many CPUs, MiB of RAM and disk each, partitions `main` (all) and
    `last` (one).

    `cards` are the device files of the GPUs that each node has, `types` their types. `address` is
    one of this machine, at which all are; an IPv6 one leaves no IPv4 between them.
    """
    for folder in ("log", "state", "spool"):
        (root / folder).mkdir(parents=True)
    root.chmod(0o755)
    key = root / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    names = tuple(f"n{number}" for number in range(1, nodes + 1))
    port, host = _free_ports(nodes + 1), socket.gethostname()
    text = _CONFIGURATION.format(
        host=host, address=address, port=port, root=root, node_timeout=node_timeout,
        remembered=remembered, scheduler=scheduler, parameters=parameters,
    )  # fmt: skip
    counts = [f"gpu:{kind}:{types.count(kind)}" for kind in dict.fromkeys(types)]
    gpus = f" Gres={','.join(counts or [f'gpu:{len(cards)}'])}" if cards else ""
    for at, name in enumerate(names, 1):
        text += (
            f"NodeName={name} NodeHostname={host} NodeAddr={address} Port={port + at} CPUs={vcpus} "
        )
        text += f"RealMemory={ram} TmpDisk={disk} State=UNKNOWN{gpus}\n"
    if ":" in address:
        text += "CommunicationParameters=EnableIPv6,DisableIPv4\n"
    if cards:
        text += "GresTypes=gpu\n"
        (root / "gres.conf").write_text(
            "".join(
                f"Name=gpu File={card}{f' Type={kind}' if kind else ''}\n"
                for card, kind in itertools.zip_longest(cards, types, fillvalue="")
            )
        )
    text += (
        "PartitionName=main Nodes=ALL Default=YES State=UP\n"
        f"PartitionName=last Nodes={names[-1]} State=UP\n"
    )
    (root / "slurm.conf").write_text(text)
    cluster = SlurmCluster(root=root, nodes=names)
    try:
        cluster.start("munged")
        _wait_for(root / "munge.socket")
        for name in ("slurmctld", *names):
            cluster.start(name)
        cluster.wait_ready()
        yield cluster
    finally:
        cluster.close()


def _wait_for(path: Path) -> None:
    until = time.monotonic() + _PATIENCE
    while not path.exists():
        if time.monotonic() > until:
            raise AssertionError(f"{path} did not appear")
        time.sleep(0.01)


def _free_ports(number: int) -> int:
    """The first of so many ports in a row that nobody uses."""
    for _ in range(100):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first: int = probe.getsockname()[1]
        if first + number < 65536 and all(_is_free(first + at) for at in range(number)):
            return first
    raise AssertionError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _pid(path: Path) -> int:
    return int(path.name) if path.name.isdigit() else 0
