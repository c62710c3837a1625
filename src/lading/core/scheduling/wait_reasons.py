"""Reasons why a request waits, in sentences: every present reason, and the past ones with their
times.

The present reasons are sorted, the one that has to end first at the front. Found here: image,
cancellation, resolving, inputs, unassigned, priority, expired, "start time", dependency, "broken
dependency", parent, lock, attempts, position, "no dispatcher", unreported. The others are those of
the dispatchers (`planning.Category`: capacity with the nearest fit, quota, held, ...), in their
words.

The past ones (`Wait`) are stretches of time, each with its cause. A dispatcher notes the cause at
each look at its queue. A cause that comes again adds to its time, so that a container that waited
for two things by turns has two stretches, in the order in which they first came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lading.core.containers import request_phases
from lading.core.containers.constraint_ranges import range_span
from lading.core.containers.container import FINAL, Container, ContainerState, failure_of
from lading.core.containers.disk_space import disk_factor
from lading.core.containers.mounting import mount_resolution
from lading.core.containers.priority import READY, ReadinessVerdict
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Failure
from lading.core.policy.fair_share import SharePosition
from lading.core.resources import format_bytes
from lading.core.scheduling.planning import Category, WaitStatus
from lading.core.values import JsonObject

_NAMED = 3
"""Requests that a sentence names."""
_IMAGE = "image"
MISFITS = frozenset({Category.UNSIZED, Category.PARTITION, Category.TOO_LARGE})
"""Reasons that do not go away by themselves: no worker of a dispatcher can hold the container."""
_HOPELESS = (Category.NO_WORKER, Category.UNSIZED, Category.PARTITION, Category.TOO_LARGE)
SHORTEST_WAIT = 1.0
"""Seconds of waiting that are worth a word."""


@dataclass(frozen=True, slots=True)
class WaitReason:
    """One reason why a request waits, and its sentence.

    Found by the API, or reported by a dispatcher (`planning.WaitStatus`).
    """

    reason: str
    sentence: str

    def shown(self) -> JsonObject:
        """Plain JSON of the reason."""
        return {"reason": self.reason, "sentence": self.sentence}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Facts about a request and its surroundings.

    `cancelled_since` is the time of a cancellation of many requests that has yet to reach this one;
    `parent` is the container that made it; `image` a sentence with the fault of its image, ""
    without one; `earlier` the container that was tried before the present one. `reports` are the
    reports of dispatchers about its container, `silence` a sentence for the case that no dispatcher
    is at work, "" if one is. `ahead` is the number of waiting containers that come before it,
    counted up to `most`. `share`: the place between shares, None without fair share.
    """

    judgement: ReadinessVerdict = READY
    cancelled_since: str | None = None
    parent: Container | None = None
    image: str = ""
    earlier: Container | None = None
    reports: tuple[WaitReason, ...] = ()
    silence: str = ""
    ahead: int = 0
    most: int = 1000
    share: SharePosition | None = None

    @property
    def status(self) -> str | None:
        """Status from the dispatcher that is nearest to running the container; None without one. Of
        a request that is being cancelled, this.
        """
        if self.cancelled_since is not None:
            return cancelled(self.cancelled_since)
        return min(self.reports, key=_hopeless).sentence if self.reports else None


def delays(
    request: ContainerRequest, container: Container | None, scene: Scene
) -> tuple[WaitReason, ...]:
    """Reasons that a request has no result yet; none if it runs or has ended. For a draft: reasons
    that it could not run.
    """
    image = (WaitReason(_IMAGE, scene.image),) if scene.image else ()
    if request.state is request_phases.RequestState.UNCOMMITTED:
        return image
    if request.state is request_phases.RequestState.FINAL:
        return ()
    if scene.cancelled_since is not None:
        image = (WaitReason("cancellation", cancelled(scene.cancelled_since)), *image)
    if container is None:
        return (unassigned(request), *image, *_of_request(request, scene))
    if container.state is ContainerState.LOCKED:
        return (*image, *_of_request(request, scene), *_of_lock(container, scene))
    if container.state is ContainerState.QUEUED:
        return (*image, *_of_request(request, scene), *_of_queue(container, scene))
    return ()


def cancelled(since: str) -> str:
    """The sentence about a request that a cancellation of many has yet to reach."""
    return f"It is being cancelled, as asked at {since}: it does not start any more."


def unassigned(request: ContainerRequest) -> WaitReason:
    """The reason that a request has no container yet."""
    if request.resolving:
        return WaitReason(
            "resolving",
            "Its container is still sought: "
            "a git repository that its mounts name is being fetched, or its inputs were made "
            "a moment ago.",
        )
    if outputs := mount_resolution.outputs(request.mounts):
        makers = list(dict.fromkeys(output.request_uuid for output in outputs))
        named = ", ".join(makers[:_NAMED]) + (", ..." if len(makers) > _NAMED else "")
        return WaitReason(
            "inputs",
            f"It gets its container when the requests whose outputs it mounts have ended: {named}",
        )
    return WaitReason("unassigned", "It has no container; `satisfy` finds or makes one.")


def _of_request(request: ContainerRequest, scene: Scene) -> tuple[WaitReason, ...]:
    reasons = []
    if not request.priority:
        reasons.append(
            WaitReason(
                "priority", "It is on hold: its priority is 0. Raise the priority to have it run."
            )
        )
    if not scene.judgement.counts:
        reasons.append(WaitReason(str(scene.judgement.readiness), scene.judgement.sentence))
    parent = scene.parent
    if parent is not None and parent.state in FINAL:
        reasons.append(
            WaitReason("parent", f"The container that asked for it, {parent.uuid}, has ended.")
        )
    elif parent is not None and parent.priority <= 0:
        reasons.append(
            WaitReason(
                "parent",
                f"The container that asked for it, {parent.uuid}, is on hold itself (priority 0).",
            )
        )
    return tuple(reasons)


