"""State of a server beside the database: wait statuses, supervisors, tunnels, events, live logs.

- Statuses: why each container waits, and when each dispatcher last reported. A dispatcher reports
  changes, and everything again after a broken connection; a server that is alone therefore keeps
  the statuses in memory. Servers that share a database store them there, so that each of them gives
  the same answer. The statuses of a dispatcher that has been silent for longer than SILENCE do not
  count.
- `Supervisors`: their kinds and keys, learned when a supervisor reports that its container runs, or
  opens its tunnel; the kind determines where a live log is.
- `Trees`: a cache of the file trees of large manifests, so that repeated changes of one collection
  do not parse its manifest each time. The key of a tree is the text of its manifest, so that a tree
  never belongs to another text. A lock guards the cache, because manifests are worked on in
  threads.
- `KnownContents`: contents of files and directories of collections, by collection and path.
- `Tunnels`: the latest tunnel of each container's gateway. A gateway opens its tunnel soon after
  its container has started, and again when this server was restarted; a session that comes earlier
  waits for the tunnel for a moment.
- `EventBus`: sends each committed event to each listener of this process (docs/spec/api, section
  Websocket). The queue of a listener is bounded. A listener that does not keep up is dropped, and
  its queue ends: its client lists the records again, as after any broken connection.
- `Spool`: the log that a running container has written so far, in one directory for each container.
  A supervisor appends at the offset that it knows. An append that overlaps the file is cut, one
  that would leave a gap is refused, so that a repeated or reordered call does no harm. When the
  final log is saved, the spool is deleted; the spool of a container whose log was never saved is
  kept for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import re
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from lading import confined
from lading.client.disk_space import lacks_room
from lading.core.bounded_memory import LruMap
from lading.core.containers import sessions
from lading.core.containers.container import Container
from lading.core.containers.disk_space import Amount
from lading.core.containers.lifecycle import Role
from lading.core.data import filetree
from lading.core.data.filetree import FileTree
from lading.core.errors import Conflict, Full, Invalid, TooLarge, Unavailable
from lading.core.quantities import format_time, parse_time
from lading.core.records.schema import Record
from lading.core.scheduling.wait_reasons import WaitReason
from lading.core.values import JsonObject
from lading.net.pipes import Pipe
from lading.net.tunnel import Tunnel
from lading.store import waiting
from lading.store.database import Database, Transaction

SILENCE: Final = timedelta(minutes=3)


class Statuses(Protocol):
    """A store of statuses. Times are texts in the API's format."""

    async def report(
        self, dispatcher_uuid: str, items: Mapping[str, WaitReason | None], now: str
    ) -> None:
        """Store the statuses that a dispatcher reports about containers; None withdraws a
        status.
        """

    async def about(self, tx: Transaction, container_uuid: str, now: str) -> list[WaitReason]:
        """The statuses of a container from dispatchers that have not been silent."""

    async def last_report(self, tx: Transaction) -> str | None:
        """Time of the latest report from any dispatcher; None before the first."""

    async def forget(self, tx: Transaction, container_uuid: str) -> None:
        """Delete the statuses of a container once the transaction is committed."""


class OwnStatuses:
    """Statuses in the memory of the only server process."""

    def __init__(self) -> None:
        self._said: defaultdict[str, dict[str, WaitReason]] = defaultdict(dict)
        self._reported: dict[str, str] = {}

    async def report(
        self, dispatcher_uuid: str, items: Mapping[str, WaitReason | None], now: str
    ) -> None:
        """Keep the statuses."""
        self._reported[dispatcher_uuid] = now
        for uuid, one in items.items():
            if one is not None:
                self._said[uuid][dispatcher_uuid] = one
            elif self._said[uuid].pop(dispatcher_uuid, None) is None or not self._said[uuid]:
                del self._said[uuid]

    async def about(self, tx: Transaction, container_uuid: str, now: str) -> list[WaitReason]:
        """The statuses of the container that count."""
        del tx
        since = believed_since(now)
        said = self._said.get(container_uuid, {})
        return [
            one for dispatcher, one in sorted(said.items()) if self._reported[dispatcher] >= since
        ]

    async def last_report(self, tx: Transaction) -> str | None:
        """Time of the latest report from any dispatcher."""
        del tx
        return max(self._reported.values(), default=None)

    async def forget(self, tx: Transaction, container_uuid: str) -> None:
        """Delete the statuses after the commit."""
        tx.after_commit(lambda: self._drop(container_uuid))

    def _drop(self, container_uuid: str) -> None:
        self._said.pop(container_uuid, None)


