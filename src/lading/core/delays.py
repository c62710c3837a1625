"""Why a request waits, in words: every reason that holds now, the one that has to go first at the front.

Reasons: resolving, unassigned, priority, expired, "start time", dependency, "broken dependency", parent, lock,
attempts, position, dispatcher (capacity with the nearest fit, quota, a pause after a failed start: its own sentence),
unreported.
"""

from __future__ import annotations

from dataclasses import dataclass

from lading.core import request as requests_
from lading.core.container import FINAL, Container, State
from lading.core.jsonvalue import JsonObject
from lading.core.request import ContainerRequest
from lading.core.waiting import READY, Judgement


@dataclass(frozen=True, slots=True)
class Delay:
    """One reason, and the sentence that says it."""

    reason: str
    sentence: str

    def shown(self) -> JsonObject:
        """As plain JSON."""
        return {"reason": self.reason, "sentence": self.sentence}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What is known around a request.

    `parent` is the container that asked for it; `dispatcher` what a dispatcher said about its container; `ahead` how
    many waiting containers come before that, counted up to `most`.
    """

    judgement: Judgement = READY
    parent: Container | None = None
    dispatcher: str | None = None
    ahead: int = 0
    most: int = 1000


def delays(request: ContainerRequest, container: Container | None, scene: Scene) -> tuple[Delay, ...]:
    """Why the request has no result yet; nothing for one that runs, has ended or is a draft."""
    if request.state is not requests_.State.COMMITTED:
        return ()
    if container is None:
        return (_unassigned(request), *_of_request(request, scene))
    if container.state is State.LOCKED:
        return (*_of_request(request, scene), *_of_lock(container, scene))
    if container.state is State.QUEUED:
        return (*_of_request(request, scene), *_of_queue(container, scene))
    return ()


def _unassigned(request: ContainerRequest) -> Delay:
    if request.resolving:
        return Delay(
            "resolving", "Its container is still sought: a git repository that its mounts name is being fetched."
        )
    return Delay("unassigned", "It has no container; `satisfy` finds or makes one.")


def _of_request(request: ContainerRequest, scene: Scene) -> tuple[Delay, ...]:
    found = []
    if not request.priority:
        found.append(Delay("priority", "It is on hold: its priority is 0. Raise the priority to have it run."))
    if not scene.judgement.counts:
        found.append(Delay(str(scene.judgement.standing), scene.judgement.sentence))
    parent = scene.parent
    if parent is not None and parent.state in FINAL:
        found.append(Delay("parent", f"The container that asked for it, {parent.uuid}, has ended."))
    elif parent is not None and parent.priority <= 0:
        found.append(
            Delay("parent", f"The container that asked for it, {parent.uuid}, is on hold itself (priority 0).")
        )
    return tuple(found)


def _of_lock(container: Container, scene: Scene) -> tuple[Delay, ...]:
    activity = container.runtime_status.get("activity")
    doing = f": {activity}" if activity else ""
    held = Delay(
        "lock", f"The dispatcher with the token {container.locked_by_uuid} has taken it and prepares it{doing}."
    )
    return (held, *_attempts(container.lock_count - 1), *_said(scene))


def _of_queue(container: Container, scene: Scene) -> tuple[Delay, ...]:
    if container.priority <= 0:
        return _attempts(container.lock_count)
    number = f"{scene.ahead} or more" if scene.ahead >= scene.most else str(scene.ahead)
    others = "container waits" if scene.ahead == 1 else "containers wait"
    before = f"{number} {others} before it" if scene.ahead else "No container waits before it"
    position = Delay("position", f"{before} (a higher priority goes first, then the older).")
    unreported = Delay("unreported", "No dispatcher has said anything about it yet.")
    return (position, *(_said(scene) or (unreported,)), *_attempts(container.lock_count))


def _said(scene: Scene) -> tuple[Delay, ...]:
    return (Delay("dispatcher", scene.dispatcher),) if scene.dispatcher else ()


def _attempts(number: int) -> tuple[Delay, ...]:
    if number <= 0:
        return ()
    times = "once" if number == 1 else f"{number} times"
    return (Delay("attempts", f"It was taken {times} before and given back without having started."),)
