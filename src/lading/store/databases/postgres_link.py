"""Connections to PostgreSQL: those for reads, the pair for writes, and their errors.

asyncpg is used without its pool, which resets a connection after every use and so doubles the
statements. A connection of a cancelled task is in an unknown state and is closed.

Writers take turns, so a commit does not wait for the disk. The writer then waits for one shared
flush on its second connection: a small durable transaction also makes all earlier commits durable.
A crash of the server ends both connections, so a lost commit is never acknowledged.

Errors name the cause and the remedy, as classes of `core.errors`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import asyncpg
from asyncpg import InterfaceError, InvalidCachedStatementError, PostgresError
from asyncpg.exceptions import DataError as WrongArgument
from asyncpg.exceptions import InternalClientError

from lading.core.errors import Corrupt, Full, Invalid, LadingError, Unavailable
from lading.store.database import TransactionInterrupted, settle

Connection: TypeAlias = Any
"""An asyncpg connection; the library has no types."""
# Seconds until a connection must be established.
PATIENCE: Final = 10.0
# Connection attempts while the server restarts; the pauses are 0.1, 0.2 and 0.4 s.
ATTEMPTS: Final = 4
# Keys of libpq -> arguments of asyncpg.
_KEYS: Final = {
    "host": "host",
    "port": "port",
    "dbname": "database",
    "user": "user",
    "password": "password",
}
# Prepared statements that are cached per connection.
_STATEMENTS: Final = 500
# A server may be configured without waiting for the disk; then acknowledged changes could be lost.
_WAIT_FOR_DISK: Final = (
    "SELECT set_config('synchronous_commit', 'on', false)"
    " WHERE current_setting('synchronous_commit') = 'off'"
)
# A transactional message: a record in the write-ahead log, whose commit flushes all before it.
_FLUSH: Final = "SELECT pg_logical_emit_message(true, 'lading', '')"
# jit: compiling costs more than these short statements. The timeouts end a transaction that a lost
# process left open, and a wait for its lock.
_SETTINGS: Final = {
    "application_name": "lading",
    "jit": "off",
    "idle_in_transaction_session_timeout": "60s",
    "lock_timeout": "30s",
}
# The internal error is what asyncpg raises when the server ends a connection at an awkward moment.
FAULTS: Final = (
    PostgresError,
    InterfaceError,
    InternalClientError,
    OSError,
    TimeoutError,
    UnicodeEncodeError,
)
# SQLSTATE (PostgreSQL manual, appendix A): characters not representable.
_NUL: Final = ("22021", "22P05")
# Invalid authorization; no such database.
_NO_SUCH: Final = ("28", "3D")
# Connection exceptions; the server is shut down.
_LOST: Final = ("08", "57P")


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """Address of the database, as in `PostgreSQL.Connection`: host (a directory for a socket),
    port, dbname, user, ...
    """

    keys: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, connection: Mapping[str, str | int]) -> PostgresAddress:
        """Check the keys. Raises Invalid naming one that is unknown."""
        for name in connection:
            if name not in (*_KEYS, "sslmode"):
                raise Invalid(
                    f"configuration: unknown key PostgreSQL.Connection.{name};"
                    f" known: {', '.join(_KEYS)}"
                )
        return cls(tuple((name, str(value)) for name, value in connection.items() if value != ""))

    def __str__(self) -> str:
        """Host, port and name, for messages: nothing secret."""
        known = dict(self.keys)
        return (
            f"{known.get('host', 'localhost')}:{known.get('port', 5432)}/{known.get('dbname', '')}"
        )

    async def connect(self, **settings: str) -> Connection:
        """A new connection. Raises Unavailable, or Invalid when it is refused for good."""
        keys = dict(self.keys)
        arguments: dict[str, Any] = {
            _KEYS[name]: value for name, value in keys.items() if name in _KEYS
        }
        if "sslmode" in keys:
            arguments["ssl"] = keys["sslmode"]
        try:
            connection = await asyncpg.connect(
                **arguments,
                timeout=PATIENCE,
                statement_cache_size=_STATEMENTS,
                # 0: cached without a time limit.
                max_cached_statement_lifetime=0,
                server_settings={**_SETTINGS, **settings},
            )
            # Numbers of JSON, exact and without Decimal.
            await connection.set_type_codec(
                "numeric", schema="pg_catalog", encoder=repr, decoder=read_number, format="text"
            )
        except ValueError as error:
            raise Invalid(f"configuration: PostgreSQL.Connection: {error}") from error
        except FAULTS as error:
            raise cannot_connect(error, str(self)) from error
        return connection

    async def reach(self, **settings: str) -> Connection:
        """A new connection, after several attempts if the server restarts."""
        for attempt in range(1, ATTEMPTS):
            try:
                return await self.connect(**settings)
            except Unavailable:
                # A server that restarts refuses connections for a second or so.
                await asyncio.sleep(0.05 * 2**attempt)
        return await self.connect(**settings)


def read_number(number: str) -> int | float:
    """A value of type numeric; exact where it is a whole number."""
    # Any other character is a point or an exponent.
    return float(number) if set(number) - set("-0123456789") else int(number)


class PostgresReaders:
    """Pool of at most `size` connections for reads; the last used one is taken first."""

    def __init__(self, address: PostgresAddress, size: int) -> None:
        self._address = address
        self._idle: list[Connection] = []
        self._room = asyncio.Semaphore(size)

    async def take(self) -> Connection:
        """A connection that was open when it was last used, or a new one."""
        # Waits while all connections are in use.
        await self._room.acquire()
        try:
            while self._idle:
                found = self._idle.pop()
                if not found.is_closed():
                    return found
            return await self._address.reach()
        # Also on cancellation: otherwise the pool would shrink.
        except BaseException:
            self._room.release()
            raise

    def give(self, connection: Connection, *, spoilt: bool) -> None:
        """Return a connection to the pool, or close it."""
        self._room.release()
        if spoilt:
            connection.terminate()
        elif not connection.is_closed():
            self._idle.append(connection)

    async def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            await close(self._idle.pop())


class PostgresWriter:
    """The connection for writes and the connection for flushes."""

    def __init__(self, connection: Connection, flusher: Connection) -> None:
        self.connection = connection
        self._flusher = flusher
        self._waiting: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, address: PostgresAddress) -> PostgresWriter:
        """Open both connections."""
        # Off: COMMIT returns without waiting for the disk; `durable` waits.
        connection = await address.reach(synchronous_commit="off")
        try:
            flusher = await address.reach()
            # Set for this connection only.
            await flusher.execute(_WAIT_FOR_DISK)
        except BaseException:
            connection.terminate()
            raise
        return cls(connection, flusher)

    @property
    def closed(self) -> bool:
        """Whether either connection is known to be closed."""
        return bool(self.connection.is_closed() or self._flusher.is_closed())

    async def durable(self) -> None:
        """Wait until all commits are on disk. Raises Unavailable when that is unknown."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        # Appended before the task starts: a flush covers all commits that were complete when it
        # began.
        self._waiting.append(waiter)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._flush(), name="postgresql flush")
        await waiter

    def drop(self) -> None:
        """Close the connection for writes at once; the server rolls back."""
        self.connection.terminate()

    async def close(self) -> None:
        """Finish open work and close both connections."""
        if self._task is not None:
            await self._task
        await close(self.connection)
        await close(self._flusher)

    async def _flush(self) -> None:
        # Waiters that arrive during a flush need another one.
        while self._waiting:
            served, self._waiting = self._waiting, []
            try:
                await self._flusher.execute(_FLUSH)
            except FAULTS as error:
                settle(served, unknown(error))
            else:
                settle(served, None)


