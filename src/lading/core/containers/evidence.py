"""Evidence about a result: other runs of the same recipe, and withdrawal.

Runs of one recipe (`recipe.broad_key`, so that sizes do not count) whose command ended with the
same exit code and the same output, by its portable data hash, reproduce each other. Results that
were withdrawn are no evidence.

A user who can read a result withdraws it for their own requests. For all it is withdrawn by the
user for whom it ran, by who manages the first request of that user for it, and by administrators;
it is restored by who withdrew it, and by administrators. Source: docs/provenance.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lading.core.containers.container import Container, ContainerState
from lading.core.errors import Conflict, Forbidden, Invalid
from lading.core.values import JsonObject, text

LONGEST_REASON: Final = 1000
"""Characters of a reason for a withdrawal."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Number of other runs with the same result, of all runs that ended."""

    equal: int = 0
    of: int = 0

    @property
    def is_reproduced(self) -> bool:
        """Whether there was another run, and each gave the same."""
        return 0 < self.equal == self.of

    @property
    def repeats(self) -> bool:
        """False once another run gave something else."""
        return self.equal == self.of


def evidence_for(container: Container, others: Iterable[Container]) -> Evidence:
    """The evidence of other containers about the result of one."""
    equal = total = 0
    for candidate in others:
        if is_repeat(container, candidate):
            total += 1
            equal += is_equal(container, candidate)
    return Evidence(equal, total)


def is_repeat(container: Container, candidate: Container) -> bool:
    """Whether `candidate` is another run of the container's recipe, with a result that stands."""
    return (
        candidate.uuid != container.uuid
        and candidate.broad_key is not None
        and candidate.broad_key == container.broad_key
        and candidate.state is ContainerState.COMPLETE
        and candidate.withdrawn_at is None
    )


def is_equal(container: Container, candidate: Container) -> bool:
    """Whether both ended with the same exit code and output."""
    return (container.exit_code, container.output) == (candidate.exit_code, candidate.output)


def check_withdrawal(
    container: Container, *, user_uuid: str, is_admin: bool, manages_first: bool
) -> None:
    """Check that a user may withdraw a result for all. `manages_first`: whether the user manages
    the oldest request for it of the user for whom it ran. Raises Forbidden, Conflict.
    """
    if is_admin:
        return
    if not manages_first and container.runtime_user_uuid != user_uuid:
        raise Forbidden(
            f"Forbidden: {container.uuid}: you may not withdraw this result for all: that is for "
            "the user for whom it ran and for administrators; with own=true you withdraw it for "
            "your own requests"
        )
    if container.withdrawn_at is not None and container.withdrawn_by_uuid != user_uuid:
        raise Conflict(f"{container.uuid}: its result was withdrawn by another user already")


def check_restoring(container: Container, *, user_uuid: str, is_admin: bool) -> None:
    """Check that a user may restore a result for all. Raises Forbidden."""
    if container.withdrawn_at is None or is_admin or container.withdrawn_by_uuid == user_uuid:
        return
    raise Forbidden(
        f"Forbidden: {container.uuid}: you may not restore this result: that is for the user who "
        "withdrew it and for administrators"
    )


def read_reason(container: Container, reason: object) -> str:
    """The reason for a withdrawal of the result of a container. Raises Conflict, Invalid."""
    checked = text("reason", reason)  # type: ignore[arg-type]
    if container.state is not ContainerState.COMPLETE:
        raise Conflict(
            f"{container.uuid}: is {container.state}; only the result of a Complete container "
            "can be withdrawn"
        )
    if not isinstance(checked, str) or not checked.strip() or len(checked) > LONGEST_REASON:
        raise Invalid(f"reason: must be a text of 1 to {LONGEST_REASON} characters")
    return checked.strip()


def withdraw(container: Container, reason: object, *, user_uuid: str, now: str) -> JsonObject:
    """The changes that take a result out of reuse. Raises Conflict, Invalid."""
    return {
        "withdrawn_at": now,
        "withdrawn_by_uuid": user_uuid,
        "withdrawn_reason": read_reason(container, reason),
    }


def restore() -> JsonObject:
    """The changes that let a result be reused again."""
    return {"withdrawn_at": None, "withdrawn_by_uuid": None, "withdrawn_reason": None}
