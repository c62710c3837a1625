"""This machine: facts for the log and for containers, its faults, and its price.

- Facts: kernel, processors, memory, file systems, and the kind of storage of a directory in the
  words of `device_type` (ram, ssd, disk or network).
- Faults: `is_broken` distinguishes a machine that cannot run containers from a container that
  cannot be run (docs/spec/containers, section Run). A check of the engine decides: it does not
  answer, or its disk is full. Not all failures of the class `node` count, because a container can
  provoke many of them. The machine is then marked in its register, or the configured hook is run
  instead, and a dispatcher drains it.
- `Costing`: cost of one container while it runs, from the prices of its machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lading.core import resources
from lading.core.errors import ExecutionError, Failure, Invalid
from lading.core.resources import Price
from lading.process.concurrency import finish_within
from lading.supervisor.logs import INSTANCE, NODE, Clock, Log
from lading.supervisor.process.register import Register
from lading.supervisor.supervisor_config import SupervisorConfig

if TYPE_CHECKING:
    from lading.supervisor.engines import Engine

# Places where distributions keep the bundle.
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_MIB = 1 << 20
# Seconds for the hook; afterwards it is killed.
_HOOK_TIME = 30.0
_logger = logging.getLogger("lading.supervisor")
# Types of file systems (statfs(2), /proc/mounts) in memory and over the network.
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_REMOTE = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "ceph",
        "lustre",
        "gpfs",
        "beegfs",
        "afs",
        "9p",
        "virtiofs",
        "glusterfs",
    }
)
# FUSE file systems; those for programs on this machine look the same as remote ones.
_BEHIND_A_PROGRAM = "fuse."


def certificates(bundles: Iterable[str] = _BUNDLES) -> str | None:
    """The machine's bundle of certificate authorities, for containers that call the API."""
    return next((bundle for bundle in bundles if Path(bundle).exists()), None)


def log_machine(log: Log, scratch: Path, instance_type: Mapping[str, Any]) -> None:
    """Write the facts about this machine, and its instance type, to a log. A machine without an
    instance type is described as one: clients of Arvados ask for it.
    """
    log.put(NODE, describe_machine(scratch))
    described = instance_type or describe_size(scratch)
    log.put(INSTANCE, msgspec.json.format(msgspec.json.encode(described), indent=4))


def describe_size(scratch: Path) -> dict[str, Any]:
    """This machine in the words of an instance type: its name, its processors that this process may
    use, its memory, and the size of the scratch file system in bytes. It has no price.
    """
    space = os.statvfs(scratch)
    return {
        "Name": os.uname().nodename,
        "ProviderType": "",
        "VCPUs": len(os.sched_getaffinity(0)),
        "RAM": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "Scratch": space.f_blocks * space.f_frsize,
        "AddedScratch": 0,
        "Price": 0.0,
        "Preemptible": False,
    }


def describe_machine(scratch: Path) -> bytes:
    """Contents of node-info.txt: kernel, processors, memory, space and inodes of the scratch file
    system.
    """
    blocks = (
        ("Host Information", " ".join(os.uname())),
        ("CPU Information", _processors()),
        ("Memory Information", _read("/proc/meminfo")),
        ("Disk Space", _space(("/", str(scratch)))),
        ("Disk INodes", _inodes(("/", str(scratch)))),
    )
    return "\n".join(f"{title}\n{content.rstrip()}\n" for title, content in blocks).encode()


# The file is some kilobytes for each processor and does not change.
@cache
def _processors() -> str:
    return _read("/proc/cpuinfo")


def mount_table(path: str = "/proc/mounts") -> str:
    """The mount table of this process, or the reason why it cannot be read."""
    return _read(path)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError as error:
        return f"{path}: {error.strerror}"


