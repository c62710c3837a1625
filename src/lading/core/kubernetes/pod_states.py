"""The meaning of a Pod as the API server shows it: where it stands, why it waits, how it ended.

A Pod is judged by the whole object: phases may be skipped, and most short Pods are never seen
Running. Anything that is missing or of another type counts as absent. Source:
docs/spec/kubernetes, sections Outcomes and Waiting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from lading.core.errors import Failure
from lading.core.kubernetes import pod_manifest

# Characters of a message of the cluster that are shown to users.
_MOST_SHOWN = 300
_IMAGE_FAULTS = frozenset(
    {
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_TAKEN_AWAY: Mapping[str, tuple[Failure, str]] = MappingProxyType(
    {
        "PreemptionByScheduler": (Failure.PREEMPTED, "a Pod of higher priority took its place"),
        "EvictionByEvictionAPI": (Failure.PREEMPTED, "it was evicted, as when a node is drained"),
        "DeletionByTaintManager": (
            Failure.NODE,
            "its node has a taint, as of one that is lost",
        ),
        "DeletionByPodGC": (Failure.NODE, "its node is gone"),
        "TerminationByKubelet": (Failure.NODE, "its node shut down or lacked a resource"),
    }
)
_REASONS: Mapping[str, tuple[Failure, str]] = MappingProxyType(
    {
        "Preempting": (Failure.PREEMPTED, "a Pod of higher priority took its place"),
        "Preempted": (Failure.PREEMPTED, "a Pod of higher priority took its place"),
        "Evicted": (Failure.NODE, "its node lacked a resource and evicted it"),
        "NodeLost": (Failure.NODE, "its node was lost"),
        "NodeShutdown": (Failure.NODE, "its node shut down"),
        "Shutdown": (Failure.NODE, "its node shut down"),
        "Terminated": (Failure.NODE, "its node shut down"),
        "NodeAffinity": (Failure.NODE, "the node refused it: the node's labels have changed"),
        "UnexpectedAdmissionError": (Failure.NODE, "the node refused it"),
        "TopologyAffinityError": (Failure.NODE, "the node refused it: no aligned resources"),
        "DeadlineExceeded": (Failure.TIMEOUT, "it ran longer than its deadline"),
    }
)
# Words of the kubelet about a Pod that filled its own storage.
_OWN_STORAGE = (
    "exceeds the limit",
    "exceeds the total limit",
    "exceeded its local ephemeral storage limit",
)
# Parts of the scheduler's message "0/5 nodes are available: 3 Insufficient cpu, 2 node(s) had ...".
_SCHEDULER = re.compile(r"\d+/(\d+) nodes are available: (.*)", re.DOTALL)
_PART = re.compile(r"(\d+) (.+)", re.DOTALL)
# What it is in plain words, of one node and of several.
_LACKS, _TAINTED = ("lacks ", "lack "), "a taint that the kind of node does not tolerate"
_WORDS: tuple[tuple[str, tuple[str, str]], ...] = (
    ("insufficient cpu", ("lacks CPUs", "lack CPUs")),
    ("insufficient memory", ("lacks RAM", "lack RAM")),
    ("insufficient ephemeral-storage", ("lacks disk", "lack disk")),
    *(
        (f"insufficient {maker}", ("lacks GPUs", "lack GPUs"))
        for maker in ("nvidia.com/", "amd.com/gpu", "gpu.intel.com/")
    ),
    ("insufficient ", _LACKS),
    ("too many pods", ("has as many Pods as it may", "have as many Pods as they may")),
    ("untolerated taint", (f"has {_TAINTED}", f"have {_TAINTED}")),
    ("had taint", (f"has {_TAINTED}", f"have {_TAINTED}")),
    ("node affinity/selector", ("is of another kind", "are of another kind")),
    ("node affinity", ("is of another kind", "are of another kind")),
    ("were unschedulable", ("is closed for new Pods", "are closed for new Pods")),
)


class PodPhase(StrEnum):
    """Where a Pod stands: before its supervisor, with it, or after it."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """One Pod of a dispatcher at one moment.

    `note`: why it waits, or where it runs, as a sentence. `fate` and `failure`: how it has ended,
    as a sentence, and its class; of one that the cluster takes away, this is known before its end.
    `started`: its supervisor has begun at some time. `deleting`: somebody has deleted it, with so
    many seconds of `grace`. `stuck`: it has a node and does not begin there; `lacks_image`: as its
    image cannot be had.
    """

    name: str
    uid: str
    container: str
    attempt: str
    created: str = ""
    node: str = ""
    phase: PodPhase = PodPhase.WAITING
    started: bool = False
    deleting: bool = False
    grace: float = 0.0
    stuck: bool = False
    lacks_image: bool = False
    note: str = ""
    fate: str = ""
    failure: Failure = Failure.INFRASTRUCTURE


def read_pod(pod: object, *, dispatcher: str, is_gone: bool = False) -> PodState | None:
    """The state of a Pod of this dispatcher; None for any other object. `is_gone`: the object is
    the last state of a Pod that is no longer there.
    """
    metadata = _mapping(_mapping(pod).get("metadata"))
    identity = pod_manifest.identify(metadata, dispatcher=dispatcher)
    uid = _text(metadata.get("uid"))
    if identity is None or not uid:
        return None
    status = _mapping(_mapping(pod).get("status"))
    node = _text(_mapping(_mapping(pod).get("spec")).get("nodeName"))
    phase, started = _phase(status)
    name = _text(metadata.get("name"))
    phase = PodPhase.ENDED if is_gone else phase
    deleting = bool(metadata.get("deletionTimestamp"))
    failure, fate = (
        _outcome(status, deleting=deleting)
        if phase is PodPhase.ENDED or _is_disrupted(status)
        else (Failure.INFRASTRUCTURE, "")
    )
    return PodState(
        name=name,
        uid=uid,
        container=identity[0],
        attempt=identity[1],
        created=_text(metadata.get("creationTimestamp")),
        node=node,
        phase=phase,
        started=started,
        deleting=deleting,
        grace=_seconds(metadata.get("deletionGracePeriodSeconds")),
        stuck=phase is PodPhase.WAITING and bool(node),
        lacks_image=phase is PodPhase.WAITING and _waiting_reason(status) in _IMAGE_FAULTS,
        note=_note(status, phase, name, node),
        fate=f"Pod {name}{f' on {node}' if node else ''}: {fate}." if fate else "",
        failure=failure,
    )


def explain_unschedulable(message: str) -> str:
    """The scheduler's message in plain words, such as "of 5 nodes, 3 lack CPUs, 2 are of another
    kind"; shortened as it is where it has another form.
    """
    matched = _SCHEDULER.match(message)
    if matched is None:
        return shorten(message) or "the scheduler gives no reason"
    # Behind the first full stop the scheduler tells about preemption.
    parts = [_plain(clause) for clause in matched[2].partition(". ")[0].rstrip(". ").split(", ")]
    told = ", ".join(parts[:6])
    number = matched[1]
    return shorten(f"of {number} {'node' if number == '1' else 'nodes'}, {told}")


def shorten(message: str) -> str:
    """Text of the cluster in one line of at most 300 characters."""
    line = " ".join(message.split())
    return line if len(line) <= _MOST_SHOWN else line[: _MOST_SHOWN - 3] + "..."


def _plain(clause: str) -> str:
    matched = _PART.match(clause)
    if matched is None:
        return clause
    number, cause = matched[1], matched[2]
    lowered = cause.lower()
    for words, plain in _WORDS:
        if words in lowered:
            rest = lowered.partition("insufficient ")[2] if plain is _LACKS else ""
            return f"{number} {plain[number != '1']}{rest}"
    return f"{number} {cause.removeprefix('node(s) ')}"


def _phase(status: Mapping[str, object]) -> tuple[PodPhase, bool]:
    """Where it stands, and whether its supervisor has begun at some time."""
    state = _supervisor(status)
    ended, runs = "terminated" in state, "running" in state
    match _text(status.get("phase")):
        case "Succeeded" | "Failed":
            return PodPhase.ENDED, ended or runs
        case "Running":
            # One container, never started again: with its end the Pod has ended, a moment before
            # the kubelet says so by the phase.
            return (PodPhase.ENDED if ended else PodPhase.RUNNING), True
        case _:
            # Pending, Unknown, or nothing yet. A node that does not answer ends nothing.
            started = ended or runs
            return (PodPhase.RUNNING if started else PodPhase.WAITING), started


def _outcome(status: Mapping[str, object], *, deleting: bool) -> tuple[Failure, str]:
    reason = _text(status.get("reason"))
    if _is_disrupted(status):
        cause = shorten(_text(_condition(status, "DisruptionTarget").get("reason")))
        return _TAKEN_AWAY.get(cause, (Failure.NODE, f"it was taken from its node ({cause})"))
    message = _text(status.get("message"))
    if reason == "Evicted" and any(words in message for words in _OWN_STORAGE):
        return Failure.DISK, f"it filled its scratch disk ({shorten(message)})"
    if reason.startswith("OutOf"):
        return Failure.NODE, f"the node refused it: no {shorten(reason[5:])} left"
    if reason in _REASONS:
        failure, words = _REASONS[reason]
        return failure, f"{words} ({shorten(message)})" if message else words
    return _ended(status, reason, deleting=deleting)


def _is_disrupted(status: Mapping[str, object]) -> bool:
    return _condition(status, "DisruptionTarget").get("status") == "True"


def _ended(status: Mapping[str, object], reason: str, *, deleting: bool) -> tuple[Failure, str]:
    last = _mapping(_supervisor(status).get("terminated"))
    if last.get("reason") == "OOMKilled":
        return Failure.OOM, "it was killed for using too much memory"
    if "exitCode" in last:
        code, why = shorten(str(last["exitCode"])), shorten(_text(last.get("reason")))
        words = "it was deleted, and its" if deleting else "its"
        return (
            Failure.INFRASTRUCTURE,
            f"{words} supervisor ended with exit code {code}{f' ({why})' if why else ''}",
        )
    if status.get("phase") == "Failed" or "running" not in _supervisor(status):
        return (
            Failure.INFRASTRUCTURE,
            f"it ended{f' as {shorten(reason)}' if reason else ''} before its supervisor began",
        )
    return Failure.INFRASTRUCTURE, "it was deleted while its supervisor ran"


def _note(status: Mapping[str, object], phase: PodPhase, name: str, node: str) -> str:
    if phase is PodPhase.ENDED:
        return ""
    if phase is PodPhase.RUNNING:
        return f"Started by Kubernetes as Pod {name} on {node}; being prepared."
    return f"Waiting in Kubernetes as Pod {name}{_why(status)}."


def _why(status: Mapping[str, object]) -> str:
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        said = _text(scheduled.get("message"))
        if scheduled.get("reason") == "SchedulingGated":
            return ": a scheduling gate (Kueue or another queue) holds it back"
        return f": no node has room for it ({explain_unschedulable(said)})"
    waiting = _waiting_reason(status)
    if waiting in _IMAGE_FAULTS:
        return f": its node cannot get the image of the supervisor ({waiting})"
    if waiting in ("", "ContainerCreating", "PodInitializing"):
        return ""
    return f": {waiting}"


def _waiting_reason(status: Mapping[str, object]) -> str:
    return shorten(_text(_mapping(_supervisor(status).get("waiting")).get("reason")))


def _supervisor(status: Mapping[str, object]) -> Mapping[str, object]:
    """The state of the supervisor's container."""
    for entry in _items(status.get("containerStatuses")):
        if entry.get("name") == pod_manifest.SUPERVISOR:
            return _mapping(entry.get("state"))
    return {}


def _condition(status: Mapping[str, object], kind: str) -> Mapping[str, object]:
    for condition in _items(status.get("conditions")):
        if condition.get("type") == kind:
            return condition
    return {}


def _items(value: object) -> Iterator[Mapping[str, object]]:
    for item in value if isinstance(value, list) else ():
        yield _mapping(item)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _seconds(value: object) -> float:
    # Beyond a day it is no grace period, and a float may not hold it.
    return float(min(value, 86_400)) if isinstance(value, int) and value > 0 else 0.0