def unknown(error: Exception) -> Unavailable:
    """The error for a connection that ended between a commit and the confirmation that it is on
    disk.
    """
    return Unavailable(f"PostgreSQL: it is not known whether that is stored ({error}); look again")


async def close(connection: Connection) -> None:
    """Close a connection, with a protocol message if possible."""
    # After 2 s without an answer, close without the protocol message.
    try:
        await connection.close(timeout=2)
    except FAULTS:
        connection.terminate()


def translate(error: Exception) -> LadingError:
    """The error for a failed statement."""
    fault = " ".join(str(error).split())
    if isinstance(error, UnicodeEncodeError):
        return Invalid("a text is not Unicode: it has half of a surrogate pair")
    if isinstance(error, InvalidCachedStatementError):
        return TransactionInterrupted(f"PostgreSQL: the tables have changed ({fault}); try again")
    if isinstance(error, PostgresError):
        return _by_state(
            str(error.sqlstate or ""), fault, str(getattr(error, "constraint_name", None) or "")
        )
    if isinstance(error, WrongArgument):
        return Invalid(f"a value does not fit: {fault}")
    return _lost(fault)


def cannot_connect(error: Exception, where: str) -> LadingError:
    """The error for a failed connection; Invalid when the configuration is the cause."""
    state = str(getattr(error, "sqlstate", "") or "")
    fault = " ".join(str(error).split()) or type(error).__name__
    if state.startswith(_NO_SUCH):
        return Invalid(
            f"PostgreSQL at {where}: {fault}; check PostgreSQL.Connection in the configuration"
        )
    return Unavailable(
        f"PostgreSQL at {where}: cannot be reached ({fault});"
        " start it, or check PostgreSQL.Connection"
    )


