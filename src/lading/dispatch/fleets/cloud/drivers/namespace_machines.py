"""VMs as namespaces of this machine, at a bridge of their own."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lading.core.errors import Unavailable
from lading.process import tree_removal

_RECORD = "vm.json"
# Seconds for `ip`, and for the last process of a cgroup to end: both take milliseconds.
_PATIENCE = 10.0
_CGROUPS = Path("/sys/fs/cgroup")
_CONTROLLERS = ("memory", "cpu", "cpuacct", "pids", "blkio", "freezer", "devices")
# The machine in a namespace: its own processes, mounts and control groups; the disk read-only but
# for /var/lib, /tmp and /run. sshd is its first process, so that the VM ends with it. FUSE mounts
# of this machine would hang in it when their server ends.
_INIT = """set -e
mount --make-rprivate /
mount -t proc proc /proc
while read -r _ point kind _; do
    case $kind in fuse|fuse.*) umount -l "$(printf %b "$point")" || true ;; esac
done </proc/self/mounts
{cgroups}
mount --bind /tmp /tmp
mount -o remount,bind,ro /
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/sshd /run/lock
mount --bind {disk} /var/lib
ip link set lo up
hostname {id}
cd /
sh /var/lib/user-data >/var/lib/user-data.log 2>&1 </dev/null || true &
exec {sshd} -D -e -f /var/lib/sshd_config
"""
_CONSOLE = "console.log"
_CONSOLE_END = 64 << 10  # bytes
_SSHD = """ListenAddress {address}
HostKey /var/lib/host_key
AuthorizedKeysFile /var/lib/authorized_keys
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
PidFile none
MaxStartups 100
PrintMotd no
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceMachine:
    """One such VM. `pid` is that of its keeper, with whom it ends; `notes` are its owner's."""

    id: str
    address: str
    pid: int = 0
    began: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        """Whether the process that keeps the pretended VM is alive."""
        return self.pid > 0 and _began(self.pid) == self.began


