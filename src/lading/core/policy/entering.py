"""Who may enter a running container, by a session (shell, command, sftp, forwarded port) or by an
HTTP request to a port of it.

A container is entered as the user whom it runs as (`runtime_user_uuid`), whatever others have
written into its requests and whoever shares them. Three kinds of callers may enter (`Entrant`):

    user    the user whom the container runs as
    guest   a user whom that user has let in by name: a link of the class `container_access`
    admin   an administrator, where Containers.ShellAccess.Admin says so

A container may have rights of its user inside: the API token, a runtime token, secrets, live
directories (`user_rights`). A session sees all of them, since it may run as root beside the
command. Such a container has sessions of its user alone. Guests still reach the ports that it
publishes: what a command serves there is up to the command.

Tokens that run containers open no session: those of dispatchers and supervisors, the token that has
locked the container, and the tokens of containers (`check_token`, `check_port_token`).

Source: docs/spec/shell, section Entering.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from types import MappingProxyType

from lading.core.containers.container import Container
from lading.core.containers.mounting import mounts
from lading.core.errors import Forbidden, Unavailable
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.values import EMPTY_OBJECT_DIGEST


class Entrant(StrEnum):
    """Relation of a caller to a container; a caller may have several, or none."""

    USER = "user"
    GUEST = "guest"
    ADMIN = "admin"


class _Verdict(StrEnum):
    OK = "ok"
    OFF = "off"
    NOT_YOURS = "not yours"


_OK, _OFF, _NOT_YOURS = _Verdict.OK, _Verdict.OFF, _Verdict.NOT_YOURS
_SESSIONS: Mapping[Entrant | None, Mapping[tuple[bool, bool], _Verdict]] = MappingProxyType(
    {
        # (ShellAccess.Admin, ShellAccess.User)
        Entrant.USER: {
            (True, True): _OK,
            (True, False): _OFF,
            (False, True): _OK,
            (False, False): _OFF,
        },
        Entrant.GUEST: {
            (True, True): _OK,
            (True, False): _OFF,
            (False, True): _OK,
            (False, False): _OFF,
        },
        Entrant.ADMIN: {
            (True, True): _OK,
            (True, False): _OK,
            (False, True): _NOT_YOURS,
            (False, False): _OFF,
        },
        None: {
            (True, True): _NOT_YOURS,
            (True, False): _OFF,
            (False, True): _NOT_YOURS,
            (False, False): _OFF,
        },
    }
)
"""Verdicts on sessions by entrant (None for other callers) and switches."""


def entrants(
    container: Container, principal: Principal, inviters: Collection[str] = ()
) -> frozenset[Entrant]:
    """Relations of a caller to a container. `inviters` are the makers of links that let the caller
    in; only the link of the container's user counts.
    """
    user = container.runtime_user_uuid
    relations = set()
    if user is not None and principal.user_uuid == user:
        relations.add(Entrant.USER)
    if user is not None and user in inviters:
        relations.add(Entrant.GUEST)
    if principal.is_admin:
        relations.add(Entrant.ADMIN)
    return frozenset(relations)


def check_token(container: Container, principal: Principal) -> None:
    """Refuse sessions to tokens that run containers. Raises Forbidden."""
    if principal.container_uuid is not None:
        raise Forbidden("Forbidden: the token of a container opens no session; use your own token")
    if _runs_containers(container, principal):
        raise Forbidden("Forbidden: the token of a dispatcher opens no session; use your own token")


def check_port_token(container: Container, principal: Principal) -> None:
    """Refuse ports that are not public to tokens of dispatchers and supervisors. Raises Forbidden.

    The token of a container counts as its user's: a workflow calls the services that it has
    started.
    """
    if _runs_containers(container, principal):
        raise Forbidden("Forbidden: the token of a dispatcher reaches no port; use your own token")


def _runs_containers(container: Container, principal: Principal) -> bool:
    """Whether a token is that of a supervisor, or of a dispatcher: it has locked the container, or
    is a limited one that may lock it.
    """
    if principal.supervises is not None:
        return True
    if principal.token_uuid and principal.token_uuid == container.locked_by_uuid:
        return True
    path = f"/arvados/v1/containers/{container.uuid}/lock"
    return principal.is_dispatcher or (
        access.is_limited(principal) and access.covers(principal, "POST", path)
    )


def check_session(
    container: Container, callers: Collection[Entrant], *, admin: bool, user: bool
) -> None:
    """Check that a caller with these relations may open a session. `admin` and `user` are the keys
    of Containers.ShellAccess. Raises Unavailable, Forbidden.
    """
    verdicts = {_SESSIONS[caller][admin, user] for caller in callers or (None,)}
    if _OK not in verdicts and _OFF in verdicts:
        raise Unavailable(
            "sessions in containers are switched off; "
            "see Containers.ShellAccess in the configuration"
        )
    if _OK not in verdicts:
        raise Forbidden(
            "Forbidden: the container is not yours: it runs as another user; "
            "that user can let you in with 'lading share REQUEST USER --enter'"
        )
    if Entrant.USER not in callers and (rights := user_rights(container)):
        raise Forbidden(
            f"Forbidden: the container has {rights} inside, so only its user may enter it"
        )


def check_port(
    container: Container, callers: Collection[Entrant], *, is_published: bool, admin: bool
) -> None:
    """Check that a caller with these relations may reach a port that is not public. Raises
    Forbidden.
    """
    if Entrant.USER in callers:
        return
    rights = user_rights(container)
    if Entrant.GUEST in callers and (is_published or not rights):
        return
    if Entrant.ADMIN in callers and admin and not rights:
        return
    if callers and rights:
        raise Forbidden(
            f"Forbidden: the container has {rights} inside, so this port is for its user alone"
        )
    raise Forbidden(
        "Forbidden: the container is not yours, and the port is not public; "
        "its user can let you in with 'lading share REQUEST USER --enter'"
    )


def user_rights(container: Container) -> str:
    """Rights of its user that a container has inside, in words; "" if there are none."""
    if container.runtime_constraints.get("API") is True or container.runtime_token:
        return "an API token of its user"
    if (container.secret_mounts_md5 or EMPTY_OBJECT_DIGEST) != EMPTY_OBJECT_DIGEST:
        return "secrets of its user"
    if mounts.live_places(container.mounts):
        return "live directories of its user"
    return ""
