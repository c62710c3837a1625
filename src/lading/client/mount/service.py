"""One mount from start to end: the server, the cache, the kernel; its process and its mount point.

In a separate process (`python -m lading.client.mount`) the settings are JSON on standard input, as
they contain a token; one line of JSON on standard output reports that it is mounted, or the fault.
The lines are those of `net.rpc`. With `tied`, the process ends when its standard input does, so
that it never outlives its parent. The functions that start and end such a process block.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.caches.content_caches import BlockFiles
from lading.client.fd_receiving import FdReceiver
from lading.client.mount.layout import MountLayout, MountView
from lading.client.mount.mount_points import check_fuse, check_point, read_ahead, unmount
from lading.client.mount.nodes import MountedCollections
from lading.client.mount.open_blocks import LoopBridge, OpenBlocks
from lading.client.mount.operations import Operations
from lading.client.record_events import RecordEvent, events
from lading.client.retry import RetryPolicy
from lading.client.transport import HttpTransport, Transport
from lading.core.errors import LadingError, RequestError, Unavailable
from lading.net import rpc

# Seconds until libfuse must have mounted.
_MOUNT_TIME = 10.0
# Seconds to wait for the thread of libfuse after unmounting.
_END_TIME = 3.0
# Attempts: in effect without limit, as the time limit ends the retries.
_MANY = 1_000_000
# Read-ahead of the kernel, 4 MiB instead of 128 KiB.
_READ_AHEAD_KIB = 4096
_logger = logging.getLogger("lading.mount")
# Seconds until the mount must be established, and for its orderly end; then it is killed.
_START_TIME = 60.0
_PROCESS_END_TIME = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MountSettings:
    """One mount. The server is at `api_socket` or `api_url`; sizes are bytes, times seconds."""

    mountpoint: str
    token: str = field(repr=False)
    cache_directory: str
    api_socket: str = ""
    api_url: str = ""
    api_ca_file: str = ""
    api_insecure: bool = False
    lender: str = ""
    """Socket on which the server lends blocks, if it is on this machine (`client.fd_receiving`)."""
    view: MountView = MountView.ALL
    id: str = ""
    """The collection or project, for these views."""
    cache_size: int = 10 << 30
    allow_other: bool = False
    timeout: float = 60.0
    """Time limit of a request to the server; then the file system returns an error."""
    namespace: int = -1
    """A descriptor of the mount namespace to mount in; -1: the current one."""
    tied: bool = False


def open_transport(settings: MountSettings) -> Transport:
    """A transport to the server."""
    if settings.api_socket:
        return HttpTransport(unix_socket=settings.api_socket)
    verify = Path(settings.api_ca_file) if settings.api_ca_file else not settings.api_insecure
    return HttpTransport(settings.api_url, verify=verify)


class MountService:
    """A mount that is being served."""

    def __init__(self, settings: MountSettings, files: BlockFiles, operations: Operations) -> None:
        self.ended = asyncio.Event()
        """Set when the mount has ended, for example by an unmount from outside."""
        self._settings = settings
        self._files = files
        self._operations = operations

    def statistics(self) -> dict[str, object]:
        """Its statistics so far, as plain values."""
        cache = self._files.counts
        return self._operations.counts.plain() | {
            "blocks_found": cache.hits,
            "blocks_lent": cache.lent,
            "blocks_fetched": cache.fetched,
            "bytes_fetched": cache.fetched_bytes,
            "blocks_not_kept": cache.not_kept,
            "blocks_damaged": cache.damaged,
        }


@asynccontextmanager
async def mounted(settings: MountSettings, transport: Transport) -> AsyncGenerator[MountService]:
    """Mount; unmount when the context is left. Raises LadingError, saying what to do, when it
    cannot be mounted.
    """
    check_fuse()
    directory = Path(settings.mountpoint)
    check_point(directory)
    # Retries end before the time limit of the calls, so that the caller gets the reason and not a
    # timeout.
    policy = RetryPolicy(attempts=_MANY, cap=5.0, give_up_after=settings.timeout * 0.75)
    api = ApiClient(transport, settings.token, retry=policy, timeout=settings.timeout)
    blocks = BlockClient(transport, settings.token, retry=policy)
    layout = MountLayout(MountedCollections(api))
    top = await layout.top(settings.view, settings.id)
    loop = asyncio.get_running_loop()
    bridge = LoopBridge(loop, settings.timeout)
    borrow = FdReceiver(Path(settings.lender), settings.token) if settings.lender else None
    files = BlockFiles(
        Path(settings.cache_directory), settings.cache_size, fetch=blocks.save, borrow=borrow
    )
    opened = OpenBlocks(files, bridge)
    mount = MountService(settings, files, Operations(top, opened, bridge))
    # The content of portable data hashes never changes, so that no events are needed.
    following = (
        asyncio.create_task(_follow(api, layout), name="events")
        if settings.view is not MountView.BY_PDH
        else None
    )
    try:
        async with _in_kernel(mount, settings, loop):
            yield mount
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        await opened.close()


@asynccontextmanager
async def _in_kernel(
    mount: MountService, settings: MountSettings, loop: asyncio.AbstractEventLoop
) -> AsyncGenerator[None]:
    try:
        # Imported here: it loads the library, which may be absent.
        from lading.client.mount.fuse import FuseSettings, FuseThread
    except (OSError, AttributeError) as error:
        raise Unavailable(f"libfuse 3 is not installed: apt install fuse3 ({error})") from error
    mounted = asyncio.Event()
    thread = FuseThread(
        mount._operations,
        FuseSettings(
            mountpoint=settings.mountpoint,
            allow_other=settings.allow_other,
            immutable=settings.view is MountView.BY_PDH,
        ),
        on_mounted=_from_thread(loop, mounted.set),
        on_end=_from_thread(loop, mount.ended.set),
    )
    thread.start()
    try:
        await _first(mounted, mount.ended, limit=_MOUNT_TIME)
        if not mounted.is_set():
            why = (
                f"libfuse ended with {thread.code}"
                if mount.ended.is_set()
                else "the kernel does not answer"
            )
            raise Unavailable(f"{settings.mountpoint}: cannot be mounted: {why}")
        # Fewer calls for the same bytes, some of them in parallel.
        read_ahead(Path(settings.mountpoint), _READ_AHEAD_KIB)
        yield
    finally:
        await _take_away(Path(settings.mountpoint), thread.join, mount.ended)


async def _take_away(directory: Path, join: Callable[[float], bool], ended: asyncio.Event) -> None:
    if not ended.is_set():
        try:
            await asyncio.to_thread(unmount, directory)
        except LadingError as error:
            _logger.warning("unmount: %s", error.message)
    # An open file keeps the connection; it ends with this process.
    await asyncio.to_thread(join, _END_TIME)


async def _follow(api: ApiClient, layout: MountLayout) -> None:
    try:
        async with aclosing(events(api)) as changes:
            async for change in changes:
                if isinstance(change, RecordEvent):
                    layout.change(change)
                else:
                    layout.expire()
    except LadingError as error:
        _logger.warning("events: %s; changes are seen some seconds later", error.message)


async def _first(*events: asyncio.Event, limit: float) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


def _from_thread(loop: asyncio.AbstractEventLoop, action: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        # The loop may be closed when a mount that was in use ends.
        if not loop.is_closed():
            loop.call_soon_threadsafe(action)

    return call


def launch(
    settings: MountSettings,
    *,
    log: int | IO[bytes] | None = None,
    pass_fds: Sequence[int] = (),
    limit: float = _START_TIME,
) -> subprocess.Popen[bytes]:
    """Start a process and wait until it has mounted. Its log goes to `log` (None: our standard
    error).

    Unless the settings are `tied`, it continues when this process ends. Raises Unavailable with its
    reason.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "lading.client.mount"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        # Ctrl-C must reach only the parent, which then ends the mount.
        start_new_session=True,
        pass_fds=pass_fds,
    )
    try:
        _tell(process, settings)
        answer = _answer(process, limit)
    except BaseException:
        process.kill()
        finish(process)
        raise
    if "error" in answer:
        finish(process)
        raise Unavailable(str(answer["error"]))
    return process


