from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import Failure
from lading.core.kubernetes.pod_manifest import NodeKind, PodSettings, make_pod
from lading.core.kubernetes.pod_states import (
    PodPhase,
    PodState,
    explain_unschedulable,
    read_pod,
    shorten,
)
from lading.core.resources import Resources
from lading.core.scheduling.planning import TrackedContainer

DISPATCHER = "zzzzz-gj3su-000000000000001"
UUID = "zzzzz-dz642-000000000000001"
NAME = f"lading-{UUID}-a"
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
phases = st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"])
states = st.sampled_from(["waiting", "running", "terminated"])


def pod(status: object, **metadata: object) -> dict[str, Any]:
    settings = PodSettings(dispatcher=DISPATCHER, image="i", command=())
    made: Any = make_pod(
        settings,
        NodeKind(name="n", capacity=Resources()),
        TrackedContainer(uuid=UUID),
        attempt="a",
    )
    made["metadata"] |= {"uid": "u", **metadata}
    return made | {"status": status}  # type: ignore[no-any-return]


def read(status: object, *, node: str = "", **metadata: object) -> PodState:
    made = pod(status, **metadata)
    if node:
        made["spec"]["nodeName"] = node
    found = read_pod(made, dispatcher=DISPATCHER)
    assert found is not None
    return found


def supervisor(**state: object) -> list[object]:
    return [{"name": "supervisor", "state": state}]


@given(json_values)
def test_whatever_is_shown_can_be_read(status: object) -> None:
    assert read(status).container == UUID
    assert read_pod(status, dispatcher=DISPATCHER) is None


@given(
    st.dictionaries(
        st.sampled_from(["phase", "reason", "message", "conditions", "containerStatuses"]),
        json_values
        | st.lists(
            st.dictionaries(
                st.sampled_from(["type", "status", "reason", "name", "state"]), json_values
            )
        ),
    )
)
def test_fields_of_other_types_count_as_absent(status: dict[str, object]) -> None:
    found = read(status)
    assert found.phase is not PodPhase.ENDED or found.fate


@given(phases, states, st.text(), st.text())
def test_sentences_are_short_and_in_one_line(
    phase: str, state: str, reason: str, said: str
) -> None:
    about: dict[str, object] = {"reason": reason, "message": said, "exitCode": 1}
    found = read(
        {"phase": phase, "message": said, "containerStatuses": supervisor(**{state: about})}
    )
    for sentence in (found.note, found.fate):
        assert len(sentence) < 800
        assert "\n" not in sentence


@given(phases, states)
def test_a_started_pod_never_waits(phase: str, state: str) -> None:
    found = read({"phase": phase, "containerStatuses": supervisor(**{state: {}})})
    assert not (found.started and found.phase is PodPhase.WAITING)
    assert phase not in ("Succeeded", "Failed") or found.phase is PodPhase.ENDED


@pytest.mark.parametrize(
    ("status", "failure", "words"),
    [
        ({"reason": "Evicted", "message": "The node was low on resource: memory."}, "node", "low"),
        (
            {"reason": "Evicted", "message": "Usage of EmptyDir volume exceeds the limit 1Gi."},
            "disk",
            "filled its scratch disk",
        ),
        (
            {
                "reason": "Evicted",
                "message": "Container supervisor exceeded its local ephemeral storage limit 1Gi.",
            },
            "disk",
            "filled its scratch disk",
        ),
        ({"reason": "NodeShutdown"}, "node", "shut down"),
        ({"reason": "OutOfcpu"}, "node", "no cpu left"),
        ({"reason": "UnexpectedAdmissionError"}, "node", "refused"),
        ({"reason": "Preempting"}, "preempted", "higher priority"),
        ({"reason": "DeadlineExceeded"}, "timeout", "deadline"),
        ({}, "infrastructure", "before its supervisor began"),
    ],
)
def test_the_reason_of_an_end_has_a_class(
    status: dict[str, object], failure: str, words: str
) -> None:
    found = read({"phase": "Failed", **status}, node="n1")
    assert found.failure == Failure(failure)
    assert found.fate.startswith(f"Pod {NAME} on n1: ")
    assert words in found.fate


@pytest.mark.parametrize(
    ("reason", "failure"),
    [
        ("PreemptionByScheduler", Failure.PREEMPTED),
        ("EvictionByEvictionAPI", Failure.PREEMPTED),
        ("DeletionByTaintManager", Failure.NODE),
        ("DeletionByPodGC", Failure.NODE),
        ("SomethingNew", Failure.NODE),
    ],
)
def test_a_disruption_comes_before_the_exit_code(reason: str, failure: Failure) -> None:
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": reason}]
    ended = supervisor(terminated={"exitCode": 137, "reason": "Error"})
    found = read({"phase": "Failed", "conditions": conditions, "containerStatuses": ended})
    assert found.failure is failure


