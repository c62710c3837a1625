"""Shell sessions and tunnels of running containers: the calls that open them.

    POST connect/UUID/ssh, containers/UUID/ssh
                                Upgrade: ssh; form login_username, detach_keys, no_forward, probe
    POST .../gateway_tunnel     Upgrade: tunnel; form auth_secret; from the container's supervisor

UUID is that of a container or of a request, which stands for its container. All checks come before
the upgrade: a caller gets 101 only after the gateway has responded and was verified. The beginning
and end of each session are recorded in the audit trail, and `interactive_session_started` is set
once, before the first byte is forwarded. Source: docs/spec/shell, sections Tunnel and Sessions.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from lading.api import authorization
from lading.api.container_access import entering
from lading.api.container_access.entering import Entrance
from lading.api.container_access.gateway_client import (
    Gateway,
    elsewhere,
    make_claim,
    reach,
    read_claim,
)
from lading.api.events import audit
from lading.api.http import ApiCall, ApiResponse
from lading.api.transaction import UnitOfWork
from lading.core import ids
from lading.core.containers import lifecycle, sessions, writers
from lading.core.containers.container import FINAL, TUNNEL, Container
from lading.core.containers.sessions import Places
from lading.core.errors import Gone, Invalid, LadingError, Unauthenticated, Unavailable
from lading.core.protocols.forwarding_claims import Purpose, check_container
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.log_rows import LogRowType
from lading.core.records.schema import Record
from lading.net.http_upgrade import parse_url, switch, trusting
from lading.net.pipes import Pipe, join
from lading.process.telemetry import event
from lading.store import records
from lading.store.database import Transaction

_logger = logging.getLogger("lading.api.container_access.shell_sessions")


async def open_shell(call: ApiCall) -> ApiResponse:
    """Connect the caller to an SSH server in the container; with `probe` only tell that this is
    possible.
    """
    _check_upgrade(call, "ssh")
    services = call.services
    async with services.database.reading() as tx:
        row = await find_target(tx, call, call.uuid)
        container = Container.from_record(row)
        # Said first to who can read it: nobody may enter it any more.
        if container.state in FINAL:
            sessions.check_state(container.uuid, container.state)
        await entering.check_session(tx, services.access, container, call.caller)
        await entering.check_wanted(tx, services.policy, container)
    # Another server has checked the caller already, and signs for its address.
    claim = read_claim(services, call.headers, Purpose.SHELL)
    if claim is not None:
        check_container(claim, container.uuid)
        call.address = claim.address
    sessions.check_state(container.uuid, container.state)
    url = elsewhere(
        services.config,
        services.access,
        container,
        forwarded=claim is not None or bool(call.params.get("no_forward")),
    )
    if url is not None:
        return await _forward(call, container, url)
    # Before the answer 101: a gateway that cannot be reached is an error with a status.
    gateway = await reach(services.access, container)
    form = {name: str(call.params.get(name) or "") for name in ("login_username", "detach_keys")}
    if call.params.get("probe"):
        await gateway.pipe.close()
        return ApiResponse(body={"uuid": container.uuid})
    await switch(
        gateway.pipe,
        "/ssh",
        "ssh",
        host=container.uuid,
        headers=gateway.headers,
        form=form,
        check=gateway.check,
    )
    try:
        # Written before the first byte passes: no session is without a row, however it ends.
        await _begin(call, container, form["login_username"])
    except BaseException:
        await gateway.pipe.close()
        raise
    return ApiResponse(
        status=101,
        headers=_switched("ssh"),
        session=lambda pipe: _attend(call, container, gateway, pipe),
    )


async def open_tunnel(call: ApiCall) -> ApiResponse:
    """Accept the tunnel of a gateway, whose supervisor proves itself with the key of the
    container.
    """
    _check_upgrade(call, TUNNEL)
    services, uuid = call.services, call.uuid
    async with services.database.reading() as tx:
        row = await records.get(tx, CONTAINERS, uuid)
    refused = Unauthenticated(
        "Not logged in: this is not the supervisor of the container, or has another secret"
    )
    # In the same words: another caller must not learn which containers there are.
    if row is None:
        raise refused
    role = writers.role_of(Container.from_record(row), writers.as_writer(call.caller, uuid))
    secret = call.params.get("auth_secret")
    keys = [services.access.gateway_key(uuid)] if role in writers.HOLDERS else []
    if role is writers.Role.HOLDER:
        # Arvados' dispatchers derive it from their own token.
        keys.append(sessions.container_key(call.caller.token, uuid))
    if not isinstance(secret, str) or not any(sessions.is_proof(secret, key) for key in keys):
        raise refused
    # Checked before the upgrade, as afterwards no status can be sent.
    sessions.check_tunnel_state(uuid, Container.from_record(row).state)
    services.access.tunnels.check_room(uuid)
    services.access.supervisors.note_writer(Container.from_record(row), role, call.caller.token)
    await _note_tunnel(call)
    headers = {**_switched(TUNNEL), "X-Arvados-Internal-Url": services.config.ExternalURL}

    async def attend(pipe: Pipe) -> None:
        try:
            await services.access.tunnels.serve(uuid, pipe)
        finally:
            # The supervisor connects again, maybe to another server, and posts its log there.
            services.access.spool.mark_left(uuid)

    return ApiResponse(status=101, headers=headers, session=attend)


async def _note_tunnel(call: ApiCall) -> None:
    """Store in the record that this server has the tunnel, for the other servers."""
    services = call.services
    async with services.database.writing() as tx:
        row = await records.get(tx, CONTAINERS, call.uuid)
        if row is None:
            raise Gone(f"{call.uuid}: has been deleted")
        caller = writers.as_writer(call.caller, call.uuid)
        url = services.config.ExternalURL
        change = lifecycle.update(
            Container.from_record(row),
            {"gateway_address": f"{TUNNEL} {url}"},
            caller=caller,
            now=services.clock.now(),
            places=Places(server=url),
        )
        if change.changed:
            unit = UnitOfWork(tx, services, user_uuid=call.caller.user_uuid)
            await unit.change_container(row, change)
            await unit.settle()


async def gone(call: ApiCall) -> ApiResponse:
    """Refuse the old form of the calls. Raises Gone."""
    raise Gone(f"{call.path}: send POST with the header 'Upgrade'; this form is no longer served")


async def find_target(tx: Transaction, call: ApiCall, uuid: str) -> Record:
    """The container that a uuid names, or that of the request that it names, if the caller can read
    it. Raises NotFound, Unavailable without a container.
    """
    services = call.services
    if ids.infix_of(uuid) == ids.Infix.REQUEST:
        request = await authorization.find_readable(
            tx, services.clock, services.config, REQUESTS, uuid, call.caller
        )
        container = (
            await records.get(tx, CONTAINERS, request["container_uuid"])
            if request["container_uuid"]
            else None
        )
        if container is None:
            raise Unavailable(f"{uuid}: has no container yet; try again when it runs")
        return container
    return await authorization.find_readable(
        tx, services.clock, services.config, CONTAINERS, uuid, call.caller
    )


def _check_upgrade(call: ApiCall, protocol: str) -> None:
    if call.params.get("probe"):
        return
    if call.headers.get("upgrade", "").lower() != protocol:
        raise Invalid(f"Upgrade: must be '{protocol}'; use 'lading shell'")
    if call.take_over is None:
        raise Unavailable("this connection cannot be switched to another protocol; use HTTP/1.1")


def _switched(protocol: str) -> dict[str, str]:
    return {"Connection": "upgrade", "Upgrade": protocol}


async def _forward(call: ApiCall, container: Container, url: str) -> ApiResponse:
    """Forward the call to another server of this installation, which has the same certificate,
    without the token.
    """
    tls = trusting(call.services.access.certificate)
    form: Mapping[str, str] = {
        "no_forward": "true",
        **{
            name: str(call.params.get(name) or "")
            for name in ("login_username", "detach_keys", "probe")
        },
    }
    claim = make_claim(
        call.services.clock,
        call.services.access,
        url,
        call.caller,
        container.uuid,
        Purpose.SHELL,
        address=call.address,
    )
    pipe = await parse_url(url, tls).open()
    headers = {**claim, "X-Request-Id": call.request_id}
    host = url.removeprefix("https://").rstrip("/")
    await switch(pipe, call.path, "ssh", host=host, headers=headers, form=form)

    entrance = Entrance(principal=call.caller, container_uuid=container.uuid)

    async def attend(near: Pipe) -> None:
        async with entering.watched(call.services, entrance, pipe):
            await join(near, pipe, call.services.access.turns)

    return ApiResponse(status=101, headers=_switched("ssh"), session=attend)


async def _begin(call: ApiCall, container: Container, login: str) -> None:
    """Write a log row of the beginning of a session, and set `interactive_session_started`."""
    services = call.services
    async with services.database.writing() as tx:
        row = await records.get(tx, CONTAINERS, container.uuid)
        if row is None:
            raise Gone(f"{container.uuid}: has been deleted")
        # Once is enough; the mark keeps the result from being reused.
        if not row["interactive_session_started"]:
            unit = UnitOfWork(tx, services, user_uuid=services.ids.system_user)
            if not services.policy.reuse_after_shell:
                await entering.let_others_go(unit, container)
            row = await unit.change_container(row, lifecycle.enter(Container.from_record(row)))
            await unit.settle()
        # Without a name in the form the SSH client names the user, in bytes that pass unread.
        await _note(tx, call, row, LogRowType.SHELL, {"login_username": login} if login else {})


async def _attend(call: ApiCall, container: Container, gateway: Gateway, pipe: Pipe) -> None:
    """Pass bytes until the session ends, and write a log row of its length."""
    services = call.services
    began = services.clock.time()
    moved = 0
    try:
        entrance = Entrance(principal=call.caller, container_uuid=container.uuid)
        async with entering.watched(services, entrance, gateway.pipe):
            moved = await join(pipe, gateway.pipe, services.access.turns)
    finally:
        seconds = round((services.clock.time() - began).total_seconds(), 3)
        event(
            _logger,
            "session ended",
            container=container.uuid,
            user=call.caller.user_uuid,
            seconds=seconds,
        )
        try:
            async with services.database.writing() as tx:
                row = await records.get(tx, CONTAINERS, container.uuid)
                if row is not None:
                    await _note(
                        tx, call, row, LogRowType.SHELL_END, {"seconds": seconds, "bytes": moved}
                    )
        # A missing row of the end must not break the session's end: it is over in any case.
        except LadingError as error:
            _logger.error("session of %s not written down: %s", container.uuid, error.message)


async def _note(
    tx: Transaction, call: ApiCall, row: Record, kind: LogRowType, more: Record
) -> None:
    user = call.caller.user_uuid
    properties = {"user_uuid": user, "address": call.address, "request_id": call.request_id, **more}
    what = "entered" if kind is LogRowType.SHELL else "left"
    await audit.note(tx, call.services, row, kind, f"{user} {what} {row['uuid']}", properties)


HANDLERS: Final = {"ssh": open_shell, "gateway_tunnel": open_tunnel}