def finish(process: subprocess.Popen[bytes], *, limit: float = _PROCESS_END_TIME) -> dict[str, Any]:
    """End the mount; return its statistics, {} if it was killed after `limit` seconds.
    Idempotent.
    """
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    return wait(process, limit=limit)


def wait(process: subprocess.Popen[bytes], *, limit: float | None = None) -> dict[str, Any]:
    """Wait for the end of the process, which is killed after `limit` seconds; return its
    statistics.
    """
    if process.stdout is None or process.stdout.closed:
        return {}
    # Closing standard input would end a tied mount, and `communicate` closes it if it knows it.
    stdin, process.stdin = process.stdin, None
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {}
    finally:
        process.stdin = stdin
        if stdin is not None and process.returncode is not None:
            stdin.close()
    for line in (output or b"").splitlines():
        statistics = rpc.read_object(line).get("statistics")
        if isinstance(statistics, dict):
            return statistics
    return {}


def _tell(process: subprocess.Popen[bytes], settings: MountSettings) -> None:
    assert process.stdin is not None
    try:
        rpc.write_line(process.stdin.fileno(), settings)
        if not settings.tied:
            process.stdin.close()
            process.stdin = None
    except BrokenPipeError as error:
        raise Unavailable("the process of the mount ended at once") from error


def _answer(process: subprocess.Popen[bytes], limit: float) -> dict[str, Any]:
    assert process.stdout is not None
    try:
        answer = rpc.read_line(process.stdout.fileno(), dict[str, Any], timeout=limit)
    except TimeoutError as error:
        raise Unavailable(f"nothing was mounted within {limit:g} s") from error
    except RequestError:
        answer = None
    if not answer:
        raise Unavailable("the process of the mount ended at once; the reason is in its log")
    return answer
