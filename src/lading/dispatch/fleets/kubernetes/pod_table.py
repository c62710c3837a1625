"""States of a dispatcher's Pods, from its starts, the watch and the lists.

Rules:

- A container has one process here, whose Pod is known by its uid. It is in the table from the first
  POST on. Once it has ended it stays ended.
- A further Pod for a container that has one is a stray, and is deleted: it comes from a POST that
  arrived late, or from an earlier attempt. After a restart of the dispatcher, when no start is
  known, a Pod whose supervisor has begun counts before one without, then the newest.
- While the outcome of a start is unknown the process counts as alive. The Pod never runs, as it has
  no secret: it is *condemned* as soon as it is seen, and the process has ended after two looks by
  name that do not show it.
- Condemned as well: a Pod that does not begin on its node for a while, as it has no image there, or
  no secret since its dispatcher was killed.
- A list that does not show a Pod proves nothing; 404 for its name does.
- A Pod that should have ended some time after its deletion counts as ended: its node is lost.

`now` is on one clock that only grows, in seconds. Source: docs/spec/kubernetes, section Following.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from lading.core.errors import Failure
from lading.core.kubernetes.pod_manifest import pod_name
from lading.core.kubernetes.pod_states import PodPhase, PodState
from lading.dispatch.fleet import SupervisorProcess

_ABSENT_LOOKS: Final = 2
_NO_IMAGE = "its node could not get the image of the supervisor"
_STUCK = "it did not begin on its node"
_MISSING = "its Pod was not made, as the cluster did not answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodProcess:
    """The process of one container: a start under way, or a Pod.

    `own`: started by this dispatcher since it began. `armed`: its secret may have been made.
    `unsure`: its start failed with an unknown outcome. `condemned`: the reason for which its Pod is
    to be deleted, "" if it is not. `deleting_since`, `stuck_since`: when this was first seen.
    `is_lost`: its node does not answer.
    """

    container: str
    attempt: str
    state: PodState | None = None
    own: bool = False
    armed: bool = False
    unsure: bool = False
    absent: int = 0
    ended: bool = False
    condemned: str = ""
    fate: str = ""
    failure: Failure = Failure.INFRASTRUCTURE
    deleting_since: float | None = None
    stuck_since: float | None = None
    is_lost: bool = False

    @property
    def name(self) -> str:
        """Name of its Pod and its secret."""
        return pod_name(self.container, self.attempt)

    @property
    def waiting(self) -> bool:
        """Whether its supervisor has not begun."""
        return not self.ended and (self.state is None or self.state.phase is PodPhase.WAITING)

    @property
    def process(self) -> SupervisorProcess:
        """The process as the view shows it."""
        state = self.state
        node = state.node if state is not None else ""
        return SupervisorProcess(
            f"Kubernetes node {node}" if node else "Kubernetes",
            alive=not self.ended,
            waiting=self.waiting,
            note=state.note if state is not None and not self.ended else "",
            fate=self.fate,
            failure=self.failure,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds: on a node before it begins, and after the due end of a deleted Pod."""

    begin: float = 300.0
    lost: float = 300.0


