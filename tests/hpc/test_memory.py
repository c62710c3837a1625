"""Large files pass through the daemon in little memory."""

from __future__ import annotations

import contextlib
import http.client
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.hpc_daemon import Rig

SIZE = 200 << 20
MOST = 64 << 20
_BLOCK = os.urandom(1 << 20)
"""Longer than the window of gzip, which therefore finds no repetition."""


class _Store(BaseHTTPRequestHandler):
    """Takes objects, and keeps how long they were."""

    taken: list[int]

    def do_PUT(self) -> None:
        left = int(self.headers["Content-Length"])
        self.taken.append(left)
        while left:
            left -= len(self.rfile.read(min(left, 1 << 20)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def store() -> Iterator[tuple[str, list[int]]]:
    """The address of a store, and the lengths of the objects that it took."""
    taken: list[int] = []
    server = HTTPServer(("127.0.0.1", 0), type("Store", (_Store,), {"taken": taken}))
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/bucket/results?X-Amz-Signature=s", taken
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def _upload(rig: Rig, size: int) -> int:
    """Send a form with one file of zeros, which the test does not hold either; the status."""
    head = b'--=b=\r\nContent-Disposition: form-data; name="f"; filename="large"\r\n\r\n'
    end = b"\r\n--=b=--\r\n"
    block = bytes(1 << 20)
    headers = {
        "Authorization": rig.identity.authorization,
        "Content-Type": "multipart/form-data; boundary==b=",
        "Content-Length": str(len(head) + size + len(end)),
    }
    connection = http.client.HTTPSConnection(rig.host, rig.port, context=rig.context(), timeout=180)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/code-configuration", _body(head, block, size, end), headers)
        return connection.getresponse().status


def _body(head: bytes, block: bytes, size: int, end: bytes) -> Iterator[bytes]:
    yield head
    for _ in range(size // len(block)):
        yield block
    yield end


def _peak(rig: Rig) -> int:
    """The most bytes resident, those of mapped files too, since the last `_forget_peak`."""
    assert rig.process is not None
    text = Path(f"/proc/{rig.process.pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) << 10


def _forget_peak(rig: Rig) -> int:
    """The bytes resident now."""
    assert rig.process is not None
    Path(f"/proc/{rig.process.pid}/clear_refs").write_text("5")
    return _peak(rig)


def test_a_large_file_arrives_in_little_memory(rig: Rig) -> None:
    before = _forget_peak(rig)
    assert _upload(rig, SIZE) == 200
    assert (rig.root / "hpcaas/files/large").stat().st_size == SIZE
    assert _peak(rig) - before < MOST


def test_large_results_are_delivered_in_little_memory(
    idle: Rig, store: tuple[str, list[int]]
) -> None:
    url, taken = store
    idle.environment = {"HPCAAS_ALLOW_HTTP": "1"}
    idle.up()
    idle.code("exit 0")
    idle.configure(resultsUrl=url, resultsDirectory="/mnt")
    idle.prepare()
    with (idle.root / "hpcaas/results/large").open("wb") as file:
        for _ in range(SIZE // len(_BLOCK)):
            file.write(_BLOCK)
    before = _forget_peak(idle)
    idle.command("start")
    idle.reach(resultStatus="Stopped")
    assert taken[0] > SIZE
    assert (idle.root / "mnt/large").stat().st_size == SIZE
    assert _peak(idle) - before < MOST
