"""Who may enter a container: the facts that `core.policy.entering` decides with, and the links
by which the user of a container lets others in.

Such a link has the class `container_access`. Its tail is the user who is let in, its head a
container request or a container. It belongs to its maker, is never changed, and counts only for
containers that run as its maker. A token of a container makes none: what runs in a container must
not open the way to the other containers of its user.

A caller is checked again at intervals (`watched`): a session or a long connection to a port ends
soon after the link, the token or the account does.

Source: docs/spec/shell, section Entering.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from lading.api import authorization
from lading.api.container_access import gateway_client
from lading.api.container_access.access import ContainerAccess
from lading.api.http import ApiCall
from lading.api.server.upkeep import ENTRANCE_CHECKS
from lading.api.services import ApiServices
from lading.api.transaction import UnitOfWork
from lading.core import ids
from lading.core.containers import request, request_phases
from lading.core.containers.constraints import Policy
from lading.core.containers.container import Container
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Conflict, Forbidden, Invalid, LadingError, NotFound, Unauthenticated
from lading.core.ids import Infix
from lading.core.policy import entering
from lading.core.policy.entering import Entrant
from lading.core.records.access import Principal, check_active
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.permissions import CAN_ENTER, CONTAINER_ACCESS
from lading.core.records.record_types import LINKS
from lading.core.records.schema import Record
from lading.net.pipes import Pipe
from lading.process.concurrency import cancel_all
from lading.process.telemetry import event
from lading.store import records
from lading.store.database import Transaction

_logger = logging.getLogger("lading.api.container_access.entering")
_FIXED: Final = ("link_class", "name", "owner_uuid", "tail_uuid", "head_uuid")


async def check_session(
    tx: Transaction, container_access: ContainerAccess, container: Container, principal: Principal
) -> None:
    """Check that the caller may open a session in a container. Raises Forbidden, Unavailable."""
    entering.check_token(container, principal)
    admin, user = container_access.shell_access
    callers = await _entrants(tx, container, principal)
    entering.check_session(container, callers, admin=admin, user=user)


async def check_port(
    tx: Transaction,
    container_access: ContainerAccess,
    container: Container,
    port: int,
    principal: Principal,
) -> None:
    """Check that the caller may reach a port that is not public. Raises Forbidden."""
    entering.check_port_token(container, principal)
    callers = await _entrants(tx, container, principal)
    entering.check_port(
        container,
        callers,
        is_published=str(port) in container.published_ports,
        admin=container_access.shell_access[0],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """A caller inside a container: by a session, or at the port `port`."""

    principal: Principal
    container_uuid: str
    port: int | None = None


@asynccontextmanager
async def watched(
    services: ApiServices, entrance: Entrance | None, pipe: Pipe
) -> AsyncIterator[None]:
    """Context in which the connection `pipe` to a container is cut off once the caller may not be
    there any more. None is a caller of a public port, who is not watched.
    """
    if entrance is None:
        yield
        return
    watching = asyncio.create_task(_until_refused(services, entrance), name="check of an entrance")
    watching.add_done_callback(lambda done: None if done.cancelled() else _cut_off(pipe))
    try:
        yield
    finally:
        await cancel_all(watching)


def _cut_off(pipe: Pipe) -> None:
    pipe.writer.transport.abort()


async def _until_refused(services: ApiServices, entrance: Entrance) -> None:
    while True:
        await asyncio.sleep(services.features[ENTRANCE_CHECKS].interval)
        try:
            await _check_again(services, entrance)
        except (Unauthenticated, Forbidden, NotFound) as error:
            event(
                _logger,
                "caller cut off",
                container=entrance.container_uuid,
                user=entrance.principal.user_uuid,
                why=error,
            )
            return
        except LadingError:
            # The database does not answer for the moment.
            continue


async def _check_again(services: ApiServices, entrance: Entrance) -> None:
    """Check a caller that was let in before. Raises Unauthenticated, Forbidden, NotFound."""
    principal = await gateway_client.renewed(services, entrance.principal)
    check_active(principal)
    async with services.database.reading() as tx:
        uuid = entrance.container_uuid
        row = await authorization.find_readable(
            tx, services.clock, services.config, CONTAINERS, uuid, principal
        )
        container = Container.from_record(row)
        if entrance.port is None:
            await check_session(tx, services.access, container, principal)
        else:
            await check_port(tx, services.access, container, entrance.port, principal)


async def _entrants(
    tx: Transaction, container: Container, principal: Principal
) -> frozenset[Entrant]:
    if principal.user_uuid == container.runtime_user_uuid:
        return entering.entrants(container, principal)
    links = await records.matching(
        tx, LINKS, link_class=CONTAINER_ACCESS, tail_uuid=principal.user_uuid
    )
    heads = {container.uuid}
    if links:
        rows = await records.matching(tx, REQUESTS, container_uuid=container.uuid)
        heads |= {str(row["uuid"]) for row in rows}
    inviters = {str(link["owner_uuid"]) for link in links if link["head_uuid"] in heads}
    return entering.entrants(container, principal, inviters)


async def check_wanted(tx: Transaction, policy: Policy, container: Container) -> None:
    """Check that a first session would not end its container: it takes the requests of other users
    to another one (`let_others_go`), and a container that no request wants is cancelled. Raises
    Conflict.
    """
    if container.interactive_session_started or policy.reuse_after_shell:
        return
    rows = await records.matching(
        tx, REQUESTS, container_uuid=container.uuid, state=request_phases.RequestState.COMMITTED
    )
    are_own = [_is_own(request, container) for request in map(ContainerRequest.from_record, rows)
              if request.priority]  # fmt: skip
    if are_own and not any(are_own):
        raise Conflict(
            f"{container.uuid}: its user's requests were cancelled, and it runs for those of "
            "others, whom a session would send to another container; raise the priority of a "
            "request of yours, or submit one"
        )


async def let_others_go(unit: UnitOfWork, container: Container) -> None:
    """Give the requests of other users another container, before somebody enters this one: its
    result may then be that of the session.
    """
    for row, subject in await unit.committed(container.uuid):
        if not _is_own(subject, container):
            released = request.release(subject)
            sought = request.then(released, request.defer(released.request))
            await unit.change_request(row, sought)


def _is_own(subject: ContainerRequest, container: Container) -> bool:
    """Whether a request is one of the user whom its container runs as."""
    if subject.runtime_token is not None:
        return subject.runtime_token == container.runtime_token
    return subject.committed_by_uuid == container.runtime_user_uuid


async def add_link(tx: Transaction, call: ApiCall, link: Record) -> Record:
    """Check a link that lets a user in; an equal one that exists already, or the checked one.
    Raises Invalid, Forbidden.
    """
    caller, head, tail = call.caller, str(link["head_uuid"]), str(link["tail_uuid"])
    if caller.container_uuid is not None or link["owner_uuid"] != caller.user_uuid:
        raise Forbidden(
            "Forbidden: a user lets others into a container with an own token, "
            "and is the owner of the link"
        )
    if link["name"] != CAN_ENTER:
        raise Invalid(f"name: a link of the class {CONTAINER_ACCESS} is called {CAN_ENTER}")
    if not ids.is_uuid(tail, Infix.USER) or tail == caller.user_uuid:
        raise Invalid("tail_uuid: must be the uuid of another user; each is let in by name")
    await _check_head(tx, call, head)
    for name, uuid in (("tail_uuid", tail), ("head_uuid", head)):
        if not await authorization.can_refer(
            tx, call.services.clock, call.services.config, uuid, caller
        ):
            raise Invalid(f"{name}: '{uuid}' not found")
    ends = {"link_class": CONTAINER_ACCESS, "owner_uuid": caller.user_uuid}
    same = await records.matching(tx, LINKS, head_uuid=head, tail_uuid=tail, **ends)
    return same[0] if same else link


async def _check_head(tx: Transaction, call: ApiCall, head: str) -> None:
    infix = ids.infix_of(head) if ids.is_uuid(head) else None
    kind = {REQUESTS.infix: REQUESTS, CONTAINERS.infix: CONTAINERS}.get(infix or "")
    if kind is None:
        raise Invalid("head_uuid: must be that of a container request or a container")
    row = await authorization.find_readable(
        tx, call.services.clock, call.services.config, kind, head, call.caller
    )
    user = row["committed_by_uuid"] if kind is REQUESTS else row["runtime_user_uuid"]
    if kind is REQUESTS and row["container_uuid"]:
        container = await records.get(tx, CONTAINERS, row["container_uuid"])
        user = container["runtime_user_uuid"] if container else user
    if user != call.caller.user_uuid:
        raise Forbidden(
            f"Forbidden: {head}: only the user whom a container runs as lets others into it"
        )


def check_unchanged(old: Record, new: Record) -> None:
    """Refuse to change a link that lets a user in, or to make one of another link. Raises
    Invalid.
    """
    if CONTAINER_ACCESS in (old["link_class"], new["link_class"]) and any(
        old[name] != new[name] for name in _FIXED
    ):
        raise Invalid(
            f"link_class: a link of the class {CONTAINER_ACCESS} cannot be changed; "
            "delete it and make another"
        )
