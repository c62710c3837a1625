"""The certificate of a site at the first login: checked by the system's store, else shown as its
fingerprint, which the user agrees to or not.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl
from typing import Final

import msgspec

from lading.client.servers.environment import split_address
from lading.core.errors import Unavailable
from lading.net.http_upgrade import LIMIT, Way, trusting
from lading.net.proxies import proxy_for

_TIMEOUT: Final = 20.0
"""Seconds for a connection."""
_PAIR: Final = 2


class SiteCertificate(msgspec.Struct, frozen=True):
    """The certificate that a site shows, as PEM, and whether the store of the system trusts it."""

    pem: str
    is_trusted: bool
    fault: str = ""
    """Reason for which the store does not trust it."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, as `openssl x509 -fingerprint -sha256` shows it."""
        return fingerprint_of(self.pem)


def fingerprint_of(certificate: str) -> str:
    """SHA-256 of a certificate in PEM: pairs of hex digits, with colons."""
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest().upper()
    return ":".join(digest[at : at + _PAIR] for at in range(0, len(digest), _PAIR))


def same_fingerprint(left: str, right: str) -> bool:
    """Whether two fingerprints are equal, however they are written."""
    return _plain(left) == _plain(right)


def _plain(fingerprint: str) -> str:
    digits = fingerprint.lower().removeprefix("sha256").lstrip(" =:")
    return "".join(letter for letter in digits if letter not in ": ")


async def look_at(address: str) -> SiteCertificate:
    """The certificate of the site at `host:port`. Raises Unavailable, Invalid."""
    host, port = split_address(address)
    try:
        return SiteCertificate(await _certificate(host, port, trusting(None)), is_trusted=True)
    except ssl.SSLCertVerificationError as error:
        fault = error.verify_message or "it is not trusted"
    except (OSError, TimeoutError) as error:
        raise Unavailable(f"https://{address}: cannot be reached: {error}") from error
    try:
        pem = await _certificate(host, port, trusting(None, insecure=True))
    except (OSError, TimeoutError) as error:
        raise Unavailable(f"https://{address}: cannot be reached: {error}") from error
    return SiteCertificate(pem, is_trusted=False, fault=fault)


async def _certificate(host: str, port: int, tls: ssl.SSLContext) -> str:
    reader = asyncio.StreamReader(limit=LIMIT)
    way = Way(host=host, port=port, tls=tls, proxy=proxy_for(os.environ, host, port))
    pipe = await way.connect(reader, timeout=_TIMEOUT)
    try:
        connection: ssl.SSLObject = pipe.writer.get_extra_info("ssl_object")
        return ssl.DER_cert_to_PEM_cert(connection.getpeercert(binary_form=True) or b"")
    finally:
        pipe.writer.transport.abort()
