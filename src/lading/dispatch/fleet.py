"""The fleet seam between the dispatch loop and the supervisors, and the look-up of fleets.

The seam is level-triggered. `view` returns the known state and never waits; `changed` wakes its one
consumer when the view may differ; nothing is lost when several changes fall together. Rules for an
implementation:

- One process for one container. `start` of a container that has a process, alive or with remains,
  raises Conflict and starts nothing.
- When `start` returns, the view shows the process. When it raises, a process may or may not exist;
  if one does, it shows in the view as soon as the fleet knows.
- A process goes from alive to exited and, by `clean`, out of the view. It never becomes alive
  again.
- `clean` returns only when no process, mount or directory of the container remains. It may be
  repeated. For a living process it raises Conflict and touches nothing.
- `signal` for a process that is not alive does nothing.
- `view().known` is False as long as the fleet does not know which workers exist, as just after its
  start. Later troubles leave it True: a process that was seen alive counts as alive until the fleet
  knows better. Workers on which nothing can be started now are not in the view.
- `view().unasked` names the workers of an earlier dispatcher that have not reported yet which
  containers they run. Meanwhile nothing is decided about containers that the earlier dispatcher had
  locked and that no other worker runs.

Fleets are found by the entry point group `lading.fleets`, so that a third party can add one. An
entry point names a function from a `FleetSite` to an asynchronous context manager of a fleet.
Source: docs/spec/dispatch, section Fleets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import entry_points
from pathlib import Path
from signal import Signals
from typing import Protocol

from lading.config.site import Config
from lading.core.errors import Failure, Invalid
from lading.core.quantities import parse_time
from lading.core.resources import Price, Resources, cost
from lading.core.scheduling.planning import FleetWorker, TrackedContainer
from lading.core.values import JsonObject

LookUp = Callable[[str], TrackedContainer | None]
"""The dispatcher's record of a container, by its uuid; None without a record."""
GROUP = "lading.fleets"


@dataclass(frozen=True, slots=True)
class Spending:
    """Cost of a container whose supervisor can no longer report it: its share of these prices until
    `end`.
    """

    prices: tuple[Price, ...]
    share: float
    end: datetime

    def since(self, started_at: str) -> float:
        """Dollars since the container's start, an API timestamp."""
        return cost(self.prices, parse_time(started_at), self.end, share=self.share)


@dataclass(frozen=True, slots=True)
class SupervisorProcess:
    """The supervisor of one container. `worker` is "" when it is not known where it runs.

    `waiting`: it was handed over and has not been started, so nothing is lost when it is stopped.
    `idle`: its command has ended, and its results are being saved. `preparing`: its image and
    inputs are being made ready, which takes a while; `asking`: they are ready, and it waits for
    `signal` with CONT to take its resources. `note`: the fleet's reason for its waiting, as a
    sentence. `fate`: of one that has ended, what the fleet was told about that, as a sentence, and
    `failure` the class of it. `others`: where its further ranks run, of a gang over several
    workers, one for each. `spending`: what one that has ended with its machine has cost.
    """

    worker: str
    alive: bool = True
    waiting: bool = False
    note: str = ""
    fate: str = ""
    failure: Failure = Failure.INFRASTRUCTURE
    others: tuple[str, ...] = ()
    idle: bool = False
    spending: Spending | None = None
    preparing: bool = False
    asking: bool = False

    def takes(self, need: Resources) -> Resources:
        """The part of its container's need that is taken now: its files are on the disk, before and
        after it runs.

        A container that asks for its resources counts in full: free resources go to it before
        containers that have not begun.
        """
        return Resources(disk=need.disk) if self.idle or self.preparing else need


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """The state of a fleet at one moment.

    `processes` is by container uuid. `most`: number of further containers that it accepts now, None
    for any number. `trouble`: the reason that it is not known yet (`is_known`), or that workers are
    `unasked`, in a few words. `shortage`: the reason that nothing may be started now, as a sentence
    without its full stop. `ready_images`: portable data hashes of images that all workers have
    ready, so that a container with nothing else to prepare may be Running from its lock on.
    """

    is_known: bool = False
    workers: tuple[FleetWorker, ...] = ()
    processes: Mapping[str, SupervisorProcess] = field(default_factory=dict)
    most: int | None = None
    trouble: str = ""
    unasked: tuple[str, ...] = ()
    shortage: str = ""
    ready_images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """A container to start a supervisor for. The token can touch this one container; it is never
    logged.

    `others` are the workers of the further ranks of a gang that is spread over several.
    """

    uuid: str
    worker: str
    token: str = field(repr=False)
    container: TrackedContainer = TrackedContainer(uuid="")
    """The container as it was locked; the default needs no resources."""
    records: JsonObject = field(default_factory=dict, repr=False)
    """Its record and its own token as they were when it was locked: the supervisor need not ask."""
    others: tuple[str, ...] = ()
    is_started: bool = False
    """Its record is Running since the lock."""


