"""The register of one machine: a directory of lock files that says which containers are supervised
here.

Names and contents are those that Arvados' dispatchers look for:

    crunch-run-<UUID>.lock    `{"UUID": ..., "PID": ..., "RunDirectory": ...}`, held with flock by
    the supervisor crunch-run-all.lock       held while one of the others is made or removed
    crunch-run-broken         there when this machine cannot run containers any more; its text says
    why crunch-run-prices.json    what the machine costs, newest first

A file without content belongs to a supervisor that is starting. Descriptors are closed on exec, so
nothing that a supervisor starts can keep its lock. A free lock with a run directory means that a
supervisor died: `look` has it cleaned by the function it is given, holding the lock meanwhile, so
that no second supervisor starts before that.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from lading.core import ids
from lading.core.errors import Conflict, LadingError, Unavailable

DEFAULT = "/var/lock"
_PREFIX, _SUFFIX = "crunch-run-", ".lock"
_ALL = "crunch-run-all.lock"
_BROKEN = "crunch-run-broken"
_PRICES = "crunch-run-prices.json"
_PATIENCE = 10.0
_KILL_TIME = 1.0
_POLL = 0.01


@dataclass(frozen=True, slots=True)
class Entry:
    """The content of a container's lock file."""

    UUID: str
    PID: int
    RunDirectory: str = ""


class Condition(StrEnum):
    """What a lock file says about its supervisor."""

    LIVE = "live"
    STALE = "stale"
    """The supervisor is gone, what it left is not."""


@dataclass(frozen=True, slots=True)
class Found:
    """A container of the register."""

    uuid: str
    condition: Condition

    @property
    def line(self) -> str:
        """As `--list` prints it."""
        return self.uuid if self.condition is Condition.LIVE else f"{self.uuid} stale"


class Register:
    """The lock files in one directory, which is made when it is not there."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def acquire(self, uuid: str) -> tuple[int, Entry | None]:
        """Hold the lock of a container: the descriptor that holds it, and what a dead supervisor
        had written there.

        The file is empty until `write`. Raises Conflict when another supervisor holds the lock,
        Unavailable when the register is busy.
        """
        with self._alone():
            path = self._path(uuid)
            earlier = _read_entry(path)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o700)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(descriptor)
                raise Conflict(f"{uuid}: a supervisor is running already") from error
            os.ftruncate(descriptor, 0)
            return descriptor, earlier

    def write(self, descriptor: int, entry: Entry) -> None:
        """Say who holds the lock. Whoever reads it may send USR2, so have a handler for that
        before.
        """
        os.pwrite(descriptor, msgspec.json.encode(entry), 0)

    def release(self, uuid: str, descriptor: int) -> None:
        """Let the lock go and remove its file."""
        try:
            with self._alone():
                self._path(uuid).unlink(missing_ok=True)
        finally:
            os.close(descriptor)

    def read(self, uuid: str) -> Entry | None:
        """What the lock file of a container says; None when there is none, or nothing in it yet."""
        return _read_entry(self._path(uuid))

    def look(self, clean: Callable[[Entry], None], *, only: str = "") -> list[Found]:
        """All supervisors that have started, in the order of their uuids, each sent USR2; `only`
        that of one container.

        `clean` undoes what a dead one left; it raises when it cannot, and the container is then
        shown as stale.
        """
        found = []
        for path in sorted(self._directory.glob(f"{_PREFIX}*{_SUFFIX}")):
            uuid = path.name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
            if ids.is_uuid(uuid, ids.Infix.CONTAINER) and only in ("", uuid):
                condition = self._look_at(uuid, path, clean, probe=_probe)
                if condition is not None:
                    found.append(Found(uuid, condition))
        return found

    def sweep(self, clean: Callable[[Entry], None]) -> None:
        """Clear away what dead supervisors left, as `look` does; the living are left in peace."""
        for path in self._directory.glob(f"{_PREFIX}*{_SUFFIX}"):
            self._look_at(
                path.name.removeprefix(_PREFIX).removesuffix(_SUFFIX),
                path,
                clean,
                probe=lambda _: None,
            )

    def kill(self, uuid: str, number: signal.Signals) -> bool:
        """Send the supervisor of a container a signal; whether it is gone a second later at most,
        or was before.
        """
        entry = self.read(uuid)
        if entry is None or not self._is_held(uuid):
            return True
        with contextlib.suppress(ProcessLookupError):
            os.kill(entry.PID, number)
        until = time.monotonic() + _KILL_TIME
        while self._is_held(uuid):
            if time.monotonic() > until:
                return False
            time.sleep(_POLL)
        return True

    @property
    def broken(self) -> bool:
        """Whether this machine was found to be unable to run containers."""
        return (self._directory / _BROKEN).exists()

    def mark_broken(self, why: str) -> None:
        """Leave the mark by which dispatchers know that they must not use this machine any more."""
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / _BROKEN).write_text(f"{why}\n")

    def write_prices(self, text: bytes) -> None:
        """Replace the price history at one moment."""
        self._directory.mkdir(parents=True, exist_ok=True)
        part = self._directory / f"{_PRICES}~{os.getpid()}"
        part.write_bytes(text)
        part.rename(self._directory / _PRICES)

    def read_prices(self) -> bytes:
        """The price history as it was written; empty when there is none."""
        try:
            return (self._directory / _PRICES).read_bytes()
        except FileNotFoundError:
            return b""

    def _path(self, uuid: str) -> Path:
        return self._directory / f"{_PREFIX}{uuid}{_SUFFIX}"

    def _look_at(
        self,
        uuid: str,
        path: Path,
        clean: Callable[[Entry], None],
        *,
        probe: Callable[[Entry | None], Condition | None],
    ) -> Condition | None:
        descriptor = -1
        with self._alone():
            entry = _read_entry(path)
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except FileNotFoundError:
                return None
            except BlockingIOError:
                os.close(descriptor)
                return probe(entry)
            if entry is None:
                path.unlink()
                os.close(descriptor)
                return None
        try:
            clean(entry)
        except (LadingError, OSError):
            os.close(descriptor)
            return Condition.STALE
        self.release(uuid, descriptor)
        return None

    def _is_held(self, uuid: str) -> bool:
        # Alone, so that nobody who starts finds the lock taken by this question.
        with self._alone():
            try:
                descriptor = os.open(self._path(uuid), os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                os.close(descriptor)
            return False

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        self._directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._directory / _ALL, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            until = time.monotonic() + _PATIENCE
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as error:
                    if time.monotonic() > until:
                        raise Unavailable(
                            f"{self._directory / _ALL}: another process holds it; try again"
                        ) from error
                    time.sleep(_POLL / 10)
            yield
        finally:
            os.close(descriptor)


def _read_entry(path: Path) -> Entry | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Entry)
    except (OSError, msgspec.DecodeError):
        return None


def _probe(entry: Entry | None) -> Condition | None:
    """What the holder of a lock is: None while it is starting."""
    if entry is None:
        return None
    try:
        os.kill(entry.PID, signal.SIGUSR2)
    except ProcessLookupError:
        return Condition.STALE
    except PermissionError:
        return Condition.LIVE
    return Condition.LIVE
