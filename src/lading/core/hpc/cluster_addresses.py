"""Addresses of the containers of a cluster, IPv4 and IPv6.

Source: docs/spec/hpc-daemon, section Parameters of the daemon.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lading.core.errors import Invalid

SSH_PORT = 22
# A host name: at most 254 characters.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?")
_IPV6 = re.compile(r"[0-9A-Fa-f:]{2,39}(?:[0-9.]{7,15})?(?:%[A-Za-z0-9._-]{1,15})?")
_BRACKETED = re.compile(r"\[([^\[\]]*)\](?::([0-9]{1,5}))?")
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """Where the sshd of a container listens."""

    host: str
    port: int = SSH_PORT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_numeric(self) -> bool:
        """Whether it is an IP address and no name."""
        return ":" in self.host or self.host.replace(".", "").isdigit()


def parse_address(text: str) -> Address:
    """`10.0.0.1`, `10.0.0.1:2222`, `fd00::1`, `[fd00::1]:2222`, `name:22`. Raises Invalid."""
    bracketed = _BRACKETED.fullmatch(text)
    if bracketed:
        host, port = bracketed[1], bracketed[2]
        fits = ":" in host and _IPV6.fullmatch(host) is not None
    elif text.count(":") > 1:
        host, port = text, None
        fits = _IPV6.fullmatch(host) is not None
    else:
        host, _, port = text.partition(":")
        fits = _NAME.fullmatch(host) is not None and (
            ":" not in text or re.fullmatch("[0-9]{1,5}", port) is not None
        )
    number = int(port) if fits and port else SSH_PORT
    if not fits or not 0 < number <= _LAST_PORT:
        raise Invalid(f"address {text[:60]!r} is not IP, IP:PORT or [IPV6]:PORT")
    return Address(host, number)
