"""Whether a Committed request counts towards the priority of its container, with the reason.

* `expires_at`: from then on its priority counts as 0.
* `start_after`: before then it counts as 0.
* `depends_on`: it counts as 0 until every request named there is Final with a container that is
Complete with exit code 0. If one ended otherwise, or was deleted, the request ends too, with that
reason.

A request that does not count still has its container, as one at priority 0 has. Others may want the
same container; then it runs for them. Existing results are used at once.

See docs/spec/containers, section Dependencies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lading.core.containers import request as requests_
from lading.core.containers.container import Container, ContainerState
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Invalid
from lading.core.json_values import Json, JsonObject
from lading.core.values import printable


class Readiness(StrEnum):
    """Readiness of a request."""

    READY = "ready"
    EXPIRED = "expired"
    EARLY = "start time"
    DEPENDENT = "dependency"
    BROKEN = "broken dependency"


@dataclass(frozen=True, slots=True)
class Dependency:
    """A request that another depends on, with its container; `request` None: it was deleted."""

    request: ContainerRequest | None
    container: Container | None = None


@dataclass(frozen=True, slots=True)
class ReadinessVerdict:
    """Readiness of a request, and a sentence with the reason for which it does not count; "" when
    it does.
    """

    readiness: Readiness
    sentence: str = ""
    dependency_uuid: str | None = None

    @property
    def counts(self) -> bool:
        """Whether its priority counts."""
        return self.readiness is Readiness.READY


_SOURCE = "container_request"
READY = ReadinessVerdict(Readiness.READY)


def bind_siblings(given: Mapping[str, Json], uuids: Sequence[str]) -> JsonObject:
    """The attributes of one request of several, with uuids in place of `#0`, `#1`, ...

    `uuids` are those of the requests before it. Raises Invalid for a number that is not below.
    """
    bound = dict(given)
    named = given.get("depends_on")
    if isinstance(named, list):
        bound["depends_on"] = [_sibling(one, uuids) for one in named]
    mounted = given.get("mounts")
    if isinstance(mounted, dict):
        bound["mounts"] = {
            target: {**spec, _SOURCE: _sibling(spec[_SOURCE], uuids)}
            if isinstance(spec, dict) and _SOURCE in spec
            else spec
            for target, spec in mounted.items()
        }
    return bound


def _sibling(name: Json, uuids: Sequence[str]) -> Json:
    if not isinstance(name, str) or not name.startswith("#"):
        return name
    number = name[1:]
    if not (number.isascii() and number.isdigit() and int(number[:6]) < len(uuids)):
        raise Invalid(f"{printable(name)} names no earlier request of this call")
    return uuids[int(number[:6])]


def judge(
    request: ContainerRequest, dependencies: Mapping[str, Dependency], *, now: str
) -> ReadinessVerdict:
    """Readiness of a request at `now`. `dependencies` has every named request that exists."""
    # A broken dependency ends the request, so it is tested before the times.
    broken = next(
        (one for one in _dependencies(request, dependencies) if one.readiness is Readiness.BROKEN),
        None,
    )
    if broken is not None:
        return broken
    if request.expires_at is not None and request.expires_at <= now:
        return ReadinessVerdict(
            Readiness.EXPIRED,
            f"It expired at {request.expires_at}: its priority counts as 0 since then.",
        )
    for one in _dependencies(request, dependencies):
        if one.readiness is Readiness.DEPENDENT:
            return one
    if request.start_after is not None and request.start_after > now:
        return ReadinessVerdict(Readiness.EARLY, f"It is to start after {request.start_after}.")
    return READY


def _dependencies(
    request: ContainerRequest, known: Mapping[str, Dependency]
) -> list[ReadinessVerdict]:
    return [_judge_one(uuid, known.get(uuid, Dependency(None))) for uuid in request.depends_on]


def _judge_one(uuid: str, dependency: Dependency) -> ReadinessVerdict:
    other, container = dependency.request, dependency.container
    if other is None:
        return _broken(uuid, "was deleted")
    if other.state is not requests_.RequestState.FINAL:
        doing = (
            "is still a draft"
            if other.state is requests_.RequestState.UNCOMMITTED
            else "has not ended"
        )
        return ReadinessVerdict(
            Readiness.DEPENDENT, f"It waits for the request {uuid}, which {doing}.", uuid
        )
    if container is None or container.state in (
        ContainerState.QUEUED,
        ContainerState.LOCKED,
        ContainerState.RUNNING,
    ):
        return _broken(uuid, "ended without a result")
    if container.state is ContainerState.CANCELLED:
        return _broken(uuid, "was cancelled")
    if container.exit_code != 0:
        return _broken(uuid, f"ended with exit code {container.exit_code}")
    return READY


def _broken(uuid: str, how: str) -> ReadinessVerdict:
    return ReadinessVerdict(
        Readiness.BROKEN, f"It depends on the request {uuid}, which {how}.", uuid
    )
