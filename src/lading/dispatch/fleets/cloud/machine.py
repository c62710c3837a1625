"""What is known of one VM: its phase, its instance, its connection, what went wrong last."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from lading.core.containers.cost import Price
from lading.core.scheduling.instance_lifecycle import Behavior, Event, Facts, Phase, step
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers.driver import Instance
from lading.net.rpc import LineChannel

# Asked of every VM at every step.
_IDLE, _RUNNING = Phase.IDLE, Phase.RUNNING


@dataclass(slots=True, eq=False, kw_only=True)
class Machine:
    """One VM. `key` is ours from before the cloud has named it; `kind` None: its type is not
    configured any more.

    Times are seconds on the loop's clock; `created` is when it was asked for, as far as is known.
    """

    key: str
    type: str
    secret: str = field(repr=False)
    kind: InstanceType | None = None
    instance: Instance | None = None
    phase: Phase = Phase.CREATING
    behavior: Behavior = Behavior.RUN
    created: float = 0.0
    reached: float | None = None
    """When ssh first led to it, and not to another."""
    since: float = 0.0
    seen: float = 0.0
    broken: str = ""
    unremoved: int = 0
    """Directories that could not be removed on it yet."""
    fault: str = ""
    why: str = ""
    """Why it is shut down."""
    pinned: str = ""
    booted: bool = False
    """Whether the boot probe has succeeded since it was last started, as far as this dispatcher
    knows.
    """
    link: LineChannel | None = None
    containers: set[str] = field(default_factory=set)
    """Those whose supervisors are here, alive or not cleared away."""
    posts: dict[str, int] = field(default_factory=dict)
    """Of gangs over several VMs how many ranks are here beside those of a supervisor, alive or not
    cleared away.
    """
    expected: frozenset[str] = frozenset()
    """Those that are on their way here: planned, and perhaps being locked or started."""
    images: set[str] = field(default_factory=set)
    """Images that were unpacked here, as far as is known: it says so, or a container was sent here
    with one.
    """
    last_container: str = ""
    last_busy: float | None = None
    prices: tuple[Price, ...] = ()
    """What it costs, oldest first; empty: what its type is configured with."""
    prices_told: tuple[Price, ...] = ()
    misses: int = 0
    tagged: float = float("-inf")
    """When its tags were set last."""
    asked: float | None = None
    """When its removal was asked for last."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it has an address, or is to go."""
    task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """What it is called: by the cloud, else by us."""
        return self.instance.id if self.instance is not None else self.key

    @property
    def address(self) -> str:
        """Where it is; "" while that is not known."""
        return self.instance.address if self.instance is not None else ""

    @property
    def ready(self) -> bool:
        """Whether it has become ready once and is not going."""
        return self.phase is _IDLE or self.phase is _RUNNING

    @property
    def going(self) -> bool:
        """Whether it is to be removed, or gone."""
        return self.phase in (Phase.SHUTDOWN, Phase.GONE)

    @property
    def gone(self) -> bool:
        """Whether it is gone, or was never made."""
        return self.phase is Phase.GONE

    @property
    def usable(self) -> bool:
        """Whether a container can be started here now."""
        return (
            self.link is not None
            and self.ready
            and self.behavior is Behavior.RUN
            and self.kind is not None
            and not self.broken
        )

    @property
    def facts(self) -> Facts:
        """What a verdict looks at."""
        return Facts(
            phase=self.phase,
            behavior=self.behavior,
            since=self.since,
            seen=self.seen,
            broken=self.broken,
            known_type=self.kind is not None,
        )

    def take(self, event: Event, *, now: float) -> None:
        """Let an event happen. Raises IllegalTransition."""
        after = step(self.phase, event, name=self.name)
        if after is not self.phase:
            self.phase, self.since = after, now
        if self.phase in (Phase.SHUTDOWN, Phase.GONE):
            self.changed.set()
