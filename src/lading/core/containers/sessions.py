"""Sessions in running containers: proofs of server and gateway, addresses, and what clients ask
for. Who may enter is in `core.policy.entering`.

Server and gateway share a key that is derived from the system root token and the container's uuid,
and never sent. The key of the gateway's self-signed certificate is derived from that secret too
(`identity_seed`): the server knows it beforehand, and talks to no other. Arvados' gateways make a
key of their own; so each side also proves that it knows the secret for exactly this certificate. A
proof is useless at another gateway, for another container, or for another certificate.

The server connects to `gateway_address`, and a worker writes it. So a worker may name itself only:

    tunnel          the gateway has connected to a server, or will
    tunnel URL      the same; only the server with the tunnel writes its own URL
    HOST:PORT       HOST is the source address of the call, or a configured one;
                    PORT is above 1023

    try HOST:PORT   such an address that the server is to try, and a tunnel where it does not
                    answer: the server stores HOST:PORT or `tunnel`

A loopback address from another machine is written by Arvados' crunch-run before it has opened its
tunnel; it uses the token of the dispatcher. It is stored as `tunnel`.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from lading.core import ids
from lading.core.containers.container import FINAL, TUNNEL, ContainerState
from lading.core.containers.container_network import is_local_address
from lading.core.errors import Gone, Invalid, LadingError, Malformed, Unavailable
from lading.core.values import printable

AUTHORIZATION = "x-arvados-authorization"
AUTHORIZATION_RESPONSE = "x-arvados-authorization-response"
GATEWAY_UUID = "x-arvados-container-gateway-uuid"
TARGET_PORT = "x-arvados-container-target-port"
# Names that clients give for the container itself.
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "0.0.0.0", "::1", "::", ""})  # noqa: S104
"""Names of the container itself in a client's request for a port."""
# Names of variables that a client sets for its session; those of the dynamic loader would break the
# program that enters the container.
_ENVIRONMENT = re.compile(r"(?!LD_)[A-Za-z_][A-Za-z0-9_]{0,127}")
# The most variables of a session, and characters of all of them.
_MOST_VARIABLES = 64
_MOST_CHARACTERS = 1 << 15
# A key of Docker's --detach-keys.
_KEY = re.compile(r"ctrl-([a-z@\[\]^_\\])|([a-z])")
# Characters with a meaning to the shell.
_SHELL_SIGNS = re.compile(r"[|&;<>()$`*?\[\]#~=%!{}\n]")
_SHELL = "if [ -x /bin/bash ]; then exec /bin/bash -login; else exec /bin/sh -l; fi"
_SFTP = "; ".join(
    f"[ -x {path} ] && exec {path}"
    for path in (
        "/usr/lib/openssh/sftp-server",
        "/usr/libexec/openssh/sftp-server",
        "/usr/lib/ssh/sftp-server",
        "/usr/libexec/sftp-server",
    )
)
_NO_SFTP = "echo 'lading: the image has no sftp-server; use scp -O, or cat' >&2; exit 127"
# UUID-PORT of a container or a request.
_TARGET = re.compile(r"([a-z0-9]{5}-(?:dz642|xvhdp)-[a-z0-9]{15})-([0-9]{1,5})")
_TRY = "try"
FIRST_PORT = 1024
"""Services of the machine listen below; a gateway has a port that its kernel chose."""
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def check_state(uuid: str, state: ContainerState) -> None:
    """Check that a container can be entered now. Raises Unavailable before it runs, Gone when it
    has ended.
    """
    if state in FINAL:
        raise Gone(f"{uuid}: has ended ({state}); only a running container can be entered")
    if state is not ContainerState.RUNNING:
        raise Unavailable(f"{uuid}: is not running yet ({state}); try again when it is")


def check_tunnel_state(uuid: str, state: ContainerState) -> None:
    """Check that the supervisor of a container can bring its tunnel now: it does so before it
    reports that the container runs. Raises Unavailable, Gone.
    """
    if state is not ContainerState.LOCKED:
        check_state(uuid, state)


def container_key(root_token: str, uuid: str) -> str:
    """The key that the server and the gateway of a container share."""
    return _digest(root_token, uuid.encode())


def request_proof(key: str, certificate: bytes) -> str:
    """Proof of the server for a gateway that showed this certificate (DER)."""
    return _digest(key, certificate)


def response_proof(key: str, proof: str) -> str:
    """The gateway's answer to a proof."""
    return _digest(key, proof.encode())


def identity_seed(key: str) -> bytes:
    """Seed of the private key of a gateway's certificate, from which the server computes the public
    key.
    """
    return hmac.digest(key.encode(), b"lading gateway identity", "sha512")


def is_proof(proof: str, expected: str) -> bool:
    """Compare a proof in constant time."""
    return hmac.compare_digest(proof.encode(), expected.encode())


