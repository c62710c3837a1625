"""A Grid Engine of its own on this machine: sge_qmaster and one sge_execd, in one directory.

Needs root and Debian's gridengine-master and gridengine-exec. It knows nothing of any other Grid
Engine of the machine, and leaves nothing behind: jobs, daemons and shepherds are ended. Grid Engine
knows hosts by their names, so a machine is one host.

    with running_grid_engine(Path("/tmp/x")) as grid:
        subprocess.run(["qsub", ...], env=os.environ | grid.environment)
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.time_limits import started_for_all

_INSTALLED = Path("/var/lib/gridengine")
_PROGRAMS = "/usr/lib/gridengine"
_SHARED = Path("/usr/share/gridengine")
_PATIENCE = 60.0
_BOOTSTRAP = """admin_user              none
default_domain          none
ignore_fqdn             false
spooling_method         classic
spooling_lib            libspoolc
spooling_params         {root}/sge/default/common;{root}/spool/qmaster
binary_path             /usr/sbin
qmaster_spool_dir       {root}/spool/qmaster
security_mode           none
listener_threads        2
worker_threads          2
scheduler_threads       1
"""
_HOST = """hostname {host}
load_scaling NONE
complex_values NONE
user_lists NONE
xuser_lists NONE
projects NONE
xprojects NONE
usage_scaling NONE
report_variables NONE
"""
_ENVIRONMENT = """pe_name            smp
slots              999
user_lists         NONE
xuser_lists        NONE
start_proc_args    NONE
stop_proc_args     NONE
allocation_rule    $pe_slots
control_slaves     TRUE
job_is_first_task  TRUE
urgency_slots      min
accounting_summary FALSE
qsort_args         NONE
"""


@dataclass(kw_only=True)
class GridEngineCluster:
    """A running Grid Engine. `environment` is what a program needs to talk to it."""

    root: Path
    port: int
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that name it."""
        return {
            "SGE_ROOT": str(self.root / "sge"),
            "SGE_CELL": "default",
            "SGE_QMASTER_PORT": str(self.port),
            "SGE_EXECD_PORT": str(self.port + 1),
            "SGE_CLUSTER_NAME": "lading",
        }

    def run(self, *command: str, check: bool = True) -> str:
        """Run one of its programs; the standard output."""
        result = subprocess.run(
            command, env=os.environ | dict(self.environment), capture_output=True, text=True,
            timeout=60, check=False, cwd=self.root,
        )  # fmt: skip
        if check and result.returncode:
            raise AssertionError(f"{' '.join(command)}: {result.stderr.strip() or result.stdout}")
        return result.stdout

    def start(self, name: str) -> None:
        """Start `sge_qmaster` or `sge_execd` again."""
        # SGE_ND: it stays in the foreground.
        environment = os.environ | dict(self.environment) | {"SGE_ND": "1"}
        with started_for_all("grid"), (self.root / f"{name}.out").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [f"/usr/sbin/{name}"], env=environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip

    def kill(self, name: str) -> None:
        """End one of the daemons and wait for its end."""
        process = self._processes.pop(name)
        process.kill()
        process.wait(_PATIENCE)

    def wait_for_master(self) -> None:
        """Until the master answers. Raises AssertionError."""
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            with suppress(AssertionError):
                self.run("qconf", "-sh")
                return
            time.sleep(0.1)
        log = (self.root / "sge_qmaster.out").read_text(errors="replace")
        raise AssertionError(f"Grid Engine did not come up: {log[-600:]}")

    def wait_ready(self) -> None:
        """Until the host has reported. Raises AssertionError."""
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            if "lx-amd64" in self.run("qhost", check=False):
                return
            time.sleep(0.1)
        raise AssertionError("the host of Grid Engine did not report")

    def jobs(self) -> list[str]:
        """A line for each job that has not ended."""
        return self.run("qstat", "-u", "*").splitlines()[2:]

    def add(self, option: str, name: str, content: str) -> None:
        """Add an object of the configuration by `qconf`."""
        path = self.root / f"{name}.conf"
        path.write_text(content)
        self.run("qconf", option, str(path))

    def close(self) -> None:
        """End everything."""
        with suppress(AssertionError, subprocess.TimeoutExpired):
            self.run("qdel", "-f", "-u", "*", check=False)
        for process in self._processes.values():
            process.kill()
            process.wait(_PATIENCE)
        for pid in self.left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def left(self) -> list[int]:
        """Live daemons, shepherds and scripts of this cluster, known by their environment."""
        return [
            int(path.name)
            for path in Path("/proc").iterdir()
            if path.name.isdigit() and self._is_ours(path)
        ]

    def _is_ours(self, process: Path) -> bool:
        try:
            words = (process / "environ").read_bytes().split(b"\0")
            line = (process / "cmdline").read_bytes()
        except OSError:
            return False
        ours = f"SGE_ROOT={self.root}/sge".encode() in words
        return ours and any(name in line for name in (b"sge_", b"job_scripts"))


