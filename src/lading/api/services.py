"""The values of one server that its calls need. They are made once, by `assembly.make_app`.

The state of a feature is no value of its own here: the module of the feature has it under a key of
`features`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lading.api.container_access.access import ContainerAccess
from lading.api.events.event_bus import EventBus
from lading.api.server.blocks import Blocks
from lading.api.server.features import FeatureStates
from lading.api.server.identifiers import ApiClock, Identifiers
from lading.api.server.wakeups import Wakeups
from lading.config.site import Config
from lading.core.containers.constraints import Policy
from lading.store.database import Database


@dataclass(frozen=True, slots=True)
class Events:
    """Who hears of changes: listeners and watchers by the bus, tasks of this server by wake-ups."""

    bus: EventBus = field(default_factory=EventBus)
    wakeups: Wakeups = field(default_factory=Wakeups)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServices:
    """The values of one server."""

    config: Config
    policy: Policy
    database: Database
    clock: ApiClock
    ids: Identifiers
    blocks: Blocks
    events: Events
    access: ContainerAccess
    features: FeatureStates = field(default_factory=FeatureStates)
