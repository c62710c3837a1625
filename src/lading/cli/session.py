"""The connection of commands to the server; made in one place, so that tests can replace it.

A command is an async function with a `CliSession`; `with_session` opens the session, runs the
function in an event loop, and closes the session in any case.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

import click
import msgspec

from lading.cli import display
from lading.cli.interruption import run_in_loop
from lading.core.errors import LadingError, Unavailable

# The clients are imported when a session is opened: help and completion need none.
if TYPE_CHECKING:
    from pathlib import Path

    from lading.client.api import ApiClient
    from lading.client.blocks import BlockClient, Borrow
    from lading.client.servers.environment import Server

_Answer = TypeVar("_Answer")
_CUT = 300.0
"""Seconds for which a site elsewhere that has answered may be out of reach."""
_NO_START = "lading.no-start"
"""The key of `--no-start` in the context of a command."""


class CliSession(msgspec.Struct, frozen=True):
    """A client of one server, with one token."""

    api: ApiClient
    blocks: BlockClient
    address: str = "localhost"
    """`host:port` of the server."""


Connect = Callable[[], AbstractAsyncContextManager[CliSession]]


@asynccontextmanager
async def connect() -> AsyncGenerator[CliSession]:
    """The server that the environment names, or the user's own site on this machine, which is
    started if it does not run. Raises Invalid if there is none, and Unavailable with a remedy where
    nothing listens at its address.
    """
    from lading.client.servers.environment import traceparent_of

    # In a thread: Ctrl-C is heard while the site starts.
    server = await asyncio.to_thread(_server_finder())
    async with session_with(server) as session:
        session.api.traceparent = traceparent_of(os.environ)
        try:
            yield session
        except Unavailable as error:
            # A command may speak with others too, as with a registry of images.
            remedy = _remedy(error.__cause__)
            if not remedy or server.address not in error.message:
                raise
            raise Unavailable(f"{error.message}; {remedy}") from error


def own_or_named_server() -> Server:
    """The server that the environment names, or the user's own site, started unless --no-start
    forbids it. Raises Invalid, Unavailable.
    """
    return _server_finder()()


def note_no_start(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
    """Callback of `--no-start`: this command starts no site."""
    if value:
        ctx.meta[_NO_START] = True
    return value


def _server_finder() -> Callable[[], Server]:
    """The search for the server, with the options of the present command, for any thread."""
    from lading.client.servers.environment import default_data_directory
    from lading.client.servers.own_site import find_or_start

    ctx = click.get_current_context(silent=True)
    return partial(
        find_or_start,
        os.environ,
        default_data_directory(os.environ),
        say=_say_nothing if display.is_quiet_command() else display.warn,
        may_start=ctx is None or not ctx.meta.get(_NO_START),
    )


def _say_nothing(_: str) -> None:
    """Write no message, as for a command with `--quiet`."""


def _remedy(fault: BaseException | None) -> str:
    """The action that a person takes after a connection failed so; "" for other faults."""
    if isinstance(fault, ConnectionRefusedError):
        return "no server runs there: start it with 'lading up', or correct ARVADOS_API_HOST"
    # By its name: most commands have no need of the module of TLS.
    if type(fault).__name__ == "SSLCertVerificationError":
        return (
            "SSL_CERT_FILE names the certificates to trust; ARVADOS_API_HOST_INSECURE=1, as the "
            "file 'env' in the data directory of 'lading up' has it, trusts any"
        )
    return ""


@asynccontextmanager
async def session_with(server: Server) -> AsyncGenerator[CliSession]:
    """A session with a server. Blocks of a server on this machine come and go by its local socket
    and as files, past TLS.
    """
    from lading.client.api import ApiClient
    from lading.client.blocks import BlockClient
    from lading.client.retry import RetryPolicy
    from lading.client.servers.environment import default_data_directory, find_api_socket
    from lading.client.transport import HttpTransport

    # A person waits, so it fails sooner than a service.
    later = RetryPolicy(attempts=1000, give_up_after=_CUT)
    local = find_api_socket(os.environ, default_data_directory(os.environ), server.address)
    async with AsyncExitStack() as opened:
        transport = await opened.enter_async_context(server.transport())
        # A connection to a site elsewhere may be cut, and comes back.
        patience = RetryPolicy(
            attempts=6, give_up_after=15.0, later=later if local is None else None
        )
        near, borrow = transport, None
        if local is not None:
            near = await opened.enter_async_context(HttpTransport(unix_socket=local))
            borrow = _borrowing(local, server.token)
        yield CliSession(
            api=ApiClient(transport, server.token, retry=patience, tell=_tell_cut),
            blocks=BlockClient(
                near,
                server.token,
                borrow=borrow,
                # The first block may be cut off before one has been answered.
                retry=later if server.login else patience,
                tell=_tell_cut,
            ),
            address=server.address,
        )


def _tell_cut(error: LadingError) -> None:
    """Tell a person that a call is tried again."""
    display.note(f"{error.message}; trying again for {_CUT / 60:.0f} minutes")


def _borrowing(local: Path, token: str) -> Borrow:
    async def borrow(locator: str) -> int | None:
        # Imported here: few commands read blocks.
        from lading.client.fd_receiving import FdReceiver, lent_beside

        return await FdReceiver(lent_beside(local), token)(locator)

    return borrow


def tell_page(session: CliSession, request_uuid: str) -> None:
    """Tell a person at a terminal the address of a request's page; programs do not hear of it."""
    _tell(session, f"/ui/requests/{request_uuid}")


def tell_list(session: CliSession, name: str) -> None:
    """Tell a person at a terminal the address of the list of requests with `name` in their names;
    programs do not hear of it.
    """
    from urllib.parse import urlencode

    _tell(session, f"/ui/requests?{urlencode({'q': name})}")


def _tell(session: CliSession, path: str) -> None:
    if sys.stderr.isatty():
        display.note(f"page: https://{session.address}{path}")


def with_session(action: Callable[[CliSession], Awaitable[_Answer]]) -> _Answer:
    """The result of `action`, run with a session of the current command's connection."""
    # Set by `main.cli`, or by a test.
    opened = cast(Connect, click.get_current_context().obj)

    async def run() -> _Answer:
        async with opened() as session:
            return await action(session)

    return run_in_loop(run())
