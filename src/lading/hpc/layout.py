"""Files of the HPC daemon: paths, credentials, and size limits.

- Paths and modes: files are replaced whole. Files that the code may change are world readable and
  writable, in directories that everybody can enter. The daemon's own files (keys, state, log) are
  for root alone (docs/spec/hpc-daemon, section Files).
- Identity: certificate, key and authorization come with the environment, or are the files of an
  earlier start. They are removed from the environment, also as /proc/PID/environ shows it: no
  program that the daemon starts finds them there.
- Output of the code: the code writes to the files itself, so that it does not notice a restart of
  the daemon. The oldest part of a file that has grown too long is returned to the file system as a
  hole: positions stay valid.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lading.core.errors import Invalid

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

    def outside(self, path: Path) -> str:
        """The container's path of a path of the daemon."""
        return "/" + str(path.relative_to(self.root))

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
    for directory in reversed(missing):
        directory.mkdir()
        directory.chmod(mode if directory is path else REACHABLE)
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


def append(path: Path, lines: str, *, mode: int) -> None:
    """Append lines to a file; create it if it is missing. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, mode)
    with open(descriptor, "wb") as file:
        # The daemon is not the owner of the file: the mode stays.
        with contextlib.suppress(PermissionError):
            os.fchmod(file.fileno(), mode)
        file.write(lines.encode())


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
    values = {name: environment.get(name) or read_text(own / file) for name, file in FILES.items()}
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise Invalid(
            f"{', '.join(missing)} missing: "
            "give certificate, key and authorization in the environment"
        )
    return values


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