# Beginnings of SQLSTATE, the error, and its text; the first line that fits counts. Names of the
# states: appendix A of the PostgreSQL manual.
_OF_STATES: Final[tuple[tuple[tuple[str, ...], type[LadingError], str], ...]] = (
    # Serialization failure; deadlock.
    (
        ("40001", "40P01"),
        TransactionInterrupted,
        "PostgreSQL: a concurrent transaction came first ({fault}); try again",
    ),
    # Unique violation.
    (("23505",), Invalid, "duplicate key value violates unique constraint: {constraint}"),
    (_NUL, Invalid, "a text holds a NUL character, which cannot be stored"),
    # Numeric value out of range.
    (("22003",), Invalid, "a number is too large: {fault}"),
    # Data exceptions; integrity violations.
    (("22", "23"), Invalid, "a value does not fit: {fault}"),
    # Program limit exceeded: an index entry has at most a third of a page.
    (("54000",), Invalid, "a text is too long to be looked up by: {fault}"),
    # Disk full.
    (
        ("53100",),
        Full,
        "PostgreSQL: no room to store records ({fault}); free some space on its disk",
    ),
    # Internal error: it may have any cause.
    (("XX000",), Unavailable, "PostgreSQL cannot do that now: {fault}"),
    # Data corrupted, index corrupted.
    (
        ("XX0",),
        Corrupt,
        "PostgreSQL: is damaged ({fault}); stop all servers and restore it from a backup",
    ),
    # Lock not available: `lock_timeout` has passed.
    (("55P03",), Unavailable, "PostgreSQL: other servers keep changing it; try again later"),
    (("",), Unavailable, "PostgreSQL cannot do that now: {fault}"),
)


def _by_state(state: str, fault: str, constraint: str) -> LadingError:
    if state.startswith(_LOST):
        return _lost(fault)
    kind, sentence = next(
        (kind, sentence) for states, kind, sentence in _OF_STATES if state.startswith(states)
    )
    return kind(sentence.format(fault=fault, constraint=constraint or fault))


def _lost(fault: str) -> LadingError:
    return TransactionInterrupted(f"PostgreSQL: the connection was lost ({fault}); try again")
