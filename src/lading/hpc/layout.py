"""Files of the HPC daemon: paths, credentials, stored state, size limits, and notices of writes.

- Paths and modes: files are replaced whole. Files that the code may change are world readable and
  writable, in directories that everybody can enter. The daemon's own files (keys, state, log) are
  for root alone (docs/spec/hpc-daemon, section Files).
- Identity: certificate, key and authorization come with the environment, or are the files of an
  earlier start. They are removed from the environment, also as /proc/PID/environ shows it: no
  program that the daemon starts finds them there.
- Output of the code: the code writes to the files itself, so that it does not notice a restart of
  the daemon. The oldest part of a file that has grown too long is returned to the file system as a
  hole: positions stay valid.
- Notices of writes by inotify(7), so that no polling is needed. Events are read only while a caller
  waits; in between the kernel merges equal ones. Where no more inotify instances are available, the
  waiting caller polls once a second.
- Memory: states, settings, parameters, and the process of the code. Each change is on disk before
  it is acknowledged. The authorization is not part of it. An unreadable file is moved aside, and
  the log says so (docs/spec/hpc-daemon, section Memory over restarts).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import json
import logging
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lading.core.errors import Invalid, LadingError
from lading.core.hpc import daemon_configuration, daemon_states
from lading.core.hpc.daemon_configuration import DaemonSettings
from lading.core.hpc.daemon_states import CodeStatus, ContainerStatus, ResultStatus, StartedBy

_logger = logging.getLogger("lading.hpc")
# Modes: the code may run as any user; secrets are for the daemon only.
OPEN, PRIVATE = 0o666, 0o600
REACHABLE, WRITABLE = 0o755, 0o1777
"""Modes of directories: others list the first kind, and also write to the second."""
FILES: Final = {
    "TLS_PUBLIC_CERT": "tls_server.crt",
    "TLS_PRIVATE_KEY": "tls_server.key",
    "AUTHORIZATION": "authorization",
}
"""Variables, and the files in the daemon's directory that keep their values."""
# Bytes of output that are kept: 1 GiB.
LOG_LIMIT = 1 << 30
# Flags of fallocate(2): give the blocks of a range back, with the size unchanged.
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
# Bytes; a multiple of it is given back.
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class DaemonLayout:
    """Paths below `root`; `home` is that of the user who runs the code, a path inside the
    container.
    """

    root: Path
    home: str

    def inside(self, path: str) -> Path:
        """The daemon's path of an absolute path of the container."""
        return self.root / path.lstrip("/")

    def outside(self, place: Path) -> str:
        """The container's path of a path of the daemon."""
        return "/" + str(place.relative_to(self.root))

    @property
    def base(self) -> Path:
        """The directory of most files of the daemon."""
        return self.root / "hpcaas"

    @property
    def own(self) -> Path:
        """The daemon's directory."""
        return self.base / "daemon"

    @property
    def ssh(self) -> Path:
        """The user's ssh configuration."""
        return self.inside(self.home) / ".ssh"

    @property
    def bashrc(self) -> Path:
        """The start-up file that shells started by sshd read."""
        return self.inside(self.home) / ".bashrc"

    @property
    def progress(self) -> Path:
        """The file in which the code writes its progress, 0 to 100."""
        return self.base / "updates" / "percentComplete"

    def code(self, name: str) -> Path:
        """The executable: `/code`, or the path `codeName`; a bare name is below `/hpcaas/code`."""
        if not name:
            return self.root / "code"
        return self.inside(name) if name.startswith("/") else self.base / "code" / name

    def make(self) -> None:
        """Make the directories. Raises OSError."""
        self.own.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.own.chmod(0o700)
        # A file that anybody may read and write is of use only where anybody reaches its directory.
        open_folder(self.base, mode=REACHABLE)
        for name in ("files", "runtime", "parameters", "code"):
            open_folder(self.base / name, mode=REACHABLE)
        # The code may run as another user than the daemon.
        open_folder(self.base / "results", mode=WRITABLE)
        open_folder(self.base / "updates", mode=0o777)
        with contextlib.suppress(FileExistsError):
            # Templates for such containers have them there.
            (self.base / "parameters" / "files").symlink_to("../files")