class SharedStatuses:
    """Statuses in the database that several server processes share."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def report(
        self, dispatcher_uuid: str, items: Mapping[str, WaitReason | None], now: str
    ) -> None:
        """Store the statuses."""
        async with self._database.writing() as tx:
            await waiting.note_report(tx, dispatcher_uuid, now)
            await waiting.put_statuses(
                tx, dispatcher_uuid, {uuid: one for uuid, one in items.items() if one is not None}
            )
            await waiting.take_back_statuses(
                tx, dispatcher_uuid, [uuid for uuid, one in items.items() if one is None]
            )

    async def about(self, tx: Transaction, container_uuid: str, now: str) -> list[WaitReason]:
        """The statuses of the container that count."""
        return await waiting.statuses_of(tx, container_uuid, since=believed_since(now))

    async def last_report(self, tx: Transaction) -> str | None:
        """Time of the latest report from any dispatcher."""
        return await waiting.last_report(tx)

    async def forget(self, tx: Transaction, container_uuid: str) -> None:
        """Delete the statuses in the transaction."""
        await waiting.forget_statuses(tx, container_uuid)


def believed_since(now: str) -> str:
    """Time of the oldest report that counts: dispatchers without a later one have been silent."""
    return format_time(parse_time(now) - SILENCE)


# More than the containers that one server is likely to have running. A supervisor that is dropped
# is asked again (`container_access.log_streaming`).
MOST_SUPERVISORS: Final = 16384


class SupervisorKind(Enum):
    """LADING posts its log to the server. ARVADOS, which is crunch-run, serves its log at its
    gateway.
    """

    LADING = "lading"
    ARVADOS = "arvados"


@dataclass(frozen=True, slots=True)
class KnownSupervisor:
    """Kind and key of one supervisor.

    `key` is the key that the gateway of a crunch-run shares with the server if it does not follow
    from the root token: Arvados' dispatchers derive it from their own token.
    """

    kind: SupervisorKind
    key: str = ""


class Supervisors:
    """Supervisors by container and lock count: a container that is locked again has another
    supervisor.

    Of more than `most` containers, those noted first are dropped.
    """

    def __init__(self, *, most: int = MOST_SUPERVISORS) -> None:
        self._most = most
        self._known: dict[tuple[str, int], KnownSupervisor] = {}

    def find(self, container: Container) -> KnownSupervisor | None:
        """The container's present supervisor, or None if it has not reported to this server."""
        return self._known.get((container.uuid, container.lock_count))

    def note_writer(self, container: Container, role: Role, token: str) -> None:
        """Note the supervisor that reported with `token`: crunch-run has the token of its
        dispatcher, a supervisor of Lading a token of its own.
        """
        if role is Role.SUPERVISOR:
            self.note(container, SupervisorKind.LADING)
        elif role is Role.HOLDER:
            self.note(
                container, SupervisorKind.ARVADOS, key=sessions.container_key(token, container.uuid)
            )

    def note(self, container: Container, kind: SupervisorKind, *, key: str = "") -> None:
        """Note the container's present supervisor. An earlier key stays unless a new one is
        given.
        """
        earlier = self.find(container)
        self._known[container.uuid, container.lock_count] = KnownSupervisor(
            kind, key or (earlier.key if earlier is not None else "")
        )
        while len(self._known) > self._most:
            del self._known[next(iter(self._known))]


# Characters below which a manifest is parsed each time, which takes a millisecond or so.
_SMALL: Final = 1 << 16
# Characters of all cached manifests; a tree takes some times the memory of its text.
_KEPT: Final = 32 << 20


