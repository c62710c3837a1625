"""State of the HPC daemon that outlives a restart: states, settings, parameters, and the process of
the code.

Each change is on disk before it is acknowledged. The authorization is not part of it. An unreadable
file is moved aside, and the log says so (docs/spec/hpc-daemon, section Memory over restarts).
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lading.core.errors import LadingError
from lading.core.hpc import daemon_configuration, daemon_states
from lading.core.hpc.daemon_configuration import DaemonSettings
from lading.core.hpc.daemon_states import CodeStatus, ContainerStatus, ResultStatus, StartedBy
from lading.hpc.layout import PRIVATE, write

_logger = logging.getLogger("lading.hpc")
_PLAIN = (
    "parameters",
    "given",
    "pid",
    "born",
    "mark",
    "exit_code",
    "reason",
    "killed",
    "failed",
    "results",
)


@dataclass(slots=True, kw_only=True)
class DaemonMemory:
    """The daemon's record. `given`: the accepted daemon parameters as received, by key; `settings`:
    the parsed values.
    """

    path: Path
    allow_http: bool = False
    container: ContainerStatus = ContainerStatus.RUNNING
    code: CodeStatus = CodeStatus.WAITING
    result: ResultStatus = ResultStatus.WAITING
    started_by: StartedBy | None = None
    settings: DaemonSettings = field(default_factory=DaemonSettings)
    parameters: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    pid: int = 0
    born: int = 0
    mark: str = ""
    exit_code: int | None = None
    reason: str = ""
    killed: bool = False
    failed: bool = False
    results: list[dict[str, Any]] = field(default_factory=list)
    fault: str = ""
    """The reason of FSError. It is not on disk: a new daemon asks the file systems itself."""
    _waiting: set[asyncio.Event] = field(default_factory=set, init=False, repr=False, compare=False)

    def enter(self, status: CodeStatus, *, reason: str = "") -> None:
        """Set and store the state of the code. Raises IllegalTransition, OSError."""
        self.code = daemon_states.change(daemon_states.CODE_TRANSITIONS, self.code, status)
        self.reason = reason
        self.save()
        _logger.info("code is %s%s", status, f": {reason}" if reason else "")

    def deliver(self, status: ResultStatus) -> None:
        """Set and store the state of the results. Raises IllegalTransition, OSError."""
        self.result = daemon_states.change(daemon_states.RESULT_TRANSITIONS, self.result, status)
        self.save()
        _logger.info("results are %s", status)

    def judge(self, status: ContainerStatus, *, fault: str = "") -> None:
        """Set and store the state of the container and its fault. Raises OSError."""
        self.fault = fault
        # Only a change is stored: the file systems are looked at in each period.
        if status is not self.container:
            self.container = daemon_states.change(
                daemon_states.CONTAINER_TRANSITIONS, self.container, status
            )
            self.save()
            _logger.info("container is %s", status)

    def save(self) -> None:
        """Store the record. Raises OSError."""
        content = {name: getattr(self, name) for name in _PLAIN}
        states = {
            "container": self.container,
            "code": self.code,
            "result": self.result,
            "startedBy": self.started_by,
        }
        write(self.path, json.dumps(content | states), mode=PRIVATE)
        for event in self._waiting:
            event.set()

    async def changed(self) -> None:
        """Wait for the next change of the record."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            await event.wait()
        finally:
            self._waiting.discard(event)


def load(path: Path, *, allow_http: bool = False) -> DaemonMemory:
    """Read the record, or make a new one. Raises OSError when the directory cannot be read."""
    try:
        content = json.loads(path.read_text())
        record = DaemonMemory(
            path=path, allow_http=allow_http, **{name: content[name] for name in _PLAIN}
        )
        record.container = ContainerStatus(content["container"])
        record.code = CodeStatus(content["code"])
        record.result = ResultStatus(content["result"])
        record.started_by = StartedBy(content["startedBy"]) if content["startedBy"] else None
        # Checked already when they were accepted; a daemon that was started without HTTP must read
        # them too.
        record.settings = daemon_configuration.apply(
            DaemonSettings(), record.given, allow_http=True
        ).settings
    except FileNotFoundError:
        return DaemonMemory(path=path, allow_http=allow_http)
    except (ValueError, KeyError, TypeError, LadingError) as error:
        _logger.error("%s cannot be read and is put aside: %s", path, error)
        path.replace(path.with_suffix(".broken"))
        return DaemonMemory(path=path, allow_http=allow_http)
    return record