def _of_lock(container: Container, scene: Scene) -> tuple[WaitReason, ...]:
    lock_reason = WaitReason(
        "lock",
        f"The dispatcher with the token {container.locked_by_uuid} has taken it and prepares it.",
    )
    activity = container.runtime_status.get("activity")
    doing = (
        (WaitReason(_IMAGE if _IMAGE in str(activity) else "lock", f"Now: {activity}."),)
        if activity
        else ()
    )
    return (
        lock_reason,
        *doing,
        *scene.reports,
        *_attempts(container, container.lock_count - 1, scene),
    )


def _of_queue(container: Container, scene: Scene) -> tuple[WaitReason, ...]:
    if container.priority <= 0:
        return _attempts(container, container.lock_count, scene)
    number = f"{scene.ahead} or more" if scene.ahead >= scene.most else str(scene.ahead)
    others = "container waits" if scene.ahead == 1 else "containers wait"
    before = f"{number} {others} before it" if scene.ahead else "No container waits before it"
    order = "a higher priority goes first, then the older"
    if scene.share is not None:
        order = scene.share.sentence
        if scene.share.others:
            before = f"{before}, {scene.share.others} of them of other projects"
    position = WaitReason("position", f"{before} ({order}).")
    return (
        position,
        *(scene.reports or (_unsaid(scene),)),
        *_attempts(container, container.lock_count, scene),
    )


def _unsaid(scene: Scene) -> WaitReason:
    if scene.silence:
        return WaitReason("no dispatcher", scene.silence)
    return WaitReason("unreported", "No machine has reported about it yet.")


def _attempts(container: Container, locks: int, scene: Scene) -> tuple[WaitReason, ...]:
    reasons = []
    if locks > 0:
        times = "once" if locks == 1 else f"{locks} times"
        reasons.append(
            WaitReason(
                "attempts", f"It was taken {times} before and given back without having started."
            )
        )
    if scene.earlier is not None:
        failure = failure_of(scene.earlier)
        error = str(scene.earlier.runtime_status.get("error") or "no reason was given")
        kind = f" (failure class {failure})" if failure else ""
        reason = _IMAGE if failure is Failure.IMAGE else "attempts"
        reasons.append(
            WaitReason(
                reason,
                f"It is tried again{_more(container, scene.earlier)}: "
                f"the attempt before, {scene.earlier.uuid}, failed{kind}: {error}",
            )
        )
    return tuple(reasons)


def _more(container: Container, earlier: Container) -> str:
    """Amounts that a retry has beyond those of the attempt before, as a part of a sentence."""
    had, has = (
        range_span(attempt.runtime_constraints.get("ram"))[0] for attempt in (earlier, container)
    )
    before, now = (disk_factor(attempt.scheduling_parameters) for attempt in (earlier, container))
    found = []
    if has > had:
        found.append(f"{format_bytes(has)} of ram in place of {format_bytes(had)}")
    if now > before:
        found.append(f"{now:g} times the usual disk space")
    return f" with {' and '.join(found)}" if found else ""


def _hopeless(wait_reason: WaitReason) -> int:
    return _HOPELESS.index(wait_reason.reason) + 1 if wait_reason.reason in _HOPELESS else 0


def misfit(reasons: Sequence[WaitReason]) -> str:
    """Warning for clients when no reporting dispatcher can ever run a container, or ""."""
    if not reasons or any(reason.reason not in MISFITS for reason in reasons):
        return ""
    return min(reasons, key=_hopeless).sentence


@dataclass(frozen=True, slots=True)
class Wait:
    """A cause of waiting, in words that follow "waited 41 s ", and its time so far.

    `since` is when the container began to wait for it, on the clock of the dispatcher in seconds;
    None: it is over.
    """

    cause: str
    seconds: float = 0.0
    since: float | None = None

    def until(self, now: float) -> Wait:
        """The wait, ended at `now`."""
        return (
            self
            if self.since is None
            else Wait(self.cause, self.seconds + max(0.0, now - self.since))
        )


def wait_cause(status: WaitStatus) -> str:
    """The cause in a status; "" where the container does not wait, but is prepared."""
    if status.cause or status.category is Category.PREPARING:
        return status.cause
    return f"({status.sentence.rstrip('.')})"


def note_wait(
    waits: Sequence[Wait], status: WaitStatus, *, began: float, now: float
) -> tuple[Wait, ...]:
    """The waits of a container with this status at `now`. `began`: when it began to wait, if
    nothing was noted yet.
    """
    current = wait_cause(status)
    if any(wait.cause == current and wait.since is not None for wait in waits):
        return tuple(waits)
    past = tuple(wait.until(now) for wait in waits)
    if not current:
        return past
    if any(wait.cause == current for wait in past):
        return tuple(replace(wait, since=now) if wait.cause == current else wait for wait in past)
    return (*past, Wait(current, since=now if waits else min(began, now)))


def tell_waits(waits: Sequence[Wait], *, now: float) -> str:
    """The waits in words, as "waited 41 s for 2 VCPUs, then 3 s ..."; "" when it was not long."""
    past = [wait.until(now) for wait in waits]
    if sum(wait.seconds for wait in past) < SHORTEST_WAIT:
        return ""
    long = [
        f"{_shown(wait.seconds)} {wait.cause}" for wait in past if wait.seconds >= SHORTEST_WAIT
    ]
    longest = max(past, key=lambda wait: wait.seconds)
    return "waited " + (", then ".join(long) or f"{_shown(longest.seconds)} {longest.cause}")


def _shown(seconds: float) -> str:
    whole = max(1, round(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