class Trees:
    """Trees by manifest text, of at most `limit` characters in all; texts of less than `small`
    characters are parsed each time.
    """

    def __init__(self, *, limit: int = _KEPT, small: int = _SMALL) -> None:
        self._limit, self._small = limit, small
        self._lock = threading.Lock()
        self._trees = LruMap[tuple[int, bytes], FileTree](limit)

    def read(self, text: str) -> FileTree:
        """The tree of a manifest. Raises Malformed."""
        if len(text) < self._small:
            return filetree.from_manifest(text)
        key = _key(text)
        with self._lock:
            found = self._trees.get(key)
        if found is not None:
            return found
        tree = filetree.from_manifest(text)
        self._keep(key, tree)
        return tree

    def note(self, text: str, tree: FileTree) -> None:
        """Keep the tree from which `filetree.to_manifest` made a text."""
        if len(text) >= self._small:
            self._keep(_key(text), tree)

    def _keep(self, key: tuple[int, bytes], tree: FileTree) -> None:
        if key[0] <= self._limit:
            with self._lock:
                self._trees.put(key, tree, key[0])


def _key(text: str) -> tuple[int, bytes]:
    return len(text), hashlib.sha256(text.encode()).digest()


# Paths whose contents are remembered; each takes some 300 bytes.
_CONTENTS: Final = 100_000


class KnownContents:
    """Contents of files and directories of collections, by portable data hash and path, at most
    `limit`. `lock` is held while new ones are found: that takes a block of memory.
    """

    def __init__(self, *, limit: int = _CONTENTS) -> None:
        self.known = LruMap[tuple[str, str], JsonObject](limit)
        self.lock = asyncio.Lock()


# Tunnels of one server, each a connection with its file descriptor.
MOST = 4096
# Seconds that a session waits for a tunnel: when one breaks, the first attempts of the supervisor
# come after 0.5 and 1 s.
PATIENCE = 3.0


class Tunnels:
    """The open tunnels, by container uuid."""

    def __init__(self, *, most: int = MOST, patience: float = PATIENCE) -> None:
        self._most = most
        self.patience = patience
        self._open: dict[str, Tunnel] = {}
        self._awaited: dict[str, list[asyncio.Event]] = {}

    async def serve(self, uuid: str, pipe: Pipe) -> None:
        """Keep a tunnel until it ends; an earlier one of the same container is closed."""
        earlier = self._open.get(uuid)
        mine = self._open[uuid] = Tunnel(pipe, connected=False)
        for one in self._awaited.get(uuid, ()):
            one.set()
        if earlier is not None:
            await earlier.close()
        try:
            await mine.run()
        finally:
            if self._open.get(uuid) is mine:
                del self._open[uuid]

    def check_room(self, uuid: str) -> None:
        """Check the number of tunnels. Raises Unavailable when there are too many."""
        if uuid not in self._open and len(self._open) >= self._most:
            raise Unavailable(
                f"there are {self._most} tunnels to containers, "
                "as many as API.MaxGatewayTunnels allows; try again"
            )

    def has(self, uuid: str) -> bool:
        """Whether the container has a tunnel."""
        return uuid in self._open

    async def open(self, uuid: str) -> Pipe:
        """A connection to the gateway of a container. Raises Unavailable when no tunnel is opened
        in time.
        """
        if uuid not in self._open:
            await self._wait(uuid)
        tunnel = self._open.get(uuid)
        if tunnel is None:
            raise Unavailable("the tunnel to the container is down; try again in a moment")
        return await tunnel.open()

    async def _wait(self, uuid: str) -> None:
        coming = asyncio.Event()
        waiting = self._awaited.setdefault(uuid, [])
        waiting.append(coming)
        try:
            # None came in time; the caller raises the error.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(coming.wait(), self.patience)
        finally:
            waiting.remove(coming)
            if not waiting:
                del self._awaited[uuid]


# Events that a listener may be behind. A batch of some hundred submissions fits.
QUEUE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """A log row as listeners see it; `owner_uuid` decides which users may see it."""

    id: int
    uuid: str
    object_uuid: str
    object_owner_uuid: str
    object_kind: str | None
    event_type: str
    event_at: str
    properties: Record


