"""Effects: actions that a change of a record requests from the server in the same transaction.

Effects are values: `core` decides, the server acts. They are listed in the order in which they must
be carried out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class MintTokens:
    """Store the two tokens of a container that was just locked. Source: docs/spec/api, section
    Authentication; docs/spec/decisions.

    `auth_uuid` acts for `user_uuid` with `scopes` (null when the request brought its own runtime
    token); `supervisor_uuid` may change this one container and nothing else.
    """

    container_uuid: str
    auth_uuid: str | None
    supervisor_uuid: str
    user_uuid: str
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RevokeTokens:
    """Let these tokens expire now."""

    token_uuids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RefreshLog:
    """Update the log collection of every Committed request of the container
    (`finalize.refresh_log`).
    """

    container_uuid: str
    log: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The container ended: retry or finalize its Committed requests (`finalize.plan_retries`, then
    `finalize.finalize`).
    """

    container_uuid: str


@dataclass(frozen=True, slots=True)
class CancelChildren:
    """The container ended: cancel every Committed request that it made (`request.cancel`)."""

    container_uuid: str


@dataclass(frozen=True, slots=True)
class Reprioritise:
    """Recompute the priority of these containers, unless they have ended, and of their children.
    See `priority`.
    """

    container_uuids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReprioritiseChildren:
    """The priority of the container was set by hand: recompute its children."""

    container_uuid: str


@dataclass(frozen=True, slots=True)
class Resolve:
    """Find or create the container of a request (`recipe.resolve`, `reuse.choose`), then
    `request.assign`.
    """


@dataclass(frozen=True, slots=True)
class Adopt:
    """The client chose a container: load it if the client can read it, `recipe.check_adoption`,
    `request.assign`.
    """

    container_uuid: str


@dataclass(frozen=True, slots=True)
class Confirm:
    """A draft is committed with its assigned container: check that it still satisfies the request,
    or resolve.
    """

    container_uuid: str


ContainerEffect: TypeAlias = (
    MintTokens | RevokeTokens | RefreshLog | Finish | CancelChildren | ReprioritiseChildren
)
RequestEffect: TypeAlias = Resolve | Adopt | Confirm | Reprioritise
