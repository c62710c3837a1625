"""A Python interpreter without the names and modules that Windows lacks: `python -m
tests.client.systems.windows` imports every module of the client and prints those that fail.

The names are those whose "Availability" in Python's documentation has no Windows. Behaviour of the
system itself is not shown by it.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import types
import urllib.request
import uuid
import webbrowser
from functools import partial
from typing import Final

import click
import rich.console
import rich.live
import rich.table

from tests.client.systems.bare import Lacking, become_bare
from tests.client.systems.imports import failed_imports
from tests.client.systems.macos import become_macos

MODULES: Final = frozenset(
    {"curses", "fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
)
_OS: Final = (
    "O_CLOEXEC O_DIRECTORY O_DSYNC O_NDELAY O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC SEEK_DATA "
    "SEEK_HOLE chown fchmod fchown fork forkpty fstatvfs getegid geteuid getgid getgrouplist "
    "getgroups getpgid getpriority getresgid getresuid getsid getuid killpg lchown mkfifo mknod "
    "nice openpty posix_spawn pread preadv pwrite pwritev readv sendfile setegid seteuid setgid "
    "setgroups setpgid setpriority setsid setuid statvfs sync sysconf tcgetpgrp ttyname uname "
    "wait waitid writev"
)
_SIGNALS: Final = "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGTSTP SIGUSR1 SIGWINCH"


def become_windows() -> None:
    """Remove the names from this process, and give it the name of the system."""
    # Modules of Python that choose by the system when they are imported.
    before = (
        asyncio, click, rich.console, rich.live, rich.table, multiprocessing.util, subprocess,
        tempfile, urllib.request, uuid, webbrowser,
    )  # fmt: skip
    assert all(before)
    # Loops of events have one, of the system that this really is.
    socket.socketpair = partial(socket.socketpair, socket.AF_UNIX)
    become_macos()
    for module, names in ((os, _OS), (signal, _SIGNALS), (socket, "AF_UNIX")):
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    os.supports_dir_fd.clear()
    os.supports_follow_symlinks.clear()
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Lacking(MODULES))
    # The module of Windows for locks and terminals.
    console = types.ModuleType("msvcrt")
    vars(console).update(LK_NBLCK=2, locking=lambda *_: None)
    sys.modules["msvcrt"] = console
    sys.platform = "win32"


if __name__ == "__main__":
    become_windows()
    become_bare()
    json.dump(failed_imports(), sys.stdout)
