"""The proof of a gateway; the rest is in test_connecting.py."""

from __future__ import annotations

import asyncio
import socket

import pytest

from lading.api.reaching import Gateway
from lading.client.piping import Pipe
from lading.core.errors import Corrupt
from lading.core.httphead import Head


async def test_only_the_expected_answer_is_believed() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        pipe = Pipe(*await asyncio.open_connection(sock=ours))
        gateway = Gateway(pipe, "uuid", "proof", "expected")
        gateway.check(Head("HTTP/1.1 101 x", (("X-Arvados-Authorization-Response", "expected"),)))
        for said in ("", "proof", "unexpected"):
            with pytest.raises(Corrupt, match="did not prove"):
                gateway.check(Head("HTTP/1.1 101 x", (("X-Arvados-Authorization-Response", said),)))
        assert gateway.headers["X-Arvados-Authorization"] == "proof"
        await pipe.close()
