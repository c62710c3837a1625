"""A Python interpreter without the names that macOS lacks, to see on Linux that the client needs
none of them: `pytest -p tests.client.systems.macos`, or `python -m tests.client.systems.macos`,
which imports every module of the client.

The names are those whose "Availability" in Python's documentation has no macOS. It is a simulation:
behaviour of the system itself, such as its file system, is not shown by it.
"""

from __future__ import annotations

import asyncio
import ctypes.util
import fcntl
import json
import mmap
import os
import resource
import select
import selectors
import signal
import socket
import sys
import tempfile
import types
import urllib.request
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tests.client.systems.imports import failed_imports

LACKING: Final[Mapping[types.ModuleType, str]] = MappingProxyType(
    {
        os: "CLONE_NEWNS CLONE_NEWPID CLONE_NEWUSER EFD_CLOEXEC MFD_ALLOW_SEALING MFD_CLOEXEC "
        "O_DIRECT O_LARGEFILE O_NOATIME O_PATH O_RSYNC O_TMPFILE POSIX_FADV_DONTNEED "
        "POSIX_FADV_NORMAL POSIX_FADV_SEQUENTIAL POSIX_FADV_WILLNEED P_PIDFD RWF_NOWAIT "
        "SCHED_BATCH SCHED_IDLE XATTR_CREATE copy_file_range eventfd fdatasync getrandom "
        "getresgid getresuid getxattr listxattr memfd_create pidfd_open pipe2 posix_fadvise "
        "posix_fallocate removexattr sched_getaffinity sched_setaffinity setns setresgid "
        "setresuid setxattr splice unshare",
        select: "EPOLLERR EPOLLET EPOLLEXCLUSIVE EPOLLHUP EPOLLIN EPOLLOUT EPOLLRDHUP epoll",
        socket: "AF_ALG AF_NETLINK AF_PACKET AF_VSOCK IP_FREEBIND MSG_CMSG_CLOEXEC SOCK_CLOEXEC "
        "SOCK_NONBLOCK SO_BINDTODEVICE SO_DOMAIN SO_INCOMING_CPU SO_MARK SO_PEERCRED SO_PEERSEC "
        "SO_PROTOCOL TCP_QUICKACK TCP_USER_TIMEOUT",
        fcntl: "DN_CREATE F_ADD_SEALS F_GETPIPE_SZ F_GETSIG F_GET_SEALS F_NOTIFY F_SEAL_GROW "
        "F_SEAL_SEAL F_SEAL_SHRINK F_SEAL_WRITE F_SETPIPE_SZ F_SETSIG",
        signal: "SIGCLD SIGPOLL SIGPWR SIGRTMAX SIGRTMIN SIGSTKFLT pidfd_send_signal sigtimedwait "
        "sigwaitinfo",
        resource: "RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_OFILE RLIMIT_RTPRIO RLIMIT_RTTIME "
        "RLIMIT_SIGPENDING RUSAGE_THREAD prlimit",
        mmap: "MAP_DENYWRITE MAP_EXECUTABLE MAP_POPULATE",
    }
)


def become_macos() -> None:
    """Remove the names from this process, and give it the name of the system."""
    for module, names in LACKING.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    # Asyncio asks for the default at each new loop; poll(2) is there.
    selectors.DefaultSelector = selectors.PollSelector  # type: ignore[misc, assignment]
    # The settings of macOS for proxies: none.
    proxies = types.ModuleType("_scproxy")
    vars(proxies).update(dict.fromkeys(("_get_proxy_settings", "_get_proxies"), dict))
    sys.modules["_scproxy"] = proxies
    # Modules of Python that decide by these names when they are imported.
    tempfile._O_TMPFILE_WORKS = False  # type: ignore[attr-defined]
    assert all((asyncio, ctypes.util, urllib.request))
    sys.platform = "darwin"


def pytest_configure() -> None:
    """As a plugin of pytest."""
    become_macos()


if __name__ == "__main__":
    become_macos()
    json.dump(failed_imports(), sys.stdout)
