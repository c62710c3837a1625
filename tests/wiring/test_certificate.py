"""The certificate of a laptop."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lading.wiring.directory import ensure_certificate

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("host", ["127.0.0.1", "lading.example"])
def test_it_is_made_once_and_loads(tmp_path: Path, host: str) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    ensure_certificate(certificate, key, host=host, now=NOW)
    first = certificate.read_bytes()
    ensure_certificate(certificate, key, host=host, now=NOW)
    assert certificate.read_bytes() == first
    assert key.stat().st_mode & 0o777 == 0o600
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
