"""What an instance says of its way to the API, against a server of this process with a
certificate.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from lading.dispatch.fleets.cloud import api_check
from lading.wiring.directory import ensure_certificate


class Handler(BaseHTTPRequestHandler):
    """Serves the public configuration, or a page of somebody else."""

    body = b'{"ClusterID": "zzzzz"}'

    def do_GET(self) -> None:
        self.send_response(200 if self.path == api_check.PATH else 404)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


class Stranger(Handler):
    body = b"<html>"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    ensure_certificate(tmp_path / "crt", tmp_path / "key", host="127.0.0.1", now=datetime.now(UTC))
    return tmp_path / "crt"


@pytest.fixture(params=[Handler, Stranger])
def url(request: pytest.FixtureRequest, certificate: Path) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), request.param)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    found: dict[str, str] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("url", [Handler], indirect=True)
def test_a_server_that_is_reached(
    url: str, certificate: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert api_check.main(url, certificate.read_text()) == 0
    assert said(capsys) == {"said": "it serves the cluster zzzzz"}


@pytest.mark.parametrize("url", [Stranger], indirect=True)
def test_a_server_of_somebody_else(
    url: str, certificate: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert api_check.main(url, certificate.read_text()) == 1
    assert "is it a server of Lading?" in said(capsys)["error"]


@pytest.mark.parametrize("url", [Handler], indirect=True)
def test_another_certificate_is_refused(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ensure_certificate(
        tmp_path / "crt2", tmp_path / "key2", host="127.0.0.1", now=datetime.now(UTC)
    )
    assert api_check.main(url, (tmp_path / "crt2").read_text()) == 1
    assert "certificate verify failed" in said(capsys)["error"]


def test_an_address_where_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    assert api_check.main("https://127.0.0.1:1", "") == 1
    assert "Connection refused" in said(capsys)["error"]
