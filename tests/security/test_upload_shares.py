"""Senders and readers of blocks who stand still, or take more than their part of the memory."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator

import pytest

from tests.security.test_http_bounds import MIB, Target, head
from tests.system.cluster import running_cluster

pytestmark = pytest.mark.system
BLOCK = 64 * MIB
CONFIG = """
Containers: {Dispatcher: none}
API: {MaxKeepBlobBuffers: 4}
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with running_cluster(tmp_path_factory.mktemp("shares") / "data", CONFIG) as cluster:
        yield Target(cluster)


def answer(connection: socket.socket) -> bytes:
    """All of an answer, after which the server closes the connection."""
    data = b""
    connection.settimeout(100)
    while part := connection.recv(1 << 16):
        data += part
    return data


def other_token(target: Target) -> str:
    """Another token of the same user."""
    with target.connect("unix") as one:
        path = "/arvados/v1/api_client_authorizations"
        more = "Content-Length: 0\r\nConnection: close\r\n"
        one.sendall(head("POST", path, token=target.token, more=more))
        made = json.loads(answer(one).partition(b"\r\n\r\n")[2])
    return f"v2/{made['uuid']}/{made['api_token']}"


def put(target: Target, data: bytes) -> str:
    """Store a block as an honest client; its locator."""
    name = hashlib.md5(data).hexdigest()
    more = f"Content-Length: {len(data)}\r\nConnection: close\r\n"
    with target.connect("unix") as one:
        one.settimeout(100)
        one.sendall(head("PUT", f"/{name}", token=target.token, more=more) + data)
        told = answer(one)
    assert told.startswith(b"HTTP/1.1 200 ")
    return told.strip().split(b"\n")[-1].decode()


@contextlib.contextmanager
def uploads(target: Target, count: int, data: bytes, token: str) -> Iterator[list[socket.socket]]:
    """Uploads that announce 64 MiB each and send so much of it, or as much as the server takes."""
    with contextlib.ExitStack() as stack:
        made = []
        for at in range(count):
            one = stack.enter_context(target.connect("unix"))
            more = f"Content-Length: {BLOCK}\r\n"
            one.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                one.sendall(head("PUT", f"/{at:032x}", token=token, more=more) + data)
            one.settimeout(100)
            made.append(one)
        yield made


@pytest.mark.attack(
    "announces 16 blocks of 64 MiB, sends one byte of each and keeps the connections open"
)
def test_blocks_of_which_one_byte_comes(target: Target) -> None:
    before, data = target.memory(), os.urandom(BLOCK)
    with uploads(target, 16, b"x", target.token) as opened:
        began = time.monotonic()
        put(target, data)
        assert time.monotonic() - began < 15
        assert target.memory() - before < 300 * MIB
        # They are still there, and are given up for being slow after 30 s.
        assert len(opened) == 16


@pytest.mark.attack(
    "fills the memory of the block store with parts of blocks, with a token of its own"
)
def test_blocks_that_wait_for_each_other(target: Target) -> None:
    data = os.urandom(BLOCK)
    with uploads(target, 12, b"x" * (20 * MIB), other_token(target)) as opened:
        began = time.monotonic()
        put(target, data)
        assert time.monotonic() - began < 15
        assert len(opened) == 12


@pytest.mark.attack("asks for many large blocks and reads none of them")
def test_blocks_that_nobody_reads(target: Target) -> None:
    token = other_token(target)
    data = os.urandom(BLOCK)
    name = hashlib.md5(data).hexdigest()
    more = f"Content-Length: {BLOCK}\r\nConnection: close\r\n"
    with target.connect("unix") as one:
        one.settimeout(100)
        one.sendall(head("PUT", f"/{name}", token=token, more=more) + data)
        locator = answer(one).strip().split(b"\n")[-1].decode()
    before = target.memory()
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            one = stack.enter_context(target.connect("unix"))
            one.sendall(head("GET", f"/{locator}", token=token))
        began = time.monotonic()
        put(target, data)
        assert time.monotonic() - began < 15
        assert target.memory() - before < 400 * MIB