def _digest(key: str, message: bytes) -> str:
    return hmac.digest(key.encode(), message, "sha256").hex()


def shell_command(command: str | None, subsystem: str | None = None) -> tuple[str, ...]:
    """Arguments for a command of an SSH client; none is a login shell. Raises Invalid.

    Commands without shell syntax are started without a shell, since an image may have none.
    """
    if subsystem is not None:
        if subsystem != "sftp":
            raise Invalid(f"subsystem {subsystem[:40]!r}: there is only sftp")
        return ("/bin/sh", "-c", f"{_SFTP}; {_NO_SFTP}")
    if command is None or not command.strip():
        return ("/bin/sh", "-c", _SHELL)
    if _SHELL_SIGNS.search(command):
        return ("/bin/sh", "-c", command)
    try:
        return tuple(shlex.split(command))
    # Unbalanced quotes: the shell reports them.
    except ValueError:
        return ("/bin/sh", "-c", command)


class DetachKeys:
    """Finds the keys that detach from a terminal in typed input; for example `ctrl-p,ctrl-q`.

    A possible beginning of them is held back until the next key. Raises Invalid for other names.
    """

    def __init__(self, names: str) -> None:
        self._keys = bytes(_key(name) for name in names.split(",")) if names else b""
        self._matched = 0

    def feed(self, typed: bytes) -> tuple[bytes, bool]:
        """Input to pass on, and whether the keys were typed; input after them is dropped."""
        if not self._keys:
            return typed, False
        passed = bytearray()
        for at in range(len(typed)):
            # A mismatch passes on the held keys; this byte may begin the sequence again.
            if typed[at] != self._keys[self._matched]:
                passed += self._keys[: self._matched]
                self._matched = 0
            if typed[at] != self._keys[self._matched]:
                passed += typed[at : at + 1]
                continue
            self._matched += 1
            if self._matched == len(self._keys):
                self._matched = 0
                return bytes(passed), True
        return bytes(passed), False


def _key(name: str) -> int:
    match = _KEY.fullmatch(name)
    if match is None:
        raise Invalid(f"detach_keys: {name[:20]!r}: write for example ctrl-p,ctrl-q")
    # A control character has the lower five bits of its letter.
    return ord(match[1].upper()) & 31 if match[1] else ord(match[2])


def session_environment(
    variables: Mapping[str, str], terminal: str | None
) -> tuple[tuple[str, str], ...]:
    """Variables of a session: those that the client sets (`SetEnv`, `SendEnv` of ssh), as far as
    they are taken, and the kind of its terminal.
    """
    left_out = frozenset(refused_variables(variables))
    kept = tuple(
        (name, value)
        for name, value in sorted(variables.items())
        if name not in left_out and not (name == "TERM" and terminal is not None)
    )
    return (*kept, ("TERM", terminal), ("USE_TTY", "1")) if terminal is not None else kept


def refused_variables(variables: Mapping[str, str]) -> list[str]:
    """The names of the variables of a client that its session does not get."""
    refused, count, size = [], 0, 0
    for name, value in sorted(variables.items()):
        more = size + len(name) + len(value)
        is_name = _ENVIRONMENT.fullmatch(name) is not None and "\0" not in value
        if not is_name or count >= _MOST_VARIABLES or more > _MOST_CHARACTERS:
            refused.append(name)
        else:
            count, size = count + 1, more
    return refused


