"""Files that outlive VMs and restarts: the journal of VMs, and the logs of those that are gone.

The journal is one small file, with the facts that a dispatcher needs after a restart and that the
cloud does not have: the time when a VM was made, and since when it is waited for, from its creation
until it is ready, and from the first restart after which it was not reached until it is. Without
this a VM that never boots would get a new boot time-out at every restart, and its cost would begin
anew. Times are seconds since 1970. The file is replaced as a whole; one that cannot be read counts
as empty.

Logs are the console, the supervisors' log, and the reason of the removal. A VM that never became
ready, broke, or disappeared leaves its console; every VM that can be reached when it is removed
leaves the end of its supervisors' log, unless that is empty. They are kept below the dispatcher's
directory, one directory for each VM: the last 64 KiB of each log, of the latest 200 VMs, for 14
days. Both logs are written by the VM, on which containers run: they are shown, never interpreted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from lading.core.errors import LadingError, NotFound
from lading.dispatch.fleets.cloud.drivers.driver import Driver
from lading.dispatch.fleets.cloud.machine import CloudMachine
from lading.process import tree_removal
from lading.process.telemetry import event

LONGEST: Final = 64 << 10
"""Bytes of one log that are kept: its end."""
_MOST: Final = 200
_OLDEST: Final = 14 * 86400.0
# Seconds for one question to a VM or its cloud: the VM costs money meanwhile.
_PATIENCE: Final = 20.0
_RECORD: Final = "machine.json"
CONSOLE: Final = "console.log"
SUPERVISORS: Final = "supervisors.log"
_logger = logging.getLogger("lading.dispatch.fleets.cloud")


class MachineLogRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A VM whose logs are kept. `at` is in seconds since 1970, `logs` has sizes in bytes."""

    id: str
    type: str
    at: float
    why: str
    logs: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class MachineLogs:
    """The logs below a directory; None keeps nothing."""

    directory: Path | None

    def keep(self, record: MachineLogRecord, logs: Mapping[str, bytes]) -> None:
        """Store the end of each log of a VM, in place of earlier ones of the same VM; older VMs
        are removed. Raises OSError.
        """
        if self.directory is None:
            return
        ends = {name: data[-LONGEST:] for name, data in logs.items() if data}
        directory = self._place(record.id)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, data in ends.items():
            (directory / name).write_bytes(data)
        sizes = {name: len(data) for name, data in ends.items()}
        # Written last: a VM without it does not count.
        (directory / _RECORD).write_bytes(
            msgspec.json.encode(msgspec.structs.replace(record, logs=sizes))
        )
        self._prune(record.at)

    def records(self) -> list[MachineLogRecord]:
        """The VMs, the latest first."""
        if self.directory is None or not self.directory.is_dir():
            return []
        records = (self._read(directory) for directory in self.directory.iterdir())
        return sorted(
            (record for record in records if record), key=lambda record: (-record.at, record.id)
        )

    def find(self, id: str) -> tuple[MachineLogRecord, dict[str, str]]:
        """A VM and its logs as texts. Raises NotFound."""
        record = self._read(self._place(id)) if self.directory is not None else None
        if record is None:
            raise NotFound(
                f"{id[:80]}: no log of such an instance is kept; 'lading instance logs' lists them"
            )
        texts = {}
        for name in record.logs:
            with contextlib.suppress(OSError):
                texts[name] = (self._place(id) / name).read_text(errors="replace")
        return record, texts

    def _place(self, id: str) -> Path:
        assert self.directory is not None
        # Without dots and slashes: the name comes from a cloud, or from a caller.
        return self.directory / quote(id, safe="").replace(".", "%2E")[:200]

    def _read(self, directory: Path) -> MachineLogRecord | None:
        try:
            return msgspec.json.decode((directory / _RECORD).read_bytes(), type=MachineLogRecord)
        except (OSError, msgspec.DecodeError):
            return None

    def _prune(self, now: float) -> None:
        for number, record in enumerate(self.records()):
            if number >= _MOST or record.at < now - _OLDEST:
                # The next VM tries again.
                with contextlib.suppress(OSError):
                    tree_removal.remove(self._place(record.id))


@dataclass(frozen=True, slots=True)
class LogCollector:
    """Collects the logs of VMs; `wall` gives seconds since 1970."""

    logs: MachineLogs
    driver: Driver
    wall: Callable[[], float]
    patience: float = _PATIENCE

    async def collect(self, machine: CloudMachine, why: str, *, has_failed: bool) -> None:
        """Keep the logs of a VM that goes or is gone. A log that cannot be read is left out."""
        logs: dict[str, bytes] = {}
        if machine.link is not None:
            with contextlib.suppress(LadingError):
                answer = await machine.link.request("tail", timeout=self.patience)
                logs[SUPERVISORS] = str(answer.get("text") or "").encode()
        if has_failed:
            try:
                async with asyncio.timeout(self.patience):
                    logs[CONSOLE] = (await self.driver.console(machine.name)).encode()
            except (LadingError, TimeoutError) as error:
                event(_logger, "console not read", instance=machine.name, why=error)
        if not has_failed and not logs.get(SUPERVISORS):
            return
        record = MachineLogRecord(id=machine.name, type=machine.type, at=self.wall(), why=why)
        try:
            self.logs.keep(record, logs)
        except OSError as error:
            # A full disk must not keep a VM from being removed.
            event(_logger, "logs not kept", instance=machine.name, why=error)


class InstanceRecord(msgspec.Struct, frozen=True):
    """One VM. `waited_since` is 0 while it is ready."""

    created: float = msgspec.field(name="made")
    waited_since: float


class InstanceJournal:
    """Entries by the cloud's ids. Without a path it is kept in memory alone, and no logs are.

    `logs` has the logs of VMs that are gone, beside the file.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.logs = MachineLogs(path.parent / "machines" if path is not None else None)
        self._entries: dict[str, InstanceRecord] = {}
        if path is not None:
            # The journal only saves time: without it, VMs are asked again for their processes.
            with contextlib.suppress(OSError, msgspec.DecodeError):
                self._entries = msgspec.json.decode(
                    path.read_bytes(), type=dict[str, InstanceRecord]
                )

    def find(self, id: str) -> InstanceRecord | None:
        """The record of a VM."""
        return self._entries.get(id)

    def note(self, id: str, *, created: float, waited_since: float) -> None:
        """Store the record of a VM."""
        entry = InstanceRecord(created, waited_since)
        if self._entries.get(id) != entry:
            self._entries[id] = entry
            self._write()

    def keep(self, ids: Iterable[str]) -> None:
        """Forget every VM but these."""
        kept = set(ids)
        if self._entries.keys() - kept:
            self._entries = {id: entry for id, entry in self._entries.items() if id in kept}
            self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        draft = self._path.with_suffix(".part")
        # A full disk must not stop the dispatcher; the entries are in memory all the same.
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.write_bytes(msgspec.json.encode(self._entries))
            # Renamed when complete: a crash leaves the former journal.
            draft.replace(self._path)
