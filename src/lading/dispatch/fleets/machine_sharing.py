"""Sharing of one machine by several dispatchers: the resources that one gives to containers are not
given by others.

Each local dispatcher without a configured share keeps a slot, a small file in a directory of the
machine, with the resources of its containers. The slot counts while its dispatcher lives, which
holds a lock on it. Before it starts a container, a dispatcher reserves the resources under a lock
that all share, so that two never give away the same resources. The containers of a dispatcher that
died are counted again as soon as it is back.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from lading.core.resources import Resources, total

_GATE = "gate"
_SLOT = "dispatcher-"


class Shares:
    """The slot of this dispatcher among those of the machine. Close it."""

    def __init__(self, directory: Path, *, name: str) -> None:
        """`name` tells this dispatcher from others on the machine; it may be used again after its
        end.
        """
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        self._path = directory / f"{_SLOT}{name}"
        self._gate = os.open(directory / _GATE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._slot = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._told = Resources()
        self._write(self._told)

    def close(self) -> None:
        """Give up the slot: the resources of this dispatcher's containers count no longer."""
        # It was removed already.
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        os.close(self._slot)
        os.close(self._gate)

    def others(self) -> Resources:
        """Resources that the other living dispatchers have given away."""
        return total(self._others())

    def tell(self, taken: Resources) -> None:
        """Write the resources that the containers of this dispatcher take now."""
        if taken != self._told:
            with self._closed_gate():
                self._write(taken)

    def claim(self, taken: Resources, need: Resources, whole: Resources) -> bool:
        """Take `need` beside what is taken already, if all dispatchers together then stay within
        `whole`.
        """
        with self._closed_gate():
            fits = (taken + need).fits(whole - self.others())
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
                    yield _read(path)

    def _write(self, taken: Resources) -> None:
        # One line of fixed length: who reads without the gate never sees half of two.
        text = msgspec.json.encode([taken.vcpus, taken.ram, taken.disk, taken.gpus]).ljust(128)
        os.pwrite(self._slot, text, 0)
        self._told = taken


def _read(path: Path) -> Resources:
    """The amount in a slot; nothing when its dispatcher is gone."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
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