class PodTable:
    """Table of the Pods of one dispatcher."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._pods: dict[str, PodProcess] = {}
        self._strays: dict[str, PodState] = {}
        self._over: set[str] = set()
        """Uids of Pods that were cleared away: late events about them are ignored."""

    def get(self, container: str) -> PodProcess | None:
        """The process of a container."""
        return self._pods.get(container)

    def is_free(self, container: str) -> bool:
        """Whether a container has no Pod here, and no remains."""
        return container not in self._pods and not any(self._strays_of(container))

    def processes(self) -> Mapping[str, SupervisorProcess]:
        """The supervisor process of each container in this table, by the uuid of the container."""
        return {uuid: pod.process for uuid, pod in self._pods.items()}

    @property
    def waiting(self) -> int:
        """Number of Pods whose supervisors have not begun."""
        return sum(pod.waiting for pod in self._pods.values())

    # Starts.

    def starting(self, container: str, attempt: str) -> None:
        """Note that a start is under way."""
        self._pods[container] = PodProcess(container=container, attempt=attempt, own=True)

    def arm(self, container: str) -> None:
        """Note that the secret of a start is being made: from now on the Pod may run."""
        one = self._pods.get(container)
        if one is not None:
            self._pods[container] = replace(one, armed=True)

    def refused(self, container: str) -> None:
        """Note that a start failed, and that there is no Pod."""
        self._pods.pop(container, None)

    def unsure(self, container: str) -> None:
        """Note that a start failed, and that there may be a Pod, without a secret."""
        one = self._pods.get(container)
        if one is not None and not one.ended:
            self._pods[container] = replace(one, unsure=True)
            # With a secret it may run, and only its end ends it.
            if not one.armed:
                self.condemn(container, "its start failed as the cluster did not answer")

    def condemn(self, container: str, why: str) -> None:
        """Have the Pod of a container deleted."""
        one = self._pods.get(container)
        if one is not None and not one.ended and not one.condemned:
            self._pods[container] = replace(one, condemned=why)

    # What is seen.

    def observe(self, state: PodState, *, now: float) -> None:
        """Learn the present state of a Pod."""
        if state.uid in self._over:
            return
        if state.uid in self._strays:
            self._strays[state.uid] = state
            return
        pod = self._pods.get(state.container)
        if pod is None:
            pod = PodProcess(container=state.container, attempt=state.attempt)
        elif not _is_same(pod, state):
            self._rival(pod, state, now=now)
            return
        self._pods[state.container] = self._step(pod, state, now=now)

    def gone(self, state: PodState, *, now: float) -> None:
        """Learn the last state of a Pod that is no longer there."""
        if self._strays.pop(state.uid, None) is not None or state.uid in self._over:
            return
        known = self._pods.get(state.container)
        # A Pod that was never seen alive leaves nothing, but a start under way may be its own.
        if known is not None and _is_same(known, state):
            self._pods[state.container] = self._step(known, state, now=now)

    def absent(self, name: str, uid: str) -> None:
        """Note that the API server has no Pod of this name, by a request that was sent after the
        Pod was last seen. `uid` is that of the Pod, "" for a start of unknown outcome.
        """
        self._strays.pop(uid, None)
        for uuid, pod in self._pods.items():
            if pod.name != name or pod.ended:
                continue
            if pod.state is not None and pod.state.uid == uid:
                words = pod.state.fate or f"Pod {name}: it is gone; somebody has deleted it."
                self._pods[uuid] = _finish(pod, words, pod.state.failure)
            elif pod.state is None and pod.unsure and not uid:
                ended = pod.absent + 1 >= _ABSENT_LOOKS
                self._pods[uuid] = replace(
                    pod,
                    absent=pod.absent + 1,
                    ended=ended,
                    fate=f"Pod {name}: {_MISSING}." if ended else "",
                )

    def missing(self, shown: Iterable[PodState], before: Iterable[str]) -> list[PodState]:
        """Pods that were known by uid `before` a list began, and that it does not show."""
        shown_uids, earlier_uids = {state.uid for state in shown}, set(before)
        return [
            state
            for state in self._states()
            if state.uid in earlier_uids and state.uid not in shown_uids
        ]

    def uids(self) -> set[str]:
        """Uids of the Pods that are known and may be there."""
        return {state.uid for state in self._states()}

    def forget_over(self, shown: Iterable[PodState], before: Iterable[str]) -> None:
        """Drop the memory of Pods that were cleared away `before` a list began, and that it does
        not show.
        """
        self._over -= set(before) - {state.uid for state in shown}

    @property
    def over(self) -> frozenset[str]:
        """Uids of Pods that were cleared away."""
        return frozenset(self._over)

    # What follows.

    def judge(self, *, now: float) -> bool:
        """Apply the limits of time. Returns whether a process has ended by it."""
        ended = False
        for uuid, pod in list(self._pods.items()):
            if pod.ended:
                continue
            grace = pod.state.grace if pod.state is not None else 0.0
            lost = grace + self._patience.lost
            if pod.deleting_since is not None and now - pod.deleting_since >= lost:
                fate = f"Pod {pod.name}: its node does not answer, and it should have ended."
                self._pods[uuid] = replace(
                    pod, ended=True, is_lost=True, fate=fate, failure=Failure.NODE
                )
                ended = True
            elif pod.stuck_since is not None and now - pod.stuck_since >= self._patience.begin:
                lacks = pod.state is not None and pod.state.lacks_image
                self.condemn(uuid, _NO_IMAGE if lacks else _STUCK)
        return ended

    def condemned(self) -> list[PodProcess]:
        """Processes whose Pods are to be looked for and deleted."""
        return [pod for pod in self._pods.values() if pod.condemned and not pod.ended]

    def strays(self) -> list[PodState]:
        """Further Pods, to delete."""
        return list(self._strays.values())

    def remains(self, container: str) -> list[tuple[str, str]]:
        """Name and uid ("": any) of each Pod that a container has or may have here."""
        one = self._pods.get(container)
        own = (
            [(one.name, one.state.uid if one.state is not None else "")] if one is not None else []
        )
        return [*own, *((stray.name, stray.uid) for stray in self._strays_of(container))]

    def drop(self, container: str) -> None:
        """Forget a container whose Pods have been removed."""
        for _, uid in self.remains(container):
            if uid:
                self._over.add(uid)
            self._strays.pop(uid, None)
        self._pods.pop(container, None)

    def _states(self) -> Iterator[PodState]:
        for pod in self._pods.values():
            if pod.state is not None and not pod.ended:
                yield pod.state
        yield from self._strays.values()

    def _strays_of(self, container: str) -> Iterator[PodState]:
        return (state for state in self._strays.values() if state.container == container)

    def _rival(self, pod: PodProcess, state: PodState, *, now: float) -> None:
        """Choose between two Pods of a container; the other one becomes a stray."""
        rival = pod.state
        if pod.own or pod.ended or rival is None or _rank(rival) >= _rank(state):
            self._strays[state.uid] = state
            return
        self._strays[rival.uid] = rival
        fresh = PodProcess(container=state.container, attempt=state.attempt)
        self._pods[state.container] = self._step(fresh, state, now=now)

    def _step(self, pod: PodProcess, state: PodState, *, now: float) -> PodProcess:
        if pod.ended:
            return pod
        pod = replace(
            pod,
            state=state,
            absent=0,
            deleting_since=_since(pod.deleting_since, state.deleting, now),
            stuck_since=_since(pod.stuck_since, state.stuck, now),
        )
        if state.phase is not PodPhase.ENDED:
            return pod
        return _finish(pod, state.fate, state.failure)


def _finish(pod: PodProcess, fate: str, failure: Failure) -> PodProcess:
    """The process after its end; of a Pod that was condemned that is the reason."""
    if pod.condemned:
        fate = f"Pod {pod.name}: {pod.condemned}."
        failure = Failure.IMAGE if pod.condemned == _NO_IMAGE else failure
    return replace(pod, ended=True, fate=fate, failure=failure)


def _is_same(pod: PodProcess, state: PodState) -> bool:
    if pod.attempt != state.attempt:
        return False
    # The first Pod of the name of a start is its own; a later one of the same name is not.
    return pod.state is None or pod.state.uid == state.uid


def _rank(state: PodState) -> tuple[bool, bool, str, str]:
    return state.phase is not PodPhase.ENDED, state.started, state.created, state.uid


def _since(earlier: float | None, holds: bool, now: float) -> float | None:
    return (now if earlier is None else earlier) if holds else None
