"""The binding to libfuse 3.

No other module uses libfuse; import this one only to mount, as it loads the library. libfuse calls
from its own threads. Attributes are filled in and files are read without the dictionaries and byte
strings of the binding: a read goes from the block's descriptor into libfuse's buffer.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lading.client.mount.operations import FileStatus, Operations

# Otherwise the binding takes libfuse 2 where both are installed.
os.environ.setdefault("FUSE_LIBRARY_NAME", "fuse3")
import mfusepy

_NANOSECONDS = 1_000_000_000
# Seconds that the kernel keeps names and attributes: a day if nothing ever changes, else 1.
_FOREVER = 86400.0
_BRIEFLY = 1.0
# Bytes: limit of the kernel's read-ahead at connection; `service` raises it after the mount if it
# may.
_READ_AHEAD = 1 << 20
# Bytes that statfs(2) reports as the size: 1 TiB.
_SPACE = 1 << 40
# Minor version of libfuse 3 that knows these settings.
_THREADS_SINCE = 12
# Threads of libfuse, so many calls at a time; and the number of threads kept when idle.
_THREADS = 64
# All: the start of a thread would delay the call that needs it.
_IDLE_THREADS = 64
# Type and mode of a directory (inode(7)): nobody may write in the mount.
_DIRECTORY = 0o40555
_NO_OPENDIR_SUPPORT = 1 << 24
"""FUSE_NO_OPENDIR_SUPPORT of <linux/fuse.h>: kernels from 5.1 on, which also do without calls of
open (FUSE_NO_OPEN_SUPPORT, 1 << 17).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FuseSettings:
    """Options of a mount. `immutable`: nothing below ever changes, so that the kernel may cache
    forever.
    """

    mountpoint: str
    allow_other: bool = False
    immutable: bool = False