@contextmanager
def running_grid_engine(root: Path, *, slots: int = 4) -> Iterator[GridEngineCluster]:
    """A cluster of one host with so many slots in the queue `main.q`, half as many in `last.q`."""
    host = socket.gethostname()
    common = root / "sge/default/common"
    for folder in (common, root / "spool/qmaster/job_scripts", root / "spool/execd"):
        folder.mkdir(parents=True)
    for path in (root, *root.parents):
        if path.owner() == "root" and path.is_relative_to("/tmp"):
            path.chmod(path.stat().st_mode | 0o055)
    for name in ("bin", "lib", "util", "utilbin"):
        (root / "sge" / name).symlink_to((_INSTALLED / name).resolve())
    (common / "bootstrap").write_text(_BOOTSTRAP.format(root=root))
    (common / "act_qmaster").write_text(f"{host}\n")
    # The name of 127.0.0.1 may be localhost: to Grid Engine that would be another host.
    (common / "host_aliases").write_text(f"{host} localhost\n")
    (root / "global.conf").write_text(_configuration(root))
    cluster = GridEngineCluster(root=root, port=_free_ports())
    cluster.run(
        f"{_PROGRAMS}/spoolinit", "classic", "libspoolc", f"{common};{root}/spool/qmaster", "init"
    )
    resources = _SHARED / "util/resources"
    for kind, value in (
        ("configuration", root / "global.conf"), ("complexes", resources / "centry"),
        ("usersets", resources / "usersets"), ("managers", "root"),
    ):  # fmt: skip
        cluster.run(f"{_PROGRAMS}/spooldefaults", kind, str(value))
    try:
        cluster.start("sge_qmaster")
        cluster.wait_for_master()
        cluster.run("qconf", "-as", host)
        cluster.add("-Ae", "host", _HOST.format(host=host))
        cluster.add("-Ap", "environment", _ENVIRONMENT)
        for name, number in (("main.q", slots), ("last.q", slots // 2)):
            cluster.add("-Aq", name, _queue(cluster, name, host, number))
        scheduler = _changed(
            cluster.run("qconf", "-ssconf"), schedule_interval="0:0:1", flush_submit_sec="1",
            flush_finish_sec="1",
        )  # fmt: skip
        cluster.add("-Msconf", "scheduler", scheduler)
        cluster.start("sge_execd")
        cluster.wait_ready()
        yield cluster
    finally:
        cluster.close()


def _configuration(root: Path) -> str:
    return _changed(
        (_SHARED / "default-configuration").read_text(),
        execd_spool_dir=f"{root}/spool/execd", mailer="/bin/true", min_uid="0", min_gid="0",
        load_report_time="00:00:02", administrator_mail="none",
        reporting_params="accounting=true reporting=false flush_time=00:00:01"
        " accounting_flush_time=00:00:01",
    )  # fmt: skip


def _queue(cluster: GridEngineCluster, name: str, host: str, slots: int) -> str:
    return _changed(
        cluster.run("qconf", "-sq"), qname=name, hostlist=host, load_thresholds="NONE",
        slots=str(slots), pe_list="smp", notify="00:00:20",
    )  # fmt: skip


def _changed(settings: str, **values: str) -> str:
    """Settings, one a line, with other values."""
    lines = []
    for line in settings.splitlines():
        name = line.split(maxsplit=1)[0] if line.strip() else ""
        lines.append(f"{name} {values[name]}" if name in values else line)
    return "\n".join(lines) + "\n"


def _free_ports() -> int:
    """The first of two ports in a row that nobody uses."""
    for _ in range(100):
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            with suppress(OSError):
                second.bind(("127.0.0.1", port + 1))
                return port
    raise AssertionError("no free ports")
