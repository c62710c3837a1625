"""The register of one machine: a directory of lock files that lists the supervised containers.

Names and contents are those of Arvados' dispatchers:

    crunch-run-<UUID>.lock    `{"UUID": ..., "PID": ..., "RunDirectory": ...}`, held with flock by
                              the supervisor
    crunch-run-all.lock       held while one of the others is made or removed
    crunch-run-broken         exists when this machine cannot run containers; contains the reason
    crunch-run-prices.json    price history of the machine, newest first

An empty file belongs to a supervisor that is starting. Descriptors are closed on exec, so no child
of a supervisor keeps its lock. A free lock with a run directory means that the supervisor died:
`look` has it cleaned by the given function, holding the lock meanwhile, so that no second
supervisor starts before that.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

import msgspec

from lading.core import ids
from lading.core.errors import Conflict, LadingError, Unavailable
from lading.supervisor.linux import is_locked

DEFAULT = "/var/lock"
_PREFIX, _SUFFIX = "crunch-run-", ".lock"
_ALL = "crunch-run-all.lock"
_BROKEN = "crunch-run-broken"
_PRICES = "crunch-run-prices.json"
# Seconds to wait for the lock of the register, which is held for single file operations.
_PATIENCE = 10.0
# Seconds that `kill` waits for the end; the dispatcher repeats its signal.
_KILL_TIME = 1.0
# Seconds between two looks at a lock.
_POLL = 0.01


class RegisterEntry(msgspec.Struct, frozen=True):
    """The content of a container's lock file."""

    UUID: str
    PID: int
    RunDirectory: str = ""


class SupervisorCondition(StrEnum):
    """Condition of a supervisor according to its lock file."""

    LIVE = "live"
    STALE = "stale"
    """The supervisor is gone, its run directory is not."""


class RegisteredContainer(msgspec.Struct, frozen=True):
    """One container of the register."""

    uuid: str
    condition: SupervisorCondition

    @property
    def line(self) -> str:
        """The line of `--list`."""
        return self.uuid if self.condition is SupervisorCondition.LIVE else f"{self.uuid} stale"


class Register:
    """The lock files in one directory, which is made if it is missing.

    `patience` is how many seconds another process may hold the register, `kill_time` how many a
    supervisor has to end after a signal.
    """

    def __init__(
        self, directory: Path, *, patience: float = _PATIENCE, kill_time: float = _KILL_TIME
    ) -> None:
        self._directory = directory
        self._patience, self._kill_time = patience, kill_time

    def acquire(self, uuid: str) -> tuple[int, RegisterEntry | None]:
        """Lock a container: the descriptor that holds the lock, and the entry of a dead supervisor,
        if any.

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

    def write(self, descriptor: int, entry: RegisterEntry) -> None:
        """Write the holder of the lock. Its readers may send USR2, so a handler must be installed
        before.
        """
        os.pwrite(descriptor, msgspec.json.encode(entry), 0)

    def release(self, uuid: str, descriptor: int) -> None:
        """Release the lock and remove its file."""
        # Removed while the lock is held, so that no other process locks a file that is about to
        # vanish.
        try:
            with self._alone():
                self._path(uuid).unlink(missing_ok=True)
        finally:
            os.close(descriptor)

    def read(self, uuid: str) -> RegisterEntry | None:
        """The lock file's entry; None when it is missing or still empty."""
        return _read_entry(self._path(uuid))

    def look(
        self, clean: Callable[[RegisterEntry], None], *, only: str = ""
    ) -> list[RegisteredContainer]:
        """All started supervisors, in the order of their uuids, each sent USR2; `only`: that of one
        container.

        `clean` undoes the steps of a dead supervisor; when it raises, the container is shown as
        stale.
        """
        containers = []
        for path in sorted(self._directory.glob(f"{_PREFIX}*{_SUFFIX}")):
            uuid = path.name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
            if ids.is_uuid(uuid, ids.Infix.CONTAINER) and only in ("", uuid):
                condition = self._look_at(uuid, path, clean, probe=_probe)
                if condition is not None:
                    containers.append(RegisteredContainer(uuid, condition))
        return containers

    def sweep(self, clean: Callable[[RegisterEntry], None]) -> None:
        """Clean up after dead supervisors, as `look` does; live ones get no signal."""
        for path in self._directory.glob(f"{_PREFIX}*{_SUFFIX}"):
            self._look_at(
                path.name.removeprefix(_PREFIX).removesuffix(_SUFFIX),
                path,
                clean,
                probe=lambda _: None,
            )

    def kill(self, uuid: str, number: signal.Signals) -> bool:
        """Send a signal to the supervisor of a container; whether it has ended, waiting a second at
        most.
        """
        entry = self.read(uuid)
        if entry is None or not self._is_held(uuid):
            return True
        # The process has ended already.
        with contextlib.suppress(ProcessLookupError):
            os.kill(entry.PID, number)
        until = time.monotonic() + self._kill_time
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
        """Mark this machine, so that dispatchers use it no more."""
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / _BROKEN).write_text(f"{why}\n")

    def write_prices(self, history: bytes) -> None:
        """Replace the price history atomically."""
        self._directory.mkdir(parents=True, exist_ok=True)
        draft = self._directory / f"{_PRICES}~{os.getpid()}"
        draft.write_bytes(history)
        draft.rename(self._directory / _PRICES)

    def read_prices(self) -> bytes:
        """The stored price history; empty without one."""
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
        clean: Callable[[RegisterEntry], None],
        *,
        probe: Callable[[RegisterEntry | None], SupervisorCondition | None],
    ) -> SupervisorCondition | None:
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
                # The lock is held: the supervisor is alive or starting.
                return probe(entry)
            if entry is None:
                path.unlink()
                os.close(descriptor)
                return None
        # Outside of the register's lock: cleaning may take long. The container's own lock is held.
        try:
            clean(entry)
        except (LadingError, OSError):
            os.close(descriptor)
            return SupervisorCondition.STALE
        self.release(uuid, descriptor)
        return None

    def _is_held(self, uuid: str) -> bool:
        # With the register's lock, so that a starting supervisor does not find its lock taken by
        # this check.
        with self._alone():
            # While the file is locked, its process is alive.
            return is_locked(self._path(uuid))

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        self._directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._directory / _ALL, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            until = time.monotonic() + self._patience
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


def _read_entry(path: Path) -> RegisterEntry | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=RegisterEntry)
    except (OSError, msgspec.DecodeError):
        # The entry is being written, or was removed.
        return None


def _probe(entry: RegisterEntry | None) -> SupervisorCondition | None:
    """Condition of the holder of a lock: None while it is starting."""
    if entry is None:
        return None
    try:
        os.kill(entry.PID, signal.SIGUSR2)
    except ProcessLookupError:
        return SupervisorCondition.STALE
    # A supervisor of another user.
    except PermissionError:
        return SupervisorCondition.LIVE
    return SupervisorCondition.LIVE
