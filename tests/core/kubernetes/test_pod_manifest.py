from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.ids import ALPHABET
from lading.core.kubernetes.pod_manifest import (
    CONTAINER,
    ISOLATIONS,
    NodeKind,
    PodSettings,
    attempt_of,
    identify,
    make_pod,
    make_secret,
    offered,
    pod_name,
    selector,
)
from lading.core.resources import GIB, MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.supervisor.engines.bundle import CAPABILITIES

DISPATCHER = "zzzzz-gj3su-000000000000001"
UUID = "zzzzz-dz642-000000000000001"
SETTINGS = PodSettings(dispatcher=DISPATCHER, image="lading:1", command=("lading-supervisor",))
KIND = NodeKind(name="plain", capacity=Resources(8, 16 * GIB, 100 * GIB))
# A name of an object, and a value of a label (RFC 1123).
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
uuids = st.text(ALPHABET, min_size=15, max_size=15).map(lambda text: f"zzzzz-dz642-{text}")


def spec_of(settings: PodSettings = SETTINGS, kind: NodeKind = KIND, **more: Any) -> Any:
    container = TrackedContainer(uuid=UUID, need=more.pop("need", Resources(1, MIB)), **more)
    return make_pod(settings, kind, container, attempt="0123456789")["spec"]


@given(uuids, st.text())
def test_an_object_is_known_by_its_labels_and_its_name(uuid: str, token: str) -> None:
    attempt = attempt_of(token)
    pod: Any = make_pod(SETTINGS, KIND, TrackedContainer(uuid=uuid), attempt=attempt)
    metadata = pod["metadata"]
    assert _NAME.fullmatch(metadata["name"])
    assert all(_NAME.fullmatch(value) for value in metadata["labels"].values())
    assert identify(metadata, dispatcher=DISPATCHER) == (uuid, attempt)
    assert identify(metadata, dispatcher="zzzzz-gj3su-000000000000002") is None
    assert identify({**metadata, "name": "other"}, dispatcher=DISPATCHER) is None
    marks = {**metadata["labels"], CONTAINER: "other"}
    assert identify({**metadata, "labels": marks}, dispatcher=DISPATCHER) is None


@given(uuids, uuids, st.text(), st.text())
def test_names_differ_as_attempts_do(one: str, other: str, token: str, later: str) -> None:
    first, second = pod_name(one, attempt_of(token)), pod_name(other, attempt_of(later))
    assert (first == second) == ((one, attempt_of(token)) == (other, attempt_of(later)))


@given(st.dictionaries(st.text(), st.text()))
def test_labels_of_the_configuration_never_replace_ours(more: dict[str, str]) -> None:
    ours = ["app.kubernetes.io/managed-by", "lading/container", "lading/dispatcher"]
    settings = PodSettings(
        dispatcher=DISPATCHER, image="i", command=(), labels={**more, **dict.fromkeys(ours, "x")}
    )
    pod: Any = make_pod(settings, KIND, TrackedContainer(uuid=UUID), attempt="a")
    assert identify(pod["metadata"], dispatcher=DISPATCHER) == (UUID, "a")
    assert more.keys() <= pod["metadata"]["labels"].keys()


@given(st.text("0123456789abcdefghij", min_size=40, max_size=60))
def test_the_token_is_in_the_secret_alone(token: str) -> None:
    attempt = attempt_of(token)
    pod = make_pod(SETTINGS, KIND, TrackedContainer(uuid=UUID), attempt=attempt)
    assert token not in json.dumps(pod)
    secret: Any = make_secret(
        SETTINGS, UUID, attempt=attempt, pod_uid="u", files={"assignment": token.encode()}
    )
    assert base64.b64decode(secret["data"]["assignment"]).decode() == token
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert secret["metadata"]["name"] == pod["metadata"]["name"]  # type: ignore[index,call-overload]


def test_requests_equal_limits_and_have_room_for_the_supervisor() -> None:
    settings = PodSettings(dispatcher=DISPATCHER, image="i", command=(), extra_ram=5)
    (one,) = spec_of(settings, need=Resources(2, 100, 300, 1))["containers"]
    expected = {"cpu": "2", "memory": "105", "ephemeral-storage": "300", "nvidia.com/gpu": "1"}
    assert one["resources"] == {"requests": expected, "limits": expected}


def test_a_kind_of_node_is_chosen_by_the_pod() -> None:
    kind = NodeKind(
        name="big",
        capacity=Resources(),
        selector={"disk": "fast"},
        tolerations=({"key": "lading", "operator": "Exists"},),
        priority_class="low",
        runtime_class="vm",
    )
    spec = spec_of(kind=kind)
    assert spec["nodeSelector"] == {"disk": "fast"}
    assert spec["tolerations"] == [{"key": "lading", "operator": "Exists"}]
    assert (spec["priorityClassName"], spec["runtimeClassName"]) == ("low", "vm")
    assert not {"nodeSelector", "priorityClassName", "runtimeClassName"} & spec_of().keys()


def test_a_pod_has_no_rights_in_the_cluster_and_is_never_started_again() -> None:
    spec = spec_of()
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["restartPolicy"] == "Never"
    assert spec["shareProcessNamespace"] is True
    assert "env" not in spec["containers"][0]
    assert spec["volumes"][0]["secret"]["defaultMode"] == 0o400


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_only_privileged_isolation_is_privileged(isolation: str) -> None:
    settings = PodSettings(dispatcher=DISPATCHER, image="i", command=(), isolation=isolation)
    spec = spec_of(settings)
    context = spec["containers"][0]["securityContext"]
    assert (spec.get("hostUsers") is False) == (isolation == "user-namespace")
    assert context.get("privileged", False) == (isolation == "privileged")


def test_a_pod_has_the_capabilities_that_its_container_gets() -> None:
    settings = PodSettings(dispatcher=DISPATCHER, image="i", command=())
    context = spec_of(settings)["containers"][0]["securityContext"]
    assert set(CAPABILITIES) <= {f"CAP_{name}" for name in context["capabilities"]["add"]}
    # The default profile refuses crun to make a root file system.
    assert context["seccompProfile"] == {"type": "Unconfined"}


def test_a_deadline_leaves_time_for_images_and_outputs() -> None:
    assert spec_of(max_run_time=60)["activeDeadlineSeconds"] == 3660
    assert "activeDeadlineSeconds" not in spec_of()


def test_a_cache_of_the_node_is_mounted_where_it_is_configured() -> None:
    settings = PodSettings(dispatcher=DISPATCHER, image="i", command=(), cache_directory="/c")
    spec = spec_of(settings, need=Resources(1, 1, 7))
    assert {"name": "data", "emptyDir": {"sizeLimit": "7"}} in spec["volumes"]
    assert spec["volumes"][-1]["hostPath"]["path"] == "/c"
    assert {"name": "cache", "mountPath": "/var/lib/lading/cache"} in spec["containers"][0][
        "volumeMounts"
    ]


def test_the_supervisor_takes_a_part_of_a_node() -> None:
    kind = NodeKind(name="plain", capacity=Resources(2, 100, 7, 1))
    assert offered(kind, extra_ram=30) == Resources(2, 70, 7, 1)
    assert offered(kind, extra_ram=300).ram == 0


def test_the_selector_names_one_dispatcher() -> None:
    assert selector("x") == "app.kubernetes.io/managed-by=lading,lading/dispatcher=x"
