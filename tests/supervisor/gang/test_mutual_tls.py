from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path

from lading.net.certificates import make_certificate
from lading.supervisor.gang.remote_rank_client import HandshakeState, keep_alive, trust


def test_the_key_is_in_no_file_and_in_no_text(tmp_path: Path) -> None:
    certificate, key = make_certificate("gang", now=datetime.now(UTC))
    before = len(list(Path("/proc/self/fd").iterdir()))
    context = trust(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert (context.verify_mode, len(context.get_ca_certs())) == (ssl.CERT_REQUIRED, 1)
    assert key not in repr(HandshakeState(address="a", port=1, certificate=certificate, key=key))


def test_the_loss_of_the_other_side_is_noticed() -> None:
    with socket.socket() as one:
        keep_alive(one)
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 40_000
