"""Capacity of this machine for containers, and its sharing by several dispatchers.

The capacity is the configured one, else that of the machine within the cgroup of the dispatcher,
which may itself run in a container or a slice. The smallest limit on the way from its own cgroup to
the root counts, in either cgroup version; on a hybrid machine both are read.

Several dispatchers of a machine without a configured share must not give the same resources to
containers twice. Each has a slot (`Shares`), a small file in a directory of the machine, with the
resources of its containers. The slot counts while its dispatcher lives, which holds a lock on it.
Before it starts a container, a dispatcher reserves the resources under a lock that all share. The
containers of a dispatcher that died are counted again as soon as it is back.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from lading.core.resources import UNLIMITED, Resources, total

_ROOT = Path("/")
# Bytes: smaller changes of the use of others change no plan.
_STEP = 64 << 20
# Version 1 writes "no limit" as a number near 2**63.
_NO_LIMIT = 1 << 60
_GATE = "gate"
_SLOT = "dispatcher-"


def measure(
    *,
    vcpus: int = 0,
    ram: int = 0,
    disk: int = 0,
    gpu_count: int = 0,
    root: Path = _ROOT,
    processors: int = 0,
) -> Resources:
    """The capacity. Given values of `vcpus`, `ram` (bytes) and `gpu_count`, the number of GPUs,
    replace those of the machine.

    Disk is planned only when it is given (bytes). `root` is where /proc and /sys are found,
    `processors` how many the process may use (0: ask the kernel).
    """
    processors = processors or len(os.sched_getaffinity(0))
    return Resources(
        vcpus or max(1, min([processors, *_cpu_limits(root)])),
        ram or min([_total_memory(root), *_memory_limits(root)]),
        disk or UNLIMITED,
        gpu_count,
    )


def memory_of_others(*, reserved: int, root: Path = _ROOT) -> int:
    """Bytes of RAM that other programs of the machine use, in steps of 64 MiB; 0 where the kernel
    does not say.

    The use of containers is that of their control group; where they have none, as with the daemon
    of an engine, all that they have `reserved`. Page cache that the kernel would give back is no
    use.
    """
    memory = {
        name: int(value.split()[0]) * 1024
        for name, _, value in (
            line.partition(":") for line in _read(root / "proc/meminfo").splitlines()
        )
        if value.split()[:1] and value.split()[0].isdigit()
    }
    if "MemAvailable" not in memory:
        return 0
    own = _memory_of_containers(root)
    used = memory["MemTotal"] - memory["MemAvailable"] - (reserved if own is None else own)
    return max(0, -(-used // _STEP) * _STEP)


def _memory_of_containers(root: Path) -> int | None:
    """Bytes that the control group of all containers cannot give back; None without the group."""
    mount = root / "sys/fs/cgroup"
    for folder, names in (
        (mount / "lading", ("anon", "shmem", "kernel")),
        (mount / "memory/lading", ("total_rss", "total_shmem")),
    ):
        lines = _read(folder / "memory.stat").splitlines()
        table = dict(line.split(" ", 1) for line in lines if " " in line)
        if table:
            return sum(_number(table.get(name, "")) or 0 for name in names)
    return None


def _total_memory(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def _memory_limits(root: Path) -> Iterator[int]:
    for folder in _folders(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _number(_read(folder / name))
            if limit is not None and limit < _NO_LIMIT:
                yield limit


def _cpu_limits(root: Path) -> Iterator[int]:
    for folder in _folders(root, "cpu"):
        quota, _, period = _read(folder / "cpu.max").partition(" ")
        yield from _processors(quota, period)
        yield from _processors(
            _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
        )


def _processors(quota: str, period: str) -> Iterator[int]:
    most, each = _number(quota), _number(period)
    if most and each and most > 0:
        # Rounded down: half a processor is none that a container could have.
        yield most // each


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The directories of this process's cgroup and of those above it, in each hierarchy that may
    limit `controller`.
    """
    mount = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        # "0::/path" is version 2, "4:cpu,cpuacct:/path" version 1 (cgroups(7)).
        number, names, path = line.split(":", 2)
        if number == "0":
            bases = [mount, mount / "unified"]
        elif controller in names.split(","):
            bases = [mount / controller, mount / names]
        else:
            continue
        for base in bases:
            folder = base / path.lstrip("/")
            while folder != base:
                yield folder
                folder = folder.parent
            yield base


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _number(content: str) -> int | None:
    return int(content) if content.lstrip("-").isdigit() else None


class Shares:
    """The slot of this dispatcher among those of the machine. Close it."""

    def __init__(self, directory: Path, *, name: str) -> None:
        """`name` distinguishes this dispatcher from others on the machine; it may be used again
        after its end.
        """
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        self._path = directory / f"{_SLOT}{name}"
        self._gate = os.open(directory / _GATE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._slot = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # Held for life: the kernel releases it however the dispatcher ends.
        fcntl.flock(self._slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._written = Resources()
        self._write(self._written)

    def close(self) -> None:
        """Remove the slot: the resources of this dispatcher's containers count no longer."""
        # The file was removed already.
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        os.close(self._slot)
        os.close(self._gate)

    def others(self) -> Resources:
        """Resources that the other living dispatchers have given away."""
        return total(self._others())

    def tell(self, taken: Resources) -> None:
        """Write the resources that the containers of this dispatcher take now."""
        if taken != self._written:
            with self._closed_gate():
                self._write(taken)

    def claim(self, taken: Resources, need: Resources, capacity: Resources) -> bool:
        """Reserve `need` in addition, if all dispatchers together then stay within `capacity`."""
        with self._closed_gate():
            # Read under the gate that all writers hold: no other dispatcher can reserve in between.
            fits = (taken + need).fits(capacity - self.others())
            self._write(taken + need if fits else taken)
        return fits

    @contextmanager
    def _closed_gate(self) -> Iterator[None]:
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def _others(self) -> Iterator[Resources]:
        for path in self._directory.glob(f"{_SLOT}*"):
            if path != self._path:
                # Its dispatcher has ended meanwhile.
                with contextlib.suppress(FileNotFoundError):
                    yield _read_share(path)

    def _write(self, taken: Resources) -> None:
        # One line of fixed length: a reader without the gate never sees parts of two lines.
        text = msgspec.json.encode([taken.vcpus, taken.ram, taken.disk, taken.gpus]).ljust(128)
        os.pwrite(self._slot, text, 0)
        self._written = taken


def _read_share(path: Path) -> Resources:
    """The amount in a slot; nothing when its dispatcher is gone."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            # A lock that can be had shows that no dispatcher lives there: its amounts do not count.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return Resources(
                *msgspec.json.decode(os.pread(descriptor, 128, 0), type=tuple[int, int, int, int])
            )
        return Resources()
    except msgspec.DecodeError:
        return Resources()
    finally:
        os.close(descriptor)
