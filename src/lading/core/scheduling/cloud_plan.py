"""What the planner of a cloud is given, keeps during one pass, and decides.

Source: docs/spec/cloud, section Planning. `cloud_planner` plans with these values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lading.core.scheduling.cloud_limits import Limits
from lading.core.scheduling.instance_types import InstanceType, Shape

Key = tuple[int, str, str]


class Block(StrEnum):
    """Why nothing of a shape can be placed."""

    NO_TYPE = "no type"
    SUPERVISORS = "supervisors"
    QUOTA = "quota"
    RATE = "rate"
    BUSY = "busy"
    CAPACITY = "capacity"
    TOO_MANY = "too many"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A container that waits. `created_at` is the API's text, `image` what it runs in."""

    uuid: str
    priority: int
    created_at: str
    shape: Shape
    image: str = ""

    @property
    def key(self) -> Key:
        """Its place in the queue."""
        return -self.priority, self.created_at, self.uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How to plan. `supervisor_fraction` of the most VMs are for supervisors; `most_containers` on
    one VM, 0 any.

    `group` names what shares the cloud's capacity with a type.
    """

    types: tuple[InstanceType, ...]
    price_factor: float = 1.5
    supervisor_fraction: float = 0.5
    most_containers: int = 0
    group: Callable[[InstanceType], str] = lambda one: (
        f"{one.provider_type}{'-spot' if one.preemptible else ''}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`starts`: container and room; `creates`: the room to be and its type. `retire`: empty rooms
    to let go.

    `berths`: the room of every rank, of each gang that starts on several rooms. `kept`: room and
    gang, for rooms that have to stay though nothing runs there yet. `unneeded`: rooms that are not
    ready and that nobody was promised.
    """

    starts: tuple[tuple[str, str], ...] = ()
    berths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kept: tuple[tuple[str, str], ...] = ()
    creates: tuple[tuple[str, str], ...] = ()
    retire: tuple[str, ...] = ()
    unneeded: tuple[str, ...] = ()


@dataclass(slots=True)
class Pass:
    """What one pass has found out so far."""

    limits: Limits
    now: float
    most_supervisors: int
    left: int | None = None
    """How many more containers may be started or promised a room."""
    starts: list[tuple[str, str]] = field(default_factory=list)
    creates: list[tuple[str, str]] = field(default_factory=list)
    berths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    guarded: bool = False
    places: int = 0
    """How many VMs that are not there yet are the gang's that rooms are kept for."""
    freed: bool = False
    """What was kept for somebody is not any more, so others may have it."""