@dataclass(frozen=True, slots=True)
class Network:
    """A bridge of this machine; its own address there is the first one."""

    name: str
    subnet: str

    @property
    def host(self) -> str:
        """The address of this machine."""
        return str(next(self._net.hosts()))

    @property
    def _net(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(self.subnet)

    def addresses(self) -> Iterator[str]:
        """Addresses for VMs."""
        hosts = self._net.hosts()
        next(hosts)
        return (str(host) for host in hosts)

    @property
    def mask(self) -> int:
        """The length of the prefix."""
        return self._net.prefixlen

    def up(self) -> None:
        """Make the bridge unless it exists. Raises Unavailable."""
        if not Path(f"/sys/class/net/{self.name}").exists():
            _ip("link", "add", self.name, "type", "bridge", check=False)
        _ip("addr", "replace", f"{self.host}/{self.mask}", "dev", self.name)
        _ip("link", "set", self.name, "up")

    def down(self) -> None:
        """Remove it."""
        _ip("link", "del", self.name, check=False)


class Machines:
    """The VMs below one directory, on one network."""

    def __init__(self, root: Path, network: Network) -> None:
        self.root = root
        self.network = network

    def start(
        self,
        id: str,
        *,
        key: str,
        user_data: str = "",
        address: str = "",
        notes: Mapping[str, str] | None = None,
    ) -> NamespaceMachine:
        """Start a VM that the owner of the public key may enter as root. Blocks for some tens of
        milliseconds.

        Raises Unavailable.
        """
        self.network.up()
        folder = self.root / id
        (folder / "disk").mkdir(parents=True)
        chosen = address or self._free_address()
        try:
            self._furnish(folder / "disk", chosen, key=key, user_data=user_data)
            space = _space(folder)
            _ip("netns", "add", space)
            link = f"v{_short(folder)}"
            _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", link, "master", self.network.name, "up")
            _ip("-n", space, "addr", "add", f"{chosen}/{self.network.mask}", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            pid = self._spawn(id, folder, space)
            machine = NamespaceMachine(
                id=id, address=chosen, pid=pid, began=_began(pid), notes=dict(notes or {})
            )
            self._write(machine)
        except BaseException:
            self._remove(folder, 0)
            raise
        return machine

    def note(self, id: str, notes: Mapping[str, str]) -> None:
        """Replace the notes of a VM."""
        machine = self._read(self.root / id)
        if machine is not None:
            self._write(
                NamespaceMachine(
                    id=id,
                    address=machine.address,
                    pid=machine.pid,
                    began=machine.began,
                    notes=dict(notes),
                )
            )

    def list(self) -> list[NamespaceMachine]:
        """The living VMs. The remains of others are removed."""
        machines = []
        for folder in sorted(self.root.iterdir()) if self.root.is_dir() else ():
            machine = self._read(folder)
            if machine is not None and machine.alive:
                machines.append(machine)
            elif machine is not None:
                self._remove(folder, 0)
        return machines

    def stop(self, id: str) -> None:
        """End a VM and all its processes. A missing VM is no error."""
        folder = self.root / id
        found = self._read(folder)
        # Only a process that began when the record says: its number may belong to another one by
        # now.
        self._remove(folder, found.pid if found is not None and found.alive else 0)

    def console(self, id: str) -> str:
        """The console of a VM; "" when it is gone."""
        try:
            with (self.root / id / _CONSOLE).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _CONSOLE_END))
                return file.read(_CONSOLE_END).decode(errors="replace")
        except OSError:
            return ""

    def _free_address(self) -> str:
        taken = {
            machine.address
            for folder in self.root.iterdir()
            if (machine := self._read(folder)) is not None
        }
        return next(address for address in self.network.addresses() if address not in taken)

    def _furnish(self, disk: Path, address: str, *, key: str, user_data: str) -> None:
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(disk / "host_key"))
        (disk / "authorized_keys").write_text(f"{key}\n")
        (disk / "user-data").write_text(user_data)
        (disk / "sshd_config").write_text(_SSHD.format(address=address))

    def _spawn(self, id: str, folder: Path, space: str) -> int:
        # Hierarchies of version 1: each VM gets its own part, as it would have its own kernel.
        groups = [path for path in _hierarchies() if _make(path / f"lading-vm-{_short(folder)}")]
        mounts = "\n".join(
            f"umount -l {path}; mount -t cgroup -o {path.name} cgroup {path}" for path in groups
        )
        script = _INIT.format(cgroups=mounts, disk=folder / "disk", id=id, sshd=_sshd())
        joins = "".join(
            f"echo 0 >{path}/lading-vm-{_short(folder)}/cgroup.procs\n" for path in groups
        )
        (folder / "init").write_text(script)
        (folder / "start").write_text(
            f"{joins}exec nsenter --net=/run/netns/{space} "
            f"unshare --mount --pid --fork --kill-child --uts --ipc --cgroup sh {folder}/init\n"
        )
        with (folder / _CONSOLE).open("wb") as log:
            process = subprocess.Popen(
                ["sh", "-e", str(folder / "start")], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True, cwd="/",
                env={"PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"},
            )  # fmt: skip
        # The keeper outlives this process; its new parent then reaps it.
        process.returncode = 0
        return process.pid

    def _write(self, machine: NamespaceMachine) -> None:
        draft = self.root / machine.id / f"{_RECORD}~"
        draft.write_text(json.dumps(asdict(machine)))
        draft.replace(self.root / machine.id / _RECORD)

    def _read(self, folder: Path) -> NamespaceMachine | None:
        try:
            return NamespaceMachine(**json.loads((folder / _RECORD).read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def _remove(self, folder: Path, pid: int) -> None:
        if pid:
            # The process has ended already.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            # An earlier dispatcher started the process, so that it is no child of this one.
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        _ip("netns", "del", _space(folder), check=False)
        _ip("link", "del", f"v{_short(folder)}", check=False)
        until = time.monotonic() + _PATIENCE
        for path in _hierarchies():
            _remove_groups(path / f"lading-vm-{_short(folder)}", until)
        while folder.exists() and time.monotonic() < until:
            # Mounts vanish a moment after their last process; the next attempt succeeds.
            with contextlib.suppress(OSError):
                tree_removal.remove(folder)


def _hierarchies() -> list[Path]:
    return [
        path
        for name in _CONTROLLERS
        if (path := _CGROUPS / name).is_dir() and not path.is_symlink()
    ]


def _make(path: Path) -> bool:
    try:
        path.mkdir(exist_ok=True)
    except OSError:
        return False
    return True


def _remove_groups(path: Path, until: float) -> None:
    """Remove a tree of control groups once its last process has ended."""
    while path.exists():
        for folder, _, _ in os.walk(path, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
        if time.monotonic() > until:
            return
        # A killed process leaves its group within a millisecond or two; the kernel sends no event.
        time.sleep(0.002)


def _short(folder: Path) -> str:
    """A name for a folder that is short enough for an interface."""
    import zlib

    # Names of interfaces have at most 15 characters (IFNAMSIZ).
    return f"{zlib.crc32(str(folder).encode()):08x}"


def _space(folder: Path) -> str:
    return f"lading-{_short(folder)}"


def _sshd() -> str:
    return shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin") or "/usr/sbin/sshd"


def _began(pid: int) -> str:
    """Start time of a process, or "" when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    # Field 22 of proc_pid_stat(5), counted behind the name, which may hold spaces and brackets.
    return "" if fields[0] in "ZX" else fields[19]


def _ip(*arguments: str, check: bool = True) -> None:
    _run("ip", *arguments, check=check)


def _run(*command: str, check: bool = True) -> None:
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
            env={**os.environ, "PATH": path},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{' '.join(command[:4])}: {error}") from error
    if check and done.returncode:
        raise Unavailable(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
