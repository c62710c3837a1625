"""Bugs of the Kubernetes fleet to plant, to show that its scenario finds them. Each replaces
decisions of the fleet while it is planted; the product has no code for any.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from lading.core.kubernetes import pod_manifest
from lading.core.kubernetes.pod_states import PodState
from lading.dispatch.fleets.kubernetes import kubernetes_fleet
from lading.dispatch.fleets.kubernetes.kubernetes_fleet import KubernetesFleet
from lading.dispatch.fleets.kubernetes.pod_table import PodTable


class Bug(StrEnum):
    """The bugs, by name."""

    LIST_ENDS = "list-ends-pods"
    """A Pod that a list does not show counts as gone."""
    NOT_REMOVED = "pod-left"
    """The Pod of a container that has ended is not removed."""
    FOREIGN = "foreign-pods"
    """Pods of all dispatchers count as one's own."""
    TOKEN = "token-in-pod"
    """The token of a supervisor is the name of its attempt, which is in a label."""
    TOO_MANY = "too-many-wait"
    """All containers are handed over, however many Pods wait."""
    NOT_ADOPTED = "pods-not-adopted"
    """A dispatcher that was started again does not look for the Pods of the one before."""


@contextlib.contextmanager
def planted(bug: Bug | None) -> Iterator[None]:
    """Plant a bug inside the context, or none."""
    with contextlib.ExitStack() as undo:
        for owner, name, replacement in _BUGS[bug] if bug is not None else ():
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)
        yield


_identify = pod_manifest.identify
_missing = PodTable.missing
_observe = PodTable.observe


def _end_missing(
    table: PodTable, shown: Iterable[PodState], before: Iterable[str]
) -> list[PodState]:
    for state in _missing(table, shown, before):
        table.absent(state.name, state.uid)
    return []


def _observe_own(table: PodTable, state: PodState, *, now: float) -> None:
    if table.get(state.container) is not None:
        _observe(table, state, now=now)


async def _leave(fleet: KubernetesFleet, name: str, uid: str, *, grace: int) -> None:
    del fleet, name, uid, grace


def _identify_any(metadata: Mapping[str, Any], *, dispatcher: str) -> tuple[str, str] | None:
    del dispatcher
    return _identify(metadata, dispatcher=metadata["labels"][pod_manifest.DISPATCHER])


_BUGS: Final[Mapping[Bug, Iterable[tuple[object, str, Any]]]] = MappingProxyType(
    {
        Bug.LIST_ENDS: [(PodTable, "missing", _end_missing)],
        Bug.NOT_REMOVED: [(KubernetesFleet, "_remove", _leave)],
        Bug.FOREIGN: [
            (pod_manifest, "selector", lambda _: f"{pod_manifest.MANAGED_BY}=lading"),
            (pod_manifest, "identify", _identify_any),
        ],
        Bug.TOKEN: [(kubernetes_fleet, "attempt_of", lambda token: token)],
        Bug.TOO_MANY: [(PodTable, "waiting", 0)],
        Bug.NOT_ADOPTED: [(PodTable, "observe", _observe_own)],
    }
)
