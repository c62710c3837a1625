"""Evidence about a result: other runs of the same recipe, and withdrawal.

Runs of one recipe (`recipe.broad_key`, so that sizes do not count) whose command ended with the
same exit code and the same output, by its portable data hash, reproduce each other. Results that
were withdrawn are no evidence. Source: docs/provenance.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lading.core.containers.container import Container, ContainerState
from lading.core.errors import Conflict, Invalid
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
    for one in others:
        if is_repeat(container, one):
            total += 1
            equal += is_equal(container, one)
    return Evidence(equal, total)


def is_repeat(container: Container, other: Container) -> bool:
    """Whether `other` is another run of the recipe of `container`, with a result that stands."""
    return (
        other.uuid != container.uuid
        and other.broad_key is not None
        and other.broad_key == container.broad_key
        and other.state is ContainerState.COMPLETE
        and other.withdrawn_at is None
    )


def is_equal(container: Container, other: Container) -> bool:
    """Whether both ended with the same exit code and output."""
    return (container.exit_code, container.output) == (other.exit_code, other.output)


def withdraw(container: Container, reason: object, *, user_uuid: str, now: str) -> JsonObject:
    """The changes that take a result out of reuse. Raises Conflict, Invalid."""
    said = text("reason", reason)  # type: ignore[arg-type]
    if container.state is not ContainerState.COMPLETE:
        raise Conflict(
            f"{container.uuid}: is {container.state}; only the result of a Complete container "
            "can be withdrawn"
        )
    if not isinstance(said, str) or not said.strip() or len(said) > LONGEST_REASON:
        raise Invalid(f"reason: must be a text of 1 to {LONGEST_REASON} characters")
    return {
        "withdrawn_at": now,
        "withdrawn_by_uuid": user_uuid,
        "withdrawn_reason": said.strip(),
    }


def restore() -> JsonObject:
    """The changes that let a result be reused again."""
    return {"withdrawn_at": None, "withdrawn_by_uuid": None, "withdrawn_reason": None}