def variables_refusal(names: Sequence[str]) -> str:
    """The sentence about variables that a session does not get."""
    shown = ", ".join(printable(name[:40]) for name in names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return (
        f"lading: not set in this session: {shown}{more}; it takes {_MOST_VARIABLES} variables of"
        f" {_MOST_CHARACTERS} characters in all, none of LD_*"
    )


def listening_refusal(host: str, port: int) -> str:
    """The sentence about a refused `-R` of ssh: a port or a socket of the container that leads to
    the client.
    """
    shown = f"{printable(host[:60])}:{port}" if port >= 0 else printable(host[:60])
    return (
        f"lading: -R {shown}: is refused, as nothing listens in a container for its users;"
        " use -L for a port of the container, or publish the port"
    )


class Target(msgspec.Struct, frozen=True):
    """A port of a container, or of the present container of a request."""

    uuid: str
    port: int


def parse_target(target: str) -> Target:
    """The target in `UUID-PORT`, the form of paths and host names. Raises Malformed."""
    match = _TARGET.fullmatch(target.lower())
    if match is None:
        raise Malformed(f"{target[:60]!r}: not UUID-PORT of a container or a request")
    return Target(match[1], check_port(match[2]))


def is_target(target: str) -> bool:
    """Whether a text looks like UUID-PORT."""
    return _TARGET.fullmatch(target.lower()) is not None


def is_request(target: Target) -> bool:
    """Whether the target is named by a request."""
    return ids.infix_of(target.uuid) == ids.Infix.REQUEST


def check_port(value: str) -> int:
    """A port number. Raises Malformed."""
    port = int(value) if value.isascii() and value.isdigit() and len(value) < 6 else 0
    if not 0 < port < 65536:
        raise Malformed(f"port {value[:20]!r}: must be a number from 1 to 65535")
    return port


def parse_gateway(address: str) -> tuple[str, int]:
    """Host and port of a gateway address that is not a tunnel's. Raises Unavailable."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise Unavailable("the container has no gateway yet; try again in a moment")
    return host.strip("[]"), int(port)


def offer(address: str) -> str:
    """The value of `gateway_address` by which a supervisor offers HOST:PORT."""
    return f"{_TRY} {address}"


def offered(address: object) -> str:
    """HOST:PORT of a gateway that the server is to try to reach; "" for other addresses."""
    word, _, place = address.partition(" ") if isinstance(address, str) else ("", "", "")
    return place if word == _TRY else ""


def may_be_tried(address: str, places: Places) -> bool:
    """Whether a server may connect to an offered address: the machine that makes the call, or a
    configured one. The loopback of the server is not that of the machine.
    """
    try:
        host = _host_of(address)
    except Invalid:
        return False
    is_own = _is_seen(host, places.source) and not is_loopback(host)
    return is_own or is_listed(host, places.hosts)


def tunnel_url(address: str) -> str | None:
    """The server with the tunnel (`tunnel URL`), "" when unknown; None for other addresses."""
    word, _, url = address.partition(" ")
    return url if word == TUNNEL else None


def refusal(error: LadingError) -> str:
    """An error as one line for a terminal."""
    return f"lading: {' '.join(error.message.split())}"


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Allowed gateway addresses.

    `source` is the source address of the call, "" for the local socket; `server` the URL of the
    called server; `hosts` are further networks (CIDR), addresses and host names.
    """

    source: str = ""
    server: str = ""
    hosts: tuple[str, ...] = ()


NOWHERE = Places(source="nowhere")
"""A call without an address: only tunnels are allowed."""


def check_gateway_address(
    address: str, *, stored: str, places: Places, is_holder: bool = False
) -> str:
    """The value to store for a written `gateway_address`. Raises Invalid.

    `stored` is the present value; `is_holder`: the writer has the token that locked the container.
    """
    if address == TUNNEL:
        # The tunnel came first: the server that has it stays named.
        return stored if tunnel_url(stored) else TUNNEL
    if not address:
        return address
    url = tunnel_url(address)
    if url is not None:
        # Its own URL, or a repetition of the stored one.
        known = {_bare(places.server), _bare(tunnel_url(stored) or "")} - {""}
        if _bare(url) not in known:
            raise Invalid(
                "gateway_address: a server writes its own URL when it takes in a tunnel; "
                "write 'tunnel'"
            )
        return address
    host = _host_of(address)
    if is_listed(host, places.hosts) or _is_seen(host, places.source):
        return address
    if is_holder and is_loopback(host):
        return stored if tunnel_url(stored) else TUNNEL
    raise Invalid(
        "gateway_address: HOST must be the address that the call comes from, "
        "or be in Containers.GatewayHosts"
    )


def _host_of(address: str) -> str:
    """The host of HOST:PORT, without the brackets of IPv6. Raises Invalid."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not FIRST_PORT <= int(port) < 65536:
        raise Invalid(
            "gateway_address: must be 'tunnel', "
            f"or HOST:PORT with a port from {FIRST_PORT} to 65535"
        )
    return host.strip("[]")


def is_listed(host: str, hosts: Iterable[str]) -> bool:
    """Whether a list of networks, addresses and names contains this host. An entry that is no
    network is a name.
    """
    address = parse_gateway_host(host)
    for entry in hosts:
        try:
            network = ipaddress.ip_network(entry, strict=False)
        except ValueError:
            if entry.lower() == host.lower():
                return True
        else:
            if address is not None and address in network:
                return True
    return False


def is_loopback(host: str) -> bool:
    """Whether a host is the loopback address of its user."""
    address = parse_gateway_host(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def is_local(host: str) -> bool:
    """Whether an address leads to the machine that connects to it, its link, or the metadata
    services of its cloud (`container_network.is_local_address`).

    A host name is not an address: False.
    """
    address = parse_gateway_host(host)
    return address is not None and is_local_address(address)


def parse_gateway_host(host: str) -> _Address | None:
    """The address in a text, an IPv4 one also if written as IPv6; None for a name."""
    try:
        # Without the zone of a link-local address (RFC 4007).
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return (isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped) or address


def _is_seen(host: str, peer: str) -> bool:
    if not peer:
        return is_loopback(host)
    address = parse_gateway_host(host)
    return address is not None and address == parse_gateway_host(peer)


def _bare(url: str) -> str:
    return url.rstrip("/")
