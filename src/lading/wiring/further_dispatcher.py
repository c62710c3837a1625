"""A further dispatcher, by `lading dispatch`: its membership, and its process.

It runs on any machine, for a server anywhere. It has its own token (docs/spec/dispatch, section
Tokens). `lading admin dispatcher-token` writes the token, the address and the certificate of the
server to one file, which the operator copies to the other machine. The data directory of the
dispatcher has no records: only the state of running containers and a cache.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lading.client.api import ApiClient
from lading.client.transport import HttpTransport
from lading.config.site import Config, load
from lading.core.errors import Invalid
from lading.core.records import access
from lading.dispatch.fleet import FleetSite
from lading.dispatch.run import Once
from lading.dispatch.settings import API_TIMEOUT
from lading.wiring.directory import DataDirectory, write_private
from lading.wiring.dispatcher import dispatch, template
from lading.wiring.engine import engine_search, internet_fault, with_engine
from lading.wiring.process import (
    configure_logs,
    say,
)

# Name below the data directory; supervisors are given the path of this file.
_CERTIFICATE = "server.crt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Membership of a dispatcher: URL of the server, token, and certificate of the server (PEM)."""

    api: str
    token: str
    certificate: str = ""


MakeMembership = Callable[[DataDirectory, str, tuple[str, ...]], Awaitable[Membership]]
"""Makes a membership from a data directory, the URL of its server, and scopes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherReady:
    """Facts to print once the dispatcher works."""

    api: str
    fleet: str
    data: Path


def invite(
    directory: DataDirectory,
    file: Path,
    *,
    for_arvados: bool = False,
    make: MakeMembership | None = None,
) -> Membership:
    """Make a token for a further dispatcher of the server of this data directory; write a
    membership to `file`.

    `for_arvados`: a token for Arvados' own dispatchers and their crunch-run. `make` asks the server
    for a token with scopes.

    Raises Invalid without a server or when the file cannot be written, and the errors of the
    client.
    """
    if file.exists():
        raise Invalid(f"{file}: is there already; choose another name")
    scopes = access.ARVADOS_DISPATCHER_SCOPES if for_arvados else access.DISPATCHER_SCOPES
    membership = asyncio.run(_made(make or _make, directory, scopes))
    try:
        write_private(file, msgspec.json.format(msgspec.json.encode(membership)) + b"\n")
    except OSError as error:
        raise Invalid(f"{file}: cannot be written: {error.strerror}") from error
    return membership


async def _made(
    make: MakeMembership, directory: DataDirectory, scopes: tuple[str, ...]
) -> Membership:
    return await make(directory, _address(directory), scopes)


async def _make(directory: DataDirectory, api: str, scopes: tuple[str, ...]) -> Membership:
    async with HttpTransport(api, verify=directory.certificate) as transport:
        # The admin's token makes the new one, which has the narrow scopes of a dispatcher only.
        client = ApiClient(transport, directory.secrets().admin_token)
        made = await client.create("api_client_authorizations", {"scopes": list(scopes)})
    token = f"v2/{made['uuid']}/{made['api_token']}"
    return Membership(api=api, token=token, certificate=directory.certificate.read_text())


def _address(directory: DataDirectory) -> str:
    try:
        match = re.search(
            r"^export ARVADOS_API_HOST=(\S+)$", directory.env.read_text(), re.MULTILINE
        )
    except OSError:
        match = None
    if match is None:
        raise Invalid(
            f"{directory.root}: no server keeps its data here; "
            "start one with 'lading up', or name --data"
        )
    return f"https://{match[1]}"


def read_membership(file: Path) -> Membership:
    """Read the file written by `invite`. Raises Invalid."""
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Membership)
    except (OSError, msgspec.DecodeError) as error:
        raise Invalid(f"{file}: not a file of 'lading admin dispatcher-token' ({error})") from error
    return check(found)


def check(membership: Membership) -> Membership:
    """Check a membership and return it. Raises Invalid."""
    if not membership.api.startswith("https://"):
        raise Invalid(f"{membership.api}: not the address of a server; write https://HOST:PORT")
    if membership.token.count("/") != 2 or not membership.token.startswith("v2/"):
        raise Invalid(
            "the token is not a v2/UUID/SECRET one; make one with 'lading admin dispatcher-token'"
        )
    return membership


def run_further(
    membership: Membership,
    *,
    fleet: str,
    data: Path,
    config: Path | None,
    on_ready: Callable[[DispatcherReady], None],
) -> int:
    """Dispatch until TERM or INT; the exit code of the command.

    Raises Invalid for a configuration or fleet that cannot be used, Conflict when the data
    directory is in use.
    """
    directory = DataDirectory(data.absolute())
    directory.prepare(say=say)
    lock = directory.claim()
    try:
        known = load(config)
        configure_logs(known)
        asyncio.run(_serve(check(membership), fleet, directory, known, on_ready))
    except asyncio.CancelledError:
        # SIGTERM: the orderly end. Containers continue.
        return 0
    finally:
        os.close(lock)
    return 0


async def _serve(
    membership: Membership,
    name: str,
    directory: DataDirectory,
    config: Config,
    on_ready: Callable[[DispatcherReady], None],
) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    authority = directory.root / _CERTIFICATE
    if membership.certificate:
        write_private(authority, membership.certificate.encode())
    verify = authority if membership.certificate else True
    config = with_engine(config, name, engine_search(config.Containers))
    site = FleetSite(
        config=config,
        token=membership.token.split("/")[1],
        run_directory=directory.run,
        cache_directory=directory.cache,
        template=template(
            config,
            address=membership.api.removeprefix("https://"),
            insecure=bool(membership.certificate),
        ),
        api_url=membership.api,
        certificate=membership.certificate,
        certificate_path=str(authority) if membership.certificate else "",
        internet_fault=internet_fault(config.Containers.RuntimeEngine, directory.root),
    )
    ready = DispatcherReady(api=membership.api, fleet=name, data=directory.root)
    async with HttpTransport(membership.api, verify=verify) as transport:
        client = ApiClient(transport, membership.token, timeout=API_TIMEOUT)
        await dispatch(client, name, site, directory, on_ready=Once(lambda: on_ready(ready)))
