"""The borrower's side: whom it trusts, what it does with wrong answers, what it leaves open."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lading.client.fd_receiving import FdReceiver, lent_beside
from lading.core.errors import Unavailable

LOCATOR = "0" * 32 + "+4"


@contextmanager
def _answering(path: Path, answer: Callable[[socket.socket], object]) -> Iterator[None]:
    """A lender for one request, of which it makes what `answer` does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join(60)


def test_beside_the_socket_of_the_server() -> None:
    assert lent_beside("/data/api-2.sock") == Path("/data/api-2.lend")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda _: None, "hung up"),
        (lambda connection: connection.send(b"what"), "hung up"),
        (lambda connection: connection.send(b'{"status": 200}'), "no file came"),
        (lambda connection: connection.send(b'{"status": 503, "error": "busy"}'), "busy"),
        (
            lambda connection: socket.send_fds(
                connection, [b'{"status": 503, "error": "odd"}'], [0]
            ),
            "odd",
        ),
    ],
)
def test_an_answer_without_a_file(
    tmp_path: Path, answer: Callable[[socket.socket], object], reason: str
) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with _answering(tmp_path / "s", answer), pytest.raises(Unavailable, match=reason):
        FdReceiver(tmp_path / "s", "t").borrow(LOCATOR)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_nothing_is_there(tmp_path: Path) -> None:
    borrow = FdReceiver(tmp_path / "none", "t")
    assert await borrow(LOCATOR) is None
    assert await borrow(LOCATOR) is None


def test_a_file_is_no_socket(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("")
    with pytest.raises(Unavailable, match="not a socket of this user's"):
        FdReceiver(tmp_path / "s", "t").borrow(LOCATOR)


def test_neither_a_link_nor_a_socket_of_somebody_else(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        (tmp_path / "link").symlink_to(tmp_path / "s")
        with pytest.raises(Unavailable, match="not a socket of this user's"):
            FdReceiver(tmp_path / "link", "t").borrow(LOCATOR)
        stranger = FdReceiver(tmp_path / "s", "t", trusted=lambda: (os.geteuid() + 1,))
        with pytest.raises(Unavailable, match="not a socket of this user's"):
            stranger.borrow(LOCATOR)


def test_no_token_is_sent_to_another_user(tmp_path: Path) -> None:
    trusted = iter([(os.geteuid(),), (os.geteuid() + 1,)])
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        with pytest.raises(Unavailable, match="another user answers"):
            FdReceiver(tmp_path / "s", "t", trusted=lambda: next(trusted)).borrow(LOCATOR)
        connection, _ = listening.accept()
        with connection:
            assert connection.recv(10) == b""


async def test_what_comes_when_nobody_waits_any_more_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = asyncio.Event(), threading.Event()
    loop, path = asyncio.get_running_loop(), tmp_path / "block"
    path.write_bytes(b"data")
    given: list[int] = []

    def borrow(_: FdReceiver, locator: str) -> int:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(60)
        if locator != LOCATOR:
            raise Unavailable("no")
        given.append(os.open(path, os.O_RDONLY))
        return given[0]

    monkeypatch.setattr(FdReceiver, "borrow", borrow)
    waits = [asyncio.ensure_future(FdReceiver(path, "t")(one)) for one in (LOCATOR, "another")]
    await begun.wait()
    others = asyncio.all_tasks() - {asyncio.current_task()} - set(waits)
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)
    go_on.set()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.sleep(0)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(given[0])