class Listener:
    """One queue of events. It ends when it overflows."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[LogEvent] = asyncio.Queue(QUEUE)
        self.lost = False

    def put(self, event: LogEvent) -> None:
        """Add an event, or drop the listener when its queue is full."""
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            self.lost = True

    @property
    def waiting(self) -> int:
        """Number of events in the queue."""
        return self._queue.qsize()

    async def get(self) -> LogEvent:
        """The next event."""
        return await self._queue.get()


class EventBus:
    """Hands each event to each listener."""

    def __init__(self) -> None:
        self.listeners: set[Listener] = set()
        self.token_changes = 0
        """Number of changes and deletions of tokens here; listeners do not get those events."""

    def note_token_change(self) -> None:
        """Note that a token was changed or deleted: the tokens of listeners must be looked up
        again.
        """
        self.token_changes += 1

    def publish(self, event: LogEvent) -> None:
        """Put an event into the queue of each listener."""
        for listener in self.listeners:
            listener.put(event)

    @property
    def listening(self) -> int:
        """Number of listeners."""
        return len(self.listeners)

    @property
    def queues(self) -> list[int]:
        """Number of events in the queue of each listener."""
        return sorted(one.waiting for one in self.listeners)

    @contextmanager
    def listen(self) -> Iterator[Listener]:
        """A listener for the events that are published while the context lasts."""
        listener = Listener()
        self.listeners.add(listener)
        try:
            yield listener
        finally:
            self.listeners.discard(listener)


# Names of log files; no path can be made of them.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# Bytes of one live log; the final log, which the supervisor saves, is not limited by this.
MAX_FILE = 1 << 30


class Spool:
    """Live logs below one directory. They leave the reserve `kept` of its disk free."""

    def __init__(self, directory: Path, *, kept: Amount) -> None:
        self._directory, self._kept = directory, kept

    def append(self, container_uuid: str, name: str, data: bytes, *, offset: int) -> int:
        """Write `data` at `offset`; the new length of the file.

        Raises Invalid for a bad name, Conflict when bytes before `offset` are missing, TooLarge;
        Full or Unavailable when the disk fails.
        """
        path = self._file(container_uuid, name)
        try:
            return self._append(path, data, offset)
        except OSError as error:
            kind = Full if error.errno in (errno.ENOSPC, errno.EDQUOT) else Unavailable
            raise kind(f"live/{name}: cannot be written: {error.strerror}") from error

    def _append(self, path: Path, data: bytes, offset: int) -> int:
        name = path.name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        why = lacks_room(path.parent, self._kept, need=len(data))
        if why:
            raise Full(f"live/{name}: {why}")
        with path.open("ab") as file:
            length = file.tell()
            if offset > length:
                raise Conflict(
                    f"live/{name}: offset {offset} leaves a gap: {length} bytes are there"
                )
            if offset + len(data) > MAX_FILE:
                raise TooLarge(f"live/{name}: a live log may have {MAX_FILE} bytes")
            file.write(data[length - offset :])
            return max(length, offset + len(data))

    def names(self, container_uuid: str) -> list[str]:
        """The files of a container."""
        directory = self._directory / container_uuid
        return sorted(one.name for one in directory.iterdir()) if directory.is_dir() else []

    def open(self, container_uuid: str, name: str) -> BinaryIO | None:
        """A file of a container, opened for reading; None if it does not exist."""
        if not _NAME.fullmatch(name):
            return None
        try:
            return (self._directory / container_uuid / name).open("rb")
        except OSError:
            return None

    def remove(self, container_uuid: str) -> None:
        """Delete the container's files."""
        # The sweep removes it later.
        with suppress(OSError):
            confined.remove(self._directory / container_uuid)

    def expire(self, before: float) -> int:
        """Delete the files of containers that were last written before a time (seconds since 1970);
        the number of containers.
        """
        old = [one for one in self._directory.glob("*/") if one.stat().st_mtime < before]
        for directory in old:
            # The next sweep tries again.
            with suppress(OSError):
                confined.remove(directory)
        return len(old)

    def _file(self, container_uuid: str, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise Invalid(
                f"live/{name}: not a file name: letters, digits, dot, dash and underscore are"
            )
        return self._directory / container_uuid / name
