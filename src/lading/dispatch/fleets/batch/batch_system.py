"""The seam between the batch fleet and a batch system.

An adapter submits jobs, lists them, cancels them, puts waiting ones in order, explains why one
waits, and translates resources: needs of containers into arguments, nodes into `NodeShape`s. Rules
for an implementation:

- A row that cannot be read is left out, never guessed at. An answer that cannot be read at all is
  Unavailable.
- A job belongs to a dispatcher by its mark: `lading TOKEN ID ID ...`, the uuid of the dispatcher's
  token and the last parts of the containers' uuids, one for each task of an array. So a dispatcher
  that starts again finds its jobs, and leaves those of others alone. Marks can be read and copied
  by every user of the cluster, so only jobs of the dispatcher's own user are asked for.
- `submit` raises OutcomeUnknown when a job may exist, although no id is known.
- The script of a job holds tokens. It goes through standard input, and into no argument.

Source: docs/spec/dispatch, section Batch fleet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from signal import Signals
from typing import Protocol

from lading.core.errors import Failure
from lading.core.ids import Infix, is_uuid
from lading.core.resources import Resources
from lading.core.scheduling.instance_types import Gpu
from lading.core.scheduling.planning import TrackedContainer
from lading.core.scheduling.slurm_nice import PendingJob
from lading.dispatch.fleets.batch.job_script import ScriptDialect

_MARK = "lading"


class JobPhase(StrEnum):
    """Phase of a job, for the dispatcher."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One task of a job: `job` names it in commands, `index` is its place in the mark's list of
    containers, `array` names the array that it is a task of, or the job itself.

    `nice` is the value by which the dispatcher orders jobs, `priority` that of the batch system. A
    job that somebody holds is not `is_movable`. `restarts`: starts after the first one.
    `is_ending`: the batch system clears up. `is_stuck`: it will never start, and has to be
    cancelled. Of one that has ended or is stuck, `end` says how, and `failure` is its class.
    """

    job: str
    mark: str
    phase: JobPhase
    state: str
    index: int = 0
    array: str = ""
    reason: str = ""
    node: str = ""
    nice: int = 0
    priority: int = 0
    restarts: int = 0
    is_movable: bool = True
    is_ending: bool = False
    is_stuck: bool = False
    end: str = ""
    failure: Failure = Failure.INFRASTRUCTURE


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """A kind of node, with at least one node: the resources that a container can have on it, and
    the partitions it is in.

    `default`: one of them is where jobs go that name none. `system` is the name of the batch
    system.
    """

    system: str
    capacity: Resources
    partitions: frozenset[str]
    default: bool
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of these nodes in each partition; "" stands for the default partition, for jobs that
    name none.
    """
    gpus: Mapping[str, Gpu] = field(default_factory=dict)
    """The GPUs of a node by type, "" for those without one; empty where no type is known."""

    @property
    def name(self) -> str:
        """Human-readable description of the kind of node."""
        types = ", ".join(sorted(filter(None, self.gpus)))
        described = f"{self.capacity} ({types})" if types else f"{self.capacity}"
        return f"{self.system} nodes of {described} in {', '.join(sorted(self.partitions))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A job to submit, for one container or an array of alike ones; `container` is the first.

    `rank`: a larger one is wanted sooner. `script` holds tokens. `spread`: the gang of the
    container has a node for each rank. `node_gpus`: the GPUs of each kind of nodes
    that may take it.
    """

    uuids: tuple[str, ...]
    container: TrackedContainer
    mark: str
    rank: int
    script: bytes = field(repr=False)
    spread: bool = False
    node_gpus: tuple[Mapping[str, Gpu], ...] = ()


class BatchSystem(Protocol):
    """A batch system. Each method but the properties raises Unavailable while it does not
    answer.
    """

    @property
    def name(self) -> str:
        """Its name for people."""

    @property
    def dialect(self) -> ScriptDialect:
        """The words of its job scripts."""

    @property
    def accounting_delay(self) -> float:
        """Seconds after the end of a job within which `ended` may not know of it yet."""

    @property
    def most_asked(self) -> int:
        """Number of jobs that `ended` is asked about at a time: 1 where each costs a command, so
        that one that fails leaves the others settled.
        """

    async def submit(self, request: JobRequest) -> list[str]:
        """Submit a job; return an id for each container. Raises JobRefused, OutcomeUnknown."""

    async def poll(self) -> list[QueueRow]:
        """The jobs of the dispatcher's users that have not ended."""

    async def ended(self, jobs: Sequence[str]) -> list[QueueRow]:
        """Rows of these jobs, ended or not; none for jobs that are not known any more, or not
        yet.
        """

    async def cancel(self, jobs: Sequence[str], number: Signals) -> None:
        """End waiting jobs, and send a signal to the scripts of running ones; KILL ends each job at
        once. Jobs that have ended are ignored.
        """

    async def reorder(self, jobs: Sequence[PendingJob]) -> None:
        """Have waiting jobs run in the order of their ranks, the largest first."""

    async def explain(self, jobs: Sequence[str]) -> Mapping[str, str]:
        """The reasons that jobs wait, in a few words, as far as `poll` does not give them."""

    async def shapes(self) -> tuple[NodeShape, ...]:
        """The kinds of nodes that can be used, each once."""


def job_mark(token: str, uuids: Sequence[str]) -> str:
    """The mark of a job for these containers."""
    # Without the first part, which follows from the token: marks have a limited length, arrays many
    # tasks.
    return " ".join((_MARK, token, *(uuid[12:] for uuid in uuids)))


def owner(row: QueueRow, *, token: str) -> str | None:
    """The container of a row that is a job of the dispatcher with this token; None for any
    other.
    """
    words = row.mark.split()
    if words[:2] != [_MARK, token] or not 0 <= row.index < len(words) - 2:
        return None
    uuid = f"{token[:5]}-{Infix.CONTAINER}-{words[row.index + 2]}"
    return uuid if is_uuid(uuid, Infix.CONTAINER) else None
