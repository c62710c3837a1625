"""A terminal over a websocket.

The browser speaks first: a text message with its ticket and the size of its window. After that
binary messages are the bytes of the terminal, in both directions; text messages of the browser tell
a new size, or how many bytes it has shown; the last text message of the server tells why the shell
has ended. The server sends at most `_AHEAD` bytes more than the browser has shown, so that a slow
browser slows the command down instead of filling memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from lading.core.errors import (
    Forbidden,
    Gone,
    LadingError,
    Malformed,
    NotFound,
    TooLarge,
    Unauthenticated,
)
from lading.core.ids import make_request_id
from lading.process.concurrency import cancel_all
from lading.process.telemetry import event
from lading.web.sessions import ShellTicket
from lading.web.shell import permission
from lading.web.visit import Visit

if TYPE_CHECKING:
    from lading.web.shell.terminal import ContainerTerminal

_FIRST_SECONDS: Final = 10.0
"""Seconds for the first message."""
_AHEAD: Final = 1 << 18
_LARGEST: Final = 1 << 16
"""Bytes of a message of the browser."""
_MOST_CELLS: Final = 1000
"""Columns or rows of a window."""
# Errors that end an open shell; other refusals may be temporary.
_FINAL: Final = (Forbidden, Gone, NotFound, Unauthenticated)
_LOGGED_OUT: Final = "You have logged out, so the shell was ended."
_logger = logging.getLogger("lading.web.shell")


class _BrowserMessage(msgspec.Struct, frozen=True):
    """A text message of the browser."""

    ticket: str = ""
    columns: int = 0
    rows: int = 0
    shown: int = 0


@dataclass(slots=True)
class _Window:
    """Bytes sent to the browser, and bytes that it has shown; `is_used` tells of use since the last
    check.
    """

    sent: int = 0
    shown: int = 0
    is_used: bool = False
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    async def room(self) -> None:
        """Wait until the browser has shown enough."""
        while self.sent - self.shown >= _AHEAD:
            self.ready.clear()
            await self.ready.wait()


async def serve(visit: Visit, socket: WebSocket) -> None:
    """Carry one terminal until the shell, the session or the permission ends."""
    await socket.accept()
    try:
        ending = await _converse(visit, socket)
    except LadingError as error:
        ending = error.message
    except WebSocketDisconnect:
        return
    if socket.application_state is WebSocketState.CONNECTED:
        try:
            await socket.send_text(msgspec.json.encode({"ended": ending}).decode())
            await socket.close()
        except WebSocketDisconnect:
            # The browser left at the same moment.
            return


async def _converse(visit: Visit, socket: WebSocket) -> str:
    """Conduct the conversation; return the reason of its end. Raises WebSocketDisconnect if the
    browser has left.
    """
    try:
        async with asyncio.timeout(_FIRST_SECONDS):
            first = _parse((await _receive(socket))[0])
    except TimeoutError:
        raise Forbidden("Forbidden: the connection did not begin with a ticket") from None
    ticket = await visit.services.sessions.take_ticket(first.ticket, holder=visit.secret)
    if ticket is None or ticket.request != visit.parts["uuid"]:
        raise Forbidden("Forbidden: this ticket was used already, is too old or is not yours")
    with visit.services.shells.enter(visit.secret):
        async with _entered(visit, ticket, first) as terminal:
            return await _carry(visit, socket, terminal, ticket)


@asynccontextmanager
async def _entered(
    visit: Visit, ticket: ShellTicket, first: _BrowserMessage
) -> AsyncGenerator[ContainerTerminal]:
    """A terminal by the API, which checks the caller and records the session."""
    open_terminal = await asyncio.to_thread(_load)
    # The records of the session have this id, and so has the line with the browser's address.
    request_id = make_request_id(os.urandom(20))
    pipe = await visit.api.transport.switch(
        permission.session_path(ticket.container),
        "ssh",
        headers={**visit.api.headers, "X-Request-Id": request_id},
        form={"login_username": ticket.login},
    )
    client = visit.incoming.client
    event(
        _logger,
        "shell opened by the page",
        container=ticket.container,
        user=visit.session.user_uuid if visit.session else "",
        address=client.host if client else "",
        request_id=request_id,
    )
    columns, rows = _size(first) or (80, 24)
    async with open_terminal(pipe, login=ticket.login, columns=columns, rows=rows) as terminal:
        yield terminal


def _load() -> Callable[..., AbstractAsyncContextManager[ContainerTerminal]]:
    # Imported here: asyncssh takes a fifth of a second and some megabytes.
    from lading.web.shell.terminal import open_terminal

    return open_terminal


async def _carry(
    visit: Visit, socket: WebSocket, terminal: ContainerTerminal, ticket: ShellTicket
) -> str:
    """Pass bytes until one of the sides or the permission ends; why."""
    window = _Window()
    tasks = [
        asyncio.create_task(_send(socket, terminal, window), name="output of a shell"),
        asyncio.create_task(_listen(socket, terminal, window), name="input of a shell"),
        asyncio.create_task(_watch_session(visit, window), name="session of a shell"),
        asyncio.create_task(_watch_permission(visit, ticket), name="permission of a shell"),
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        await cancel_all(*tasks)


async def _send(socket: WebSocket, terminal: ContainerTerminal, window: _Window) -> str:
    while data := await terminal.read():
        await window.room()
        window.sent += len(data)
        await socket.send_bytes(data)
    return await terminal.ending()


async def _listen(socket: WebSocket, terminal: ContainerTerminal, window: _Window) -> str:
    while True:
        text, typed = await _receive(socket)
        if typed:
            window.is_used = True
            await terminal.write(typed)
            continue
        said = _parse(text)
        if said.shown:
            window.shown = min(window.sent, max(window.shown, said.shown))
            window.ready.set()
        if (size := _size(said)) is not None:
            terminal.resize(*size)


async def _watch_session(visit: Visit, window: _Window) -> str:
    """Return once the session has ended. Typing is a use of the session, an open shell is none."""
    while True:
        await asyncio.sleep(visit.services.shells.checks.session)
        is_use, window.is_used = window.is_used, False
        if await visit.services.sessions.find(visit.secret, is_use=is_use) is None:
            return _LOGGED_OUT


async def _watch_permission(visit: Visit, ticket: ShellTicket) -> str:
    """Return once the API refuses this user the container."""
    while True:
        await asyncio.sleep(visit.services.shells.checks.permission)
        try:
            await permission.check(visit, ticket.container, ticket.login)
        except _FINAL as error:
            return error.message
        except LadingError:
            # The gateway or the API has no answer for the moment.
            continue


async def _receive(socket: WebSocket) -> tuple[str, bytes]:
    """The next message: its text, or its bytes. Raises WebSocketDisconnect, TooLarge."""
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1005))
    text, data = message.get("text") or "", message.get("bytes") or b""
    if len(text) + len(data) > _LARGEST:
        raise TooLarge(f"a message has more than {_LARGEST} bytes")
    return text, data


def _parse(message: str) -> _BrowserMessage:
    try:
        return msgspec.json.decode(message, type=_BrowserMessage)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Malformed("the message is no JSON of a terminal") from None


def _size(message: _BrowserMessage) -> tuple[int, int] | None:
    """Columns and rows of a message; None if they are none."""
    if 0 < message.columns <= _MOST_CELLS and 0 < message.rows <= _MOST_CELLS:
        return message.columns, message.rows
    return None