class FuseThread:
    """A thread that serves one mount until it is unmounted."""

    def __init__(
        self,
        operations: Operations,
        settings: FuseSettings,
        *,
        on_mounted: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        self.code = 0
        """Exit code of libfuse; not 0 when it could not mount."""
        self._callbacks = _Callbacks(operations, on_mounted)
        self._settings = settings
        self._on_end = on_end
        self._thread = threading.Thread(target=self._run, name="fuse", daemon=True)

    def start(self) -> None:
        """Start to mount."""
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the end; False if it did not come within `timeout` seconds."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        life = _FOREVER if self._settings.immutable else _BRIEFLY
        # libfuse 3.12 and later log a warning about numbers that the binding does not set.
        threads = {"max_threads": _THREADS, "max_idle_threads": _IDLE_THREADS}
        more = threads if mfusepy.fuse_version_minor >= _THREADS_SINCE else {}
        try:
            _Session(
                self._callbacks,
                self._settings.mountpoint,
                foreground=True,
                fsname="lading",
                subtype="lading",
                ro=True,
                allow_other=self._settings.allow_other,
                uid=os.getuid(),
                gid=os.getgid(),
                entry_timeout=life,
                attr_timeout=life,
                # Missing names are not cached: a collection may be created at any moment.
                negative_timeout=0.0,
                **more,
            )
        except RuntimeError as error:
            self.code = error.args[0] if error.args and isinstance(error.args[0], int) else 1
        finally:
            self._on_end()


class _Callbacks(mfusepy.Operations):  # type: ignore[misc]
    """The callbacks that the binding registers: each method here is a call that the kernel may
    make.
    """

    use_ns = True

    def __init__(self, operations: Operations, on_mounted: Callable[[], None]) -> None:
        self.lading = operations
        self._on_mounted = on_mounted
        self._can_do_without = False
        self.thread_state = threading.local()

    def init_with_config(
        self, conn_info: mfusepy.fuse_conn_info | None, config_3: mfusepy.fuse_config | None
    ) -> None:
        """The mount is established."""
        del config_3
        if conn_info is not None:
            conn_info.max_readahead = _READ_AHEAD
            self._can_do_without = bool(conn_info.capable & _NO_OPENDIR_SUPPORT)
        self._on_mounted()

    def open(self, path: str, flags: int) -> int:
        """Files are not opened or closed: after ENOSYS the kernel sends no more open calls, if it
        supports that.
        """
        del flags
        if self._can_do_without:
            raise OSError(errno.ENOSYS, path)
        return 0

    def opendir(self, path: str) -> int:
        """Open a directory; its names are read by the number returned."""
        return self.lading.open_directory(path)

    def releasedir(self, path: str, fh: int) -> int:
        """Close a directory."""
        del path
        self.lading.close_directory(fh)
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        """A large, empty file system."""
        del path
        return {
            "f_bsize": _READ_AHEAD,
            "f_frsize": 4096,
            "f_blocks": _SPACE // 4096,
            "f_namemax": 255,
        }

    # mfusepy registers a callback only for a method that exists here; `_Session` answers these.

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        """See `_Session.getattr_fuse_3`."""
        del fh
        raise OSError(errno.ENOSYS, path)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """See `_Session.read`."""
        del size, offset, fh
        raise OSError(errno.ENOSYS, path)

    def readdir(self, path: str, fh: int) -> Iterable[str]:
        """See `_Session.readdir_fuse_3`."""
        del fh
        raise OSError(errno.ENOSYS, path)


class _Session(mfusepy.FUSE):  # type: ignore[misc]
    """The binding's session with its three most frequent callbacks replaced."""

    operations: _Callbacks

    def getattr_fuse_3(self, path: bytes, buf: mfusepy.c_stat_p, fip: mfusepy.fuse_fi_p) -> int:
        """stat(2)."""
        del fip
        _fill(buf.contents, self.operations.lading.status(os.fsdecode(path)))
        return 0

    def readdir_fuse_3(
        self,
        path: bytes,
        buf: object,
        filler: Callable[..., int],
        offset: int,
        fip: mfusepy.fuse_fi_p,
        flags: int,
    ) -> int:
        """readdir(3): all names at once."""
        del path, offset, flags
        entry = mfusepy.c_stat()
        for name, mode in (
            (".", _DIRECTORY),
            ("..", _DIRECTORY),
            *self.operations.lading.names(fip.contents.fh),
        ):
            entry.st_mode = mode
            # Not 0: the buffer of libfuse is full.
            if filler(buf, os.fsencode(name), entry, 0, 0):
                break
        return 0

    def read(self, path: bytes, buf: object, size: int, offset: int, fip: mfusepy.fuse_fi_p) -> int:
        """read(2)."""
        del fip
        address = ctypes.cast(buf, ctypes.c_void_p).value  # type: ignore[arg-type]
        if not address:
            return 0
        # The memory of libfuse itself: the bytes are not copied in Python.
        target = memoryview((ctypes.c_char * size).from_address(address)).cast("B")
        return self.operations.lading.read(os.fsdecode(path), target, offset)

    def _wrapper(self, func: Callable[..., int], *args: object, **kwargs: object) -> int:
        """Called for each callback of the kernel."""
        thread_state = self.operations.thread_state
        if not hasattr(thread_state, "state"):
            # A thread that was not created by Python gets a thread state in each call and loses it
            # after. Acquired once more it persists, as these threads do.
            thread_state.state = ctypes.pythonapi.PyGILState_Ensure()
        found: int = super()._wrapper(func, *args, **kwargs)
        return found


def _fill(buffer: mfusepy.c_stat, status: FileStatus) -> None:
    buffer.st_mode = status.mode
    buffer.st_size = status.size
    # Unit of st_blocks: 512 bytes (stat(2)).
    buffer.st_blocks = (status.size + 511) // 512
    buffer.st_nlink = 1
    for moment in (buffer.st_mtimespec, buffer.st_ctimespec, buffer.st_atimespec):
        moment.tv_sec, moment.tv_nsec = divmod(status.modified, _NANOSECONDS)
