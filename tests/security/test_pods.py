"""A container attacks the cluster by its Pod: rights of service accounts, secrets, names, labels,
amounts, and directories of nodes.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.ids import ALPHABET
from lading.core.kubernetes.pod_manifest import (
    ISOLATIONS,
    OWN_LABELS,
    NodeKind,
    PodSettings,
    attempt_of,
    identify,
    make_pod,
    make_secret,
)
from lading.core.resources import GIB, Resources
from lading.core.scheduling.planning import TrackedContainer

DISPATCHER, TOKEN = "zzzzz-gj3su-000000000000001", "v2/zzzzz-gj3su-000000000000002/secret"
MOST_SECONDS, MOST_AMOUNT = (1 << 31) - 1, (1 << 63) - 1
"""The largest time of a Pod, and the largest amount, that an API server takes."""
uuids = st.text(ALPHABET, min_size=15, max_size=15).map(lambda text: f"zzzzz-dz642-{text}")
amounts = st.integers(0, 1 << 62)
words = st.lists(st.text(), max_size=3).map(tuple)


@st.composite
def containers(draw: st.DrawFn) -> TrackedContainer:
    """Containers whose users ask for anything."""
    return TrackedContainer(
        uuid=draw(uuids),
        need=Resources(*(draw(amounts) for _ in range(4))),
        max_run_time=draw(st.integers(0, 1 << 62)),
        partitions=draw(words),
        priority=draw(st.integers(0, 1 << 40)),
    )


def _strings(document: Any) -> list[str]:
    if isinstance(document, dict):
        return [text for pair in document.items() for part in pair for text in _strings(part)]
    if isinstance(document, list | tuple):
        return [text for part in document for text in _strings(part)]
    return [document] if isinstance(document, str) else []


def _settings(isolation: str = ISOLATIONS[0], cache: str = "") -> PodSettings:
    labels = dict.fromkeys(OWN_LABELS, "stolen") | {"team": "a"}
    return PodSettings(
        dispatcher=DISPATCHER,
        image="lading:1",
        command=("lading-supervisor",),
        labels=labels,
        isolation=isolation,
        cache_directory=cache,
    )


KIND = NodeKind(name="plain", capacity=Resources(8, 16 * GIB, 100 * GIB))


@pytest.mark.attack("asks for amounts, times and partitions that change the manifest of its Pod")
@given(containers())
def test_only_the_uuid_and_the_amounts_of_a_container_are_in_its_pod(
    container: TrackedContainer,
) -> None:
    pod: Any = make_pod(_settings(), KIND, container, attempt=attempt_of(TOKEN))
    plain: Any = make_pod(
        _settings(), KIND, TrackedContainer(uuid=container.uuid), attempt=attempt_of(TOKEN)
    )
    spec = pod["spec"]
    assert pod["metadata"] == plain["metadata"]
    # Everything else is the same for all containers.
    (inside,), (same,) = spec["containers"], plain["spec"]["containers"]
    assert {k: v for k, v in inside.items() if k != "resources"} == {
        k: v for k, v in same.items() if k != "resources"
    }
    limits = inside["resources"]["limits"]
    assert all(text.isdecimal() and int(text) <= MOST_AMOUNT for text in limits.values())
    assert 0 < spec.get("activeDeadlineSeconds", 1) <= MOST_SECONDS
    assert TOKEN not in json.dumps(pod)


@pytest.mark.attack("reads the token of a service account, environments of services, the host")
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("cache", ["", "/var/cache/lading"])
def test_what_a_pod_has_of_its_cluster(isolation: str, cache: str) -> None:
    pod: Any = make_pod(
        _settings(isolation, cache),
        KIND,
        TrackedContainer(uuid="zzzzz-dz642-000000000000001"),
        attempt=attempt_of(TOKEN),
    )
    spec = pod["spec"]
    assert spec["automountServiceAccountToken"] is spec["enableServiceLinks"] is False
    assert {"hostNetwork", "hostPID", "hostIPC"}.isdisjoint(spec)
    assert {"env", "envFrom", "ports"}.isdisjoint(spec["containers"][0])
    kinds = {kind for volume in spec["volumes"] for kind in volume if kind != "name"}
    assert kinds == {"secret", "emptyDir"} | ({"hostPath"} if cache else set())
    context = spec["containers"][0]["securityContext"]
    assert context.get("privileged", False) == (isolation == "privileged")
    assert spec.get("hostUsers", True) == (isolation == "privileged")


@pytest.mark.attack("is taken for a Pod of a dispatcher by labels of the configuration or a name")
@given(uuids, st.dictionaries(st.sampled_from(sorted(OWN_LABELS)), st.text(), min_size=1))
def test_labels_are_the_dispatchers_own(uuid: str, marks: dict[str, str]) -> None:
    attempt = attempt_of(TOKEN)
    pod: Any = make_pod(_settings(), KIND, TrackedContainer(uuid=uuid), attempt=attempt)
    metadata = pod["metadata"]
    assert identify(metadata, dispatcher=DISPATCHER) == (uuid, attempt)
    forged = {**metadata["labels"], **marks}
    if forged != metadata["labels"]:
        assert identify({**metadata, "labels": forged}, dispatcher=DISPATCHER) is None


@pytest.mark.attack("keeps the secret of a Pod after its end, or replaces it")
def test_a_secret_ends_with_its_pod_and_cannot_be_changed() -> None:
    uuid = "zzzzz-dz642-000000000000001"
    secret: Any = make_secret(
        _settings(), uuid, attempt=attempt_of(TOKEN), pod_uid="u", files={"assignment": b"x"}
    )
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], secret["immutable"]) == ("Pod", "u", True)
    assert TOKEN not in " ".join(_strings(secret))