def _space(paths: tuple[str, ...]) -> str:
    lines = ["MiB-blocks Used Available Path"]
    for path in paths:
        found = os.statvfs(path)
        sizes = (found.f_blocks, found.f_blocks - found.f_bfree, found.f_bavail)
        lines.append(" ".join([*(str(size * found.f_frsize // _MIB) for size in sizes), path]))
    return "\n".join(lines)


def _inodes(paths: tuple[str, ...]) -> str:
    lines = ["Inodes Used Free Path"]
    for path in paths:
        found = os.statvfs(path)
        lines.append(f"{found.f_files} {found.f_files - found.f_ffree} {found.f_ffree} {path}")
    return "\n".join(lines)


async def is_broken(error: ExecutionError, engine: Engine) -> bool:
    """Whether this machine cannot run containers: after an error of its engine with the class
    `node`, the engine is asked.

    The words of the error do not count. They quote names that the container's user and its image
    have chosen.
    """
    if error.failure is not Failure.NODE:
        return False
    try:
        await engine.check()
    except ExecutionError:
        return True
    return False


def can_report(assignment: SupervisorConfig) -> bool:
    """Whether there is a hook or a register."""
    return bool(assignment.broken_node_hook or assignment.lock_directory)


async def must_report(assignment: SupervisorConfig, error: ExecutionError, engine: Engine) -> bool:
    """Whether an error of an engine means that this machine is to be reported as broken."""
    return can_report(assignment) and await is_broken(error, engine)


async def report(assignment: SupervisorConfig, why: str, *, hook_time: float = _HOOK_TIME) -> str:
    """Run the hook, or else mark the machine; return a sentence about it. Nothing is raised: the
    container is reported in any case.
    """
    if assignment.broken_node_hook:
        return await _run_hook(assignment.broken_node_hook, hook_time)
    try:
        await asyncio.to_thread(Register(Path(assignment.lock_directory)).mark_broken, why)
    except OSError as error:
        return f"this machine cannot run containers, and cannot be marked: {error}"
    return "this machine cannot run containers and is marked as broken"


async def _run_hook(program: str, seconds: float) -> str:
    null = subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            program, stdin=null, stdout=null, stderr=null
        )
        try:
            code = await finish_within(process.wait(), seconds)
        except TimeoutError:
            process.kill()
            await process.wait()
            return (
                "this machine cannot run containers;"
                f" {program} took longer than {seconds:g} s and was ended"
            )
    except OSError as error:
        return f"this machine cannot run containers, and {program} cannot be run: {error.strerror}"
    return f"this machine cannot run containers; {program} ended with {code}"


def device_type(directory: Path, *, root: Path = Path("/")) -> str:
    """The kind of storage of a directory; "" when the machine does not report it. `root` contains
    `proc` and `sys`.
    """
    number = directory.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    kind = _file_system(device, root / "proc/self/mountinfo")
    if kind in _IN_MEMORY:
        return "ram"
    if kind in _REMOTE or kind.startswith(_BEHIND_A_PROGRAM):
        return "network"
    return _block_device(root / "sys/dev/block" / device)


def _file_system(device: str, mounts: Path) -> str:
    """Type of the file system on a device, from the table of mounts; "" when it is not listed."""
    try:
        for line in mounts.read_text(errors="replace").splitlines():
            words, _, rest = line.partition(" - ")
            if words.split()[2:3] == [device]:
                return rest.split()[0]
    except (OSError, IndexError):
        # Unknown; an empty type matches none.
        return ""
    return ""


def _block_device(entry: Path) -> str:
    """Whether a block device rotates; a partition has no queue directory, so its disk is asked."""
    resolved = entry.resolve()
    for path in (resolved, resolved.parent):
        try:
            return "disk" if (path / "queue/rotational").read_text().strip() == "1" else "ssd"
        except OSError:
            # Not a disk with this attribute, for example a partition; try its parent.
            continue
    return ""


@dataclass(slots=True)
class Costing:
    """Prices are read from the register of the machine, else from the description of the instance;
    without either the cost is None.
    """

    assignment: SupervisorConfig
    clock: Clock
    began: datetime = field(init=False)
    ended: datetime | None = None
    """End of the last process of the command; None while one runs."""
    _heard: bytes = b""
    _prices: tuple[Price, ...] = ()

    def __post_init__(self) -> None:
        self.began = self.clock()
        amount = self.assignment.instance_type.get("Price")
        if isinstance(amount, int | float) and amount > 0:
            self._prices = (Price(self.began, float(amount)),)
        self.look()

    def begin(self) -> None:
        """Start the clock of the cost anew: the container is Running from now on, as `started_at`
        says. Its preparation is not charged.
        """
        self.began = self.clock()

    def end(self) -> None:
        """Stop the clock of the cost, once: no process of the command runs any more. The container
        may be kept, and reporting the end may take longer, when the server is away.
        """
        self.ended = self.ended or self.clock()

    def look(self) -> bool:
        """Read the prices of the register; whether they have changed. An invalid history is
        ignored.
        """
        if not self.assignment.lock_directory:
            return False
        history = Register(Path(self.assignment.lock_directory)).read_prices()
        # The file is rewritten with each listing of the dispatcher; mostly it has not changed.
        if history == self._heard:
            return False
        self._heard = history
        # An unreadable history changes nothing: the known prices stay.
        with contextlib.suppress(Invalid, msgspec.DecodeError):
            self._prices = resources.read_prices(msgspec.json.decode(history)) or self._prices
            return True
        return False

    def amount(self, constraints: Mapping[str, object]) -> float | None:
        """Dollars until now, or until the end, for a container of this size; None without any
        price.
        """
        if not self._prices:
            return None
        share = self.assignment.instance_share or resources.machine_share(
            self.assignment.instance_type,
            vcpus=_number(constraints.get("vcpus")),
            ram=_number(constraints.get("ram")),
        )
        return resources.cost(self._prices, self.began, self.ended or self.clock(), share=share)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