def test_the_end_of_the_supervisor_is_the_end_of_the_pod() -> None:
    killed = read(
        {
            "phase": "Running",
            "containerStatuses": supervisor(terminated={"exitCode": 137, "reason": "OOMKilled"}),
        }
    )
    assert (killed.phase, killed.failure) == (PodPhase.ENDED, Failure.OOM)
    ended = read(
        {"phase": "Succeeded", "containerStatuses": supervisor(terminated={"exitCode": 0})}
    )
    assert ended.fate == f"Pod {NAME}: its supervisor ended with exit code 0."
    left = read(
        {"phase": "Failed", "containerStatuses": supervisor(terminated={"exitCode": 1})},
        deletionTimestamp="2026-01-01T00:00:00Z",
    )
    assert left.fate == f"Pod {NAME}: it was deleted, and its supervisor ended with exit code 1."


def test_a_pod_that_is_gone_has_ended_by_its_last_state() -> None:
    taken = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    running = {"phase": "Running", "containerStatuses": supervisor(running={})}
    evicted = read({**running, "conditions": [taken]})
    assert (evicted.phase, evicted.failure) == (PodPhase.RUNNING, Failure.PREEMPTED)
    last = read_pod(pod(running), dispatcher=DISPATCHER, is_gone=True)
    assert last is not None
    assert last.phase is PodPhase.ENDED
    assert last.fate == f"Pod {NAME}: it was deleted while its supervisor ran."


def test_a_node_that_does_not_answer_ends_nothing() -> None:
    found = read({"phase": "Unknown", "containerStatuses": supervisor(running={})})
    assert found.phase is PodPhase.RUNNING
    assert read({"phase": "Running"}, deletionTimestamp="2026-01-01T00:00:00Z").deleting


def test_why_a_pod_waits() -> None:
    said = "0/3 nodes are available: 2 Insufficient cpu, 1 node(s) didn't match node affinity."
    scheduled = {"type": "PodScheduled", "status": "False", "message": said}
    unschedulable = {"conditions": [{**scheduled, "reason": "Unschedulable"}]}
    assert read(unschedulable).note == (
        f"Waiting in Kubernetes as Pod {NAME}: no node has room for it"
        " (of 3 nodes, 2 lack CPUs, 1 is of another kind)."
    )
    gated = {"conditions": [{**scheduled, "reason": "SchedulingGated"}]}
    assert "a scheduling gate" in read(gated).note
    pulling = {"containerStatuses": supervisor(waiting={"reason": "ImagePullBackOff"})}
    assert read(pulling).lacks_image
    assert "cannot get the image of the supervisor (ImagePullBackOff)" in read(pulling).note
    creating = {"containerStatuses": supervisor(waiting={"reason": "ContainerCreating"})}
    assert read(creating).note == f"Waiting in Kubernetes as Pod {NAME}."
    strange = {"containerStatuses": supervisor(waiting={"reason": "CreateContainerConfigError"})}
    assert read(strange).note.endswith(": CreateContainerConfigError.")


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        (
            "0/1 nodes are available: 1 Too many pods. preemption: 0/1 nodes are available.",
            "of 1 node, 1 has as many Pods as it may",
        ),
        (
            "0/4 nodes are available: 1 node(s) had untolerated taint {a: b}, "
            "3 Insufficient example.com/chip.",
            "of 4 nodes, 1 has a taint that the kind of node does not tolerate, "
            "3 lack example.com/chip",
        ),
        (
            "0/2 nodes are available: 2 node(s) were in a bad mood.",
            "of 2 nodes, 2 were in a bad mood",
        ),
        (
            "0/3 nodes are available: 1 node(s) were unschedulable, 1 Insufficient a/b, 1 more.",
            "of 3 nodes, 1 is closed for new Pods, 1 lacks a/b, 1 more",
        ),
        ("0/2 nodes are available: all are gone.", "of 2 nodes, all are gone"),
        ("no nodes available to schedule pods", "no nodes available to schedule pods"),
        ("", "the scheduler gives no reason"),
    ],
)
def test_the_scheduler_in_plain_words(said: str, plain: str) -> None:
    assert explain_unschedulable(said) == plain


@given(st.text())
def test_a_message_is_shortened_to_one_line(text: str) -> None:
    assert len(shorten(text * 50)) <= 300
    assert shorten(shorten(text)) == shorten(text)