def make_folder(path: Path, *, mode: int = REACHABLE) -> None:
    """Make a directory with this mode, and the missing ones above it reachable. Raises OSError.

    The umask does not narrow the modes. A directory that exists keeps its mode.
    """
    missing = []
    above = path
    while not above.exists():
        missing.append(above)
        above = above.parent
    for one in reversed(missing):
        one.mkdir()
        one.chmod(mode if one is path else REACHABLE)
    if not path.is_dir():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def open_folder(path: Path, *, mode: int) -> None:
    """Make a directory, or add these permissions to the one that exists. Raises OSError.

    A volume that is mounted there may not allow the change: then its mode stays.
    """
    make_folder(path, mode=mode)
    present = stat.S_IMODE(path.stat().st_mode)
    if present & mode != mode:
        try:
            path.chmod(present | mode)
        except OSError as error:
            message = "%s keeps its mode %o, and other users need %o: %s"
            _logger.warning(message, path, present, mode, error.strerror)


def write(path: Path, content: str | bytes, *, mode: int) -> None:
    """Replace a file atomically: readers see the old or the new content. Raises OSError."""
    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            # The process's umask must not narrow the mode.
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            # Before the rename: a file with its final name is whole, also after a power failure.
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def append(path: Path, text: str, *, mode: int) -> None:
    """Add lines to a file, which is made if need be. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, mode)
    with open(descriptor, "wb") as file:
        # The daemon is not the owner of the file: the mode stays.
        with contextlib.suppress(PermissionError):
            os.fchmod(file.fileno(), mode)
        file.write(text.encode())


def read_text(path: Path, *, most: int = 1 << 20) -> str:
    """The text of a small file; "" when it is not there or cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(most)
    except OSError:
        return ""


def read_identity(own: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The three values by the names of the variables. Raises Invalid with the names of missing
    ones.
    """
    found = {name: environment.get(name) or read_text(own / file) for name, file in FILES.items()}
    missing = [name for name, value in found.items() if not value]
    if missing:
        raise Invalid(
            f"{', '.join(missing)} missing: "
            "give certificate, key and authorization in the environment"
        )
    return found


def keep_identity(own: Path, values: Mapping[str, str]) -> None:
    """Write the values to their files, for the next start. Raises OSError."""
    for name, file in FILES.items():
        write(own / file, values[name], mode=PRIVATE)


def forget_environment() -> None:
    """Overwrite the values in the memory that the system shows as the environment of this
    process.
    """
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    for name in FILES:
        place = libc.getenv(name.encode())
        if place:
            ctypes.memset(place, 0, len(ctypes.string_at(place)))
        os.environ.pop(name, None)


def trim_log(path: Path, *, limit: int = LOG_LIMIT) -> int:
    """Give back all but the last `limit` bytes (whole MiB); how many bytes were given back in all.
    Raises OSError.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return 0
    surplus = (size - limit) // _BLOCK * _BLOCK
    if surplus <= 0:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if libc.fallocate(descriptor, _KEEP_SIZE | _PUNCH_HOLE, 0, surplus) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(descriptor)
    return surplus


# Events of inotify(7).
_MODIFY, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x80, 0x100, 0x200
# Bytes of events that are read at a time; their content does not matter.
_MOST = 1 << 16
# Seconds between two looks where inotify cannot be used.
_WITHOUT = 1.0


class Notices:
    """Notices of changes to files, and to the direct entries of directories."""

    def __init__(self, *, without: float = _WITHOUT) -> None:
        """`without`: seconds between two polls where the kernel sends no events."""
        self._without = without
        self._descriptor = -1
        self._waiting: set[asyncio.Event] = set()

    def open(self, *paths: Path) -> bool:
        """Begin to watch; return whether the kernel reports changes to all of the paths."""
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        mask = _MODIFY | _MOVED_TO | _CREATE | _DELETE
        if self._descriptor >= 0 and all(
            libc.inotify_add_watch(self._descriptor, os.fsencode(path), mask) >= 0 for path in paths
        ):
            return True
        self.close()
        return False

    def close(self) -> None:
        """Stop watching."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    async def one(self) -> None:
        """Wait until something may have changed."""
        if self._descriptor < 0:
            await asyncio.sleep(self._without)
            return
        event = asyncio.Event()
        if not self._waiting:
            asyncio.get_running_loop().add_reader(self._descriptor, self._take)
        self._waiting.add(event)
        try:
            await event.wait()
        finally:
            self._waiting.discard(event)
            if not self._waiting:
                asyncio.get_running_loop().remove_reader(self._descriptor)

    def _take(self) -> None:
        # Nothing has happened.
        with contextlib.suppress(BlockingIOError):
            os.read(self._descriptor, _MOST)
        self.tell()

    def tell(self) -> None:
        """Note a change that the kernel does not report."""
        for event in self._waiting:
            event.set()


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