class Fleet(Protocol):
    """Runs supervisors. One consumer."""

    def set_lookup(self, look: LookUp) -> None:
        """Give the fleet the function that looks up a container by its uuid, for use at any time;
        called once, before anything is started.
        """

    def view(self) -> FleetView:
        """The present state; never waits."""

    async def changed(self) -> None:
        """Wait until the view may have changed since `changed` last returned."""

    async def start(self, request: StartRequest) -> None:
        """Start a supervisor.

        Raises Conflict when the container has a process here, Unavailable when none can be started
        now, ExecutionError when the worker refuses this one.
        """

    async def signal(self, uuid: str, number: Signals) -> None:
        """Send a signal to a supervisor. Raises Unavailable."""

    async def clean(self, uuid: str) -> None:
        """Remove the remains of a dead supervisor. Raises Conflict (it is alive), Unavailable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSite:
    """Arguments of a function that opens a fleet.

    `token` is the uuid of the dispatcher's token. The directories are this machine's: one for a
    directory of each container under way, and one for files that may be deleted while nothing runs.
    `template` has the fields of every assignment but the container's own and the way to the server;
    that is `api_socket` on this machine, `api_url` from any other, whose certificate is
    `certificate` (PEM) unless an authority of the machine has signed it. `check` raises Conflict
    where another dispatcher may have taken over the token: a fleet calls it before it changes
    anything by itself. `internet_fault` tells why containers of this machine have no internet now,
    with the mend, or "".
    """

    config: Config
    token: str
    run_directory: Path
    cache_directory: Path
    template: Mapping[str, object]
    api_url: str
    api_socket: str = ""
    certificate: str = ""
    certificate_path: str = ""
    check: Callable[[], None] = lambda: None
    internet_fault: Callable[[], str] = lambda: ""


Opener = Callable[[FleetSite], AbstractAsyncContextManager[Fleet]]


def find_fleet(name: str) -> Opener:
    """The opener of the fleet of that name. Raises Invalid naming the installed ones."""
    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in entries:
        raise Invalid(
            f"no fleet {name!r} is installed; there are {', '.join(sorted(entries)) or 'none'}"
        )
    opener: Opener = entries[name].load()
    return opener


def plans_disk(name: str, config: Config) -> bool:
    """Whether scratch disk is planned on a fleet: always, except on a machine without a configured
    share of disk.
    """
    return name != "local" or config.Local.Scratch > 0


class TrialServer(Protocol):
    """A server for the time of a self-test of a fleet, with a dispatcher that has one machine."""

    @property
    def url(self) -> str:
        """The address for the machine."""

    @property
    def certificate(self) -> str:
        """The certificate that the machine knows it by, PEM."""

    async def run(self) -> str:
        """Have a request run on the machine. Raises LadingError."""

    async def shell(self) -> str:
        """Open a shell session in its container. Raises LadingError."""

    async def port(self) -> str:
        """Fetch a page from a published port of its container. Raises LadingError."""
