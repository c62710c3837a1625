"""Containers that a token holds which has ended: nobody else may write them, and no dispatcher will
end them (docs/spec/containers, section Lost dispatchers).

- One that is Locked is given back, so that another dispatcher can run it.
- One that is Running goes on while its supervisor is heard of: it can end with its result. It is
  ended once its supervisor has been silent for SUPERVISOR_LEASE.
- One that nothing wants any more, with priority 0, is ended at once. The end revokes the token of
  its supervisor, which stops the command then.
"""

from __future__ import annotations

from typing import Final

from lading.core.containers import lifecycle
from lading.core.containers.container import Container, ContainerState
from lading.core.containers.lifecycle import ContainerChange
from lading.core.errors import Failure, Invalid
from lading.core.quantities import later
from lading.core.values import Json, text

SUPERVISOR_LEASE: Final = 180.0
"""Seconds: a supervisor posts samples of its container every ten seconds."""

LONGEST_REASON: Final = 1000
"""Characters of the reason for which an admin ends a container."""

UNWANTED: Final = (
    "No request wants it any more, and the token of its dispatcher was revoked or has expired."
)
SILENT: Final = (
    "The token of its dispatcher was revoked or has expired, "
    f"and its supervisor was not heard of for {SUPERVISOR_LEASE:.0f} seconds."
)
GIVEN_BACK: Final = (
    "Given back: the token of the dispatcher that had locked it was revoked or has expired."
)


def take_back(
    container: Container, *, now: str, heard: str, max_attempts: int
) -> tuple[ContainerChange, str] | None:
    """The change of a container whose holder's token has ended, with the reason; None while it may
    go on. `heard` is the time at which its supervisor was last heard of, or at which its dispatcher
    was found to be lost.
    """
    if container.priority <= 0:
        return _end(container, now=now, reason=UNWANTED)
    if container.state is ContainerState.LOCKED:
        change = lifecycle.give_back(container, now=now, max_attempts=max_attempts)
        return change, GIVEN_BACK
    if later(heard, SUPERVISOR_LEASE) > now:
        return None
    return _end(container, now=now, reason=SILENT)


def end_by_admin(
    container: Container, *, now: str, username: str, reason: Json
) -> tuple[ContainerChange, str]:
    """The change of a container that an admin ends, whoever holds it, and the reason for its
    record. Its requests are tried again as after any loss; one that must not is cancelled itself.
    Raises IllegalTransition, Invalid.
    """
    said = text("reason", "" if reason is None else reason)
    if not isinstance(said, str) or len(said) > LONGEST_REASON:
        raise Invalid(f"reason: must be a text of at most {LONGEST_REASON} characters")
    detail = f": {said.strip()}" if said.strip() else "."
    return _end(container, now=now, reason=f"Ended by the administrator {username}{detail}")


def _end(container: Container, *, now: str, reason: str) -> tuple[ContainerChange, str]:
    change = lifecycle.cancel(container, now=now, reason=reason, failure=Failure.INFRASTRUCTURE)
    return change, reason
