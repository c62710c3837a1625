"""The TLS certificate of a data directory, made at its first start."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from lading.net.certificates import DECADE, make_certificate
from lading.wiring.directory import write_private

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def ensure_certificate(certificate: Path, key: Path, *, host: str, now: datetime) -> None:
    """Make the certificate for `host`, localhost and the loopback addresses unless it exists."""
    if certificate.exists() and key.exists():
        return
    shown, private = make_certificate(
        f"Lading on {host}", now=now, life=DECADE, hosts=(*_LOOPBACK, host)
    )
    write_private(key, private.encode())
    write_private(certificate, shown.encode())
