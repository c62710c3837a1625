"""The Kubernetes fleet on a fake cluster; its promises are in
src/lading/testing/conformance/fleets.py.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from signal import Signals
from typing import Any

import pytest

from lading.core.errors import Conflict, ExecutionError, Failure, Unavailable
from lading.core.resources import GIB, MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.core.values import JsonObject
from lading.dispatch.fleet import StartRequest, SupervisorProcess
from lading.dispatch.fleets.kubernetes.kubernetes_fleet import KubernetesFleet
from lading.dispatch.fleets.kubernetes.pod_table import Patience
from lading.testing.kubernetes import FakeCluster
from lading.testing.kubernetes_objects import Malice, Thing
from tests.kubernetes_clusters import KIND, api_of, kubernetes_settings, pod_settings

UUIDS = [f"zzzzz-dz642-{n:015d}" for n in range(10)]
ONE, TWO = UUIDS[:2]


@asynccontextmanager
async def fleet_of(cluster: FakeCluster, **more: Any) -> AsyncIterator[KubernetesFleet]:
    api = api_of(cluster, patience=more.pop("api_patience", 1.0))
    async with (
        asyncio.timeout(180),
        KubernetesFleet(kubernetes_settings(**more), api) as fleet,
    ):
        await until(fleet, lambda: fleet.view().is_known or cluster.down)
        yield fleet


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    made = FakeCluster()
    yield made
    await made.close()


async def until(fleet: KubernetesFleet, condition: Callable[[], bool]) -> None:
    while not condition():
        await fleet.changed()


def order(uuid: str = ONE, **more: Any) -> StartRequest:
    need = more.pop("need", Resources(1, MIB))
    made = TrackedContainer(uuid=uuid, need=need, **more)
    return StartRequest(uuid=uuid, worker=KIND.name, token=f"secret of {uuid}", container=made)


def seen(fleet: KubernetesFleet, uuid: str = ONE) -> SupervisorProcess:
    return fleet.view().processes[uuid]


def alive(fleet: KubernetesFleet, uuid: str = ONE) -> bool:
    return seen(fleet, uuid).alive


def pod_of(cluster: FakeCluster, uuid: str = ONE) -> Thing:
    (pod,) = cluster.of(uuid)
    return pod


def name_of(cluster: FakeCluster, uuid: str = ONE) -> str:
    return str(pod_of(cluster, uuid)["metadata"]["name"])


async def running(fleet: KubernetesFleet, uuid: str = ONE) -> None:
    await until(fleet, lambda: "Started by Kubernetes" in seen(fleet, uuid).note)


async def test_a_worker_is_a_kind_of_node_less_the_supervisor(cluster: FakeCluster) -> None:
    async with fleet_of(cluster, pods=pod_settings(extra_ram=GIB)) as fleet:
        (worker,) = fleet.view().workers
    assert (worker.id, worker.queues) == ("plain", True)
    assert worker.capacity == KIND.capacity - Resources(0, GIB)


async def test_the_assignment_goes_by_the_secret_alone(cluster: FakeCluster) -> None:
    more = {"template": {"api_url": "https://server"}, "certificate": "PEM"}
    async with fleet_of(cluster, **more) as fleet:
        await fleet.start(order())
    pod, (secret,) = pod_of(cluster), cluster.secrets.values()
    assert "secret of" not in json.dumps(pod)
    given = json.loads(base64.b64decode(secret["data"]["assignment"]))
    assert given["supervisor_token"] == f"secret of {ONE}"
    assert given["api_url"] == "https://server"
    assert given["api_ca_file"] == "/etc/lading/server.crt"
    assert base64.b64decode(secret["data"]["server.crt"]) == b"PEM"
    assert secret["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]


@pytest.mark.parametrize(("size", "is_given"), [(1, True), (1 << 20, False)])
async def test_the_record_goes_with_it_unless_it_is_large(
    cluster: FakeCluster, size: int, is_given: bool
) -> None:
    known: JsonObject = {"container": {"command": ["x" * size]}, "auth": {"api_token": "t"}}
    async with fleet_of(cluster) as fleet:
        await fleet.start(replace(order(), records=known))
    (secret,) = cluster.secrets.values()
    given = json.loads(base64.b64decode(secret["data"]["assignment"]))
    assert given["known"] == (known if is_given else {})


async def test_the_client_uses_the_rights_of_its_role_alone(cluster: FakeCluster) -> None:
    async with fleet_of(cluster) as fleet:
        await fleet.start(order())
        await running(fleet)
        await fleet.signal(ONE, Signals.SIGKILL)
        await until(fleet, lambda: not alive(fleet))
        await fleet.clean(ONE)
    assert set(cluster.calls) <= cluster.rights


async def test_no_more_is_asked_for_than_may_wait() -> None:
    cluster = FakeCluster(slots=0)
    async with fleet_of(cluster, most_waiting=3) as fleet:
        assert fleet.view().most == 3
        await fleet.start(order())
        assert fleet.view().most == 2
    await cluster.close()


async def test_a_post_without_answer_makes_one_pod() -> None:
    cluster = FakeCluster(seed=3, malice=Malice(mute=0.5))
    async with fleet_of(cluster, api_patience=60.0) as fleet:
        await asyncio.gather(*(fleet.start(order(uuid)) for uuid in UUIDS))
        assert sorted(cluster.pods) == sorted(cluster.secrets)
        assert len(cluster.pods) == len(UUIDS)
    await cluster.close()


async def test_a_start_of_unknown_outcome_never_runs(cluster: FakeCluster) -> None:
    async with fleet_of(cluster, api_patience=0.01) as fleet:
        cluster.malice = Malice(late=1.0)
        with pytest.raises(Unavailable):
            await fleet.start(order())
        with pytest.raises(Conflict):
            await fleet.start(order())
        cluster.malice = Malice()
        await until(fleet, lambda: not alive(fleet))
        await fleet.clean(ONE)
        await cluster.pulse.wait_for(lambda: not cluster.pods)
        assert cluster.ran == {}


async def test_a_pod_of_a_late_post_is_removed(cluster: FakeCluster) -> None:
    async with fleet_of(cluster) as fleet:
        await fleet.start(order())
        late = replace(order(), token="of an earlier lock")
        other = FakeCluster()
        async with fleet_of(other) as second:
            await second.start(late)
        stray = pod_of(other)
        await other.close()
        await cluster.request(
            "POST", "/api/v1/namespaces/work/pods", headers={}, body=json.dumps(stray).encode()
        )
        await cluster.pulse.wait_for(lambda: len(cluster.of(ONE)) == 1)
        assert pod_of(cluster)["metadata"]["name"] != stray["metadata"]["name"]
        assert alive(fleet)
        assert cluster.ran.get(ONE, 1) == 1


async def test_a_name_that_another_program_has_is_refused(cluster: FakeCluster) -> None:
    async with fleet_of(cluster) as fleet:
        await fleet.start(order())
        foreign = pod_of(cluster)
        await fleet.signal(ONE, Signals.SIGKILL)
        await until(fleet, lambda: not alive(fleet))
        await fleet.clean(ONE)
        foreign["metadata"]["labels"]["lading/dispatcher"] = "another"
        await cluster.request(
            "POST", "/api/v1/namespaces/work/pods", headers={}, body=json.dumps(foreign).encode()
        )
        with pytest.raises(ExecutionError, match="another program has made a Pod of this name"):
            await fleet.start(order())
        assert ONE not in fleet.view().processes


@pytest.mark.parametrize(
    ("verb", "resource"), [("create", "pods"), ("create", "secrets")], ids=["pods", "secrets"]
)
async def test_a_missing_right_is_named_and_nothing_more_is_started(
    cluster: FakeCluster, verb: str, resource: str
) -> None:
    async with fleet_of(cluster) as fleet:
        cluster.rights.remove((verb, resource))
        with pytest.raises(Unavailable, match=f"its Role lacks the verb {verb} for {resource}"):
            await fleet.start(order())
        assert f"its Role lacks the verb {verb} for {resource}" in fleet.view().shortage
        await until(fleet, lambda: not any(one.alive for one in fleet.view().processes.values()))
        await fleet.clean(ONE)
        cluster.rights.add((verb, resource))
        await until(fleet, lambda: not fleet.view().shortage)
        await fleet.start(order())
        assert alive(fleet)


async def test_a_right_that_the_watch_lacks_is_the_trouble(cluster: FakeCluster) -> None:
    cluster.rights.remove(("list", "pods"))
    async with KubernetesFleet(kubernetes_settings(), api_of(cluster)) as fleet:
        await until(fleet, lambda: bool(fleet.view().trouble))
        assert "its Role lacks the verb list for pods" in fleet.view().trouble
        assert not fleet.view().is_known


async def test_a_used_up_quota_is_waited_for(cluster: FakeCluster) -> None:
    cluster.refusal = 'pods "x" is forbidden: exceeded quota: q'
    async with fleet_of(cluster) as fleet:
        with pytest.raises(Unavailable, match="the quota of namespace work is used up"):
            await fleet.start(order())
        assert fleet.view().processes == {}
        await until(fleet, lambda: not fleet.view().shortage)


async def test_a_namespace_that_is_not_there_is_waited_for(cluster: FakeCluster) -> None:
    cluster.has_namespace = False
    async with fleet_of(cluster) as fleet:
        with pytest.raises(Unavailable, match="namespace work does not exist"):
            await fleet.start(order())
        assert fleet.view().processes == {}
        assert "namespace work does not exist" in fleet.view().shortage


async def test_a_pod_that_cannot_be_is_refused(cluster: FakeCluster) -> None:
    cluster.invalid = "spec.containers[0].image: Required value"
    async with fleet_of(cluster) as fleet:
        with pytest.raises(ExecutionError, match="refuses its Pod: .*Required value"):
            await fleet.start(order())
        assert not fleet.view().shortage


async def test_while_the_cluster_is_away_nothing_is_forgotten(cluster: FakeCluster) -> None:
    async with fleet_of(cluster, api_patience=0.01) as fleet:
        await fleet.start(order())
        cluster.down = True
        cluster.pulse.beat()
        await until(fleet, lambda: not fleet.view().workers)
        assert alive(fleet)
        cluster.down = False
        await until(fleet, lambda: bool(fleet.view().workers))
        assert alive(fleet)


async def test_a_watch_that_is_too_old_is_followed_by_a_list(cluster: FakeCluster) -> None:
    async with fleet_of(cluster) as fleet:
        await fleet.start(order())
        await running(fleet)
        # The watch misses the end, and is told so.
        cluster.pods[name_of(cluster)]["status"] = {"phase": "Succeeded"}
        cluster.compact()
        await until(fleet, lambda: not alive(fleet))


async def test_a_list_alone_ends_no_pod(cluster: FakeCluster) -> None:
    async with fleet_of(cluster, resync_interval=0.01) as fleet:
        cluster.malice = Malice(stale=1.0)
        await fleet.start(order())
        lists = cluster.calls.count(("list", "pods"))
        await until(fleet, lambda: ("get", "pods") in cluster.calls)
        await until(fleet, lambda: cluster.calls.count(("list", "pods")) > lists + 2)
        assert alive(fleet)


async def test_term_leaves_time_and_kill_a_second(cluster: FakeCluster) -> None:
    async with fleet_of(cluster) as fleet:
        await fleet.start(order())
        await running(fleet)
        cluster.frozen = True
        await fleet.signal(ONE, Signals.SIGUSR1)
        assert "deletionTimestamp" not in pod_of(cluster)["metadata"]
        await fleet.signal(ONE, Signals.SIGTERM)
        assert pod_of(cluster)["metadata"]["deletionGracePeriodSeconds"] == 900
        await fleet.signal(ONE, Signals.SIGKILL)
        assert pod_of(cluster)["metadata"]["deletionGracePeriodSeconds"] == 1
        assert alive(fleet)
        cluster.frozen = False
        cluster.pulse.beat()
        await until(fleet, lambda: not alive(fleet))


async def test_a_pod_that_waits_is_removed_at_once() -> None:
    cluster = FakeCluster(slots=0)
    async with fleet_of(cluster) as fleet:
        await fleet.start(order())
        assert seen(fleet).waiting
        await fleet.signal(ONE, Signals.SIGTERM)
        await until(fleet, lambda: not alive(fleet))
        await fleet.clean(ONE)
    assert not cluster.pods
    await cluster.close()


@pytest.mark.parametrize(
    ("status", "failure", "words"),
    [
        ({"reason": "Evicted", "message": "low on memory"}, Failure.NODE, "evicted"),
        ({"reason": "Preempting"}, Failure.PREEMPTED, "higher priority"),
        ({"reason": "NodeShutdown"}, Failure.NODE, "shut down"),
    ],
)
async def test_an_end_has_a_class(
    cluster: FakeCluster, status: dict[str, Any], failure: Failure, words: str
) -> None:
    async with fleet_of(cluster) as fleet:
        await fleet.start(order())
        await running(fleet)
        cluster.finish(name_of(cluster), **status)
        await until(fleet, lambda: not alive(fleet))
        assert seen(fleet).failure is failure
        assert words in seen(fleet).fate


async def test_a_pod_that_others_delete_has_ended(cluster: FakeCluster) -> None:
    async with fleet_of(cluster) as fleet:
        await fleet.start(order())
        await running(fleet)
        cluster.remove(name_of(cluster))
        await until(fleet, lambda: not alive(fleet))
        assert "deleted while its supervisor ran" in seen(fleet).fate
        await fleet.clean(ONE)
        await cluster.pulse.wait_for(lambda: not cluster.secrets)


async def test_a_node_that_does_not_answer_is_lost_after_a_while(cluster: FakeCluster) -> None:
    pods = pod_settings(grace_period=0)
    async with fleet_of(cluster, pods=pods, patience=Patience(lost=0.05)) as fleet:
        await fleet.start(order())
        await running(fleet)
        cluster.frozen = True
        await cluster.request("DELETE", f"/api/v1/namespaces/work/pods/{name_of(cluster)}",
            headers={}, body=b'{"gracePeriodSeconds": 0.01}')  # fmt: skip
        await until(fleet, lambda: not alive(fleet))
        assert seen(fleet).failure is Failure.NODE
        assert "its node does not answer" in seen(fleet).fate
        await fleet.clean(ONE)
        assert not cluster.pods


async def test_an_image_that_cannot_be_had_ends_the_wait(cluster: FakeCluster) -> None:
    cluster.image_is_there = False
    async with fleet_of(cluster, patience=Patience(begin=0.05)) as fleet:
        await fleet.start(order())
        await until(fleet, lambda: "cannot get the image" in seen(fleet).note)
        await until(fleet, lambda: not alive(fleet))
        assert seen(fleet).failure is Failure.IMAGE
        await fleet.clean(ONE)


async def test_a_new_dispatcher_finds_the_pods_of_the_one_before(cluster: FakeCluster) -> None:
    async with fleet_of(cluster) as fleet:
        await asyncio.gather(*(fleet.start(order(uuid)) for uuid in UUIDS[:3]))
        for uuid in UUIDS[:3]:
            await running(fleet, uuid)
    cluster.finish(name_of(cluster, UUIDS[2]))
    async with fleet_of(cluster) as fleet:
        assert [alive(fleet, uuid) for uuid in UUIDS[:3]] == [True, True, False]
        with pytest.raises(Conflict):
            await fleet.start(order())


async def test_an_old_first_list_hides_no_pod(cluster: FakeCluster) -> None:
    async with fleet_of(cluster) as fleet:
        await fleet.start(order())
        await running(fleet)
    # Nor does a watch show what the first list lacks.
    cluster.malice = Malice(stale=1.0, old=1.0)
    async with fleet_of(cluster) as fleet:
        assert alive(fleet)


async def test_a_living_pod_that_is_not_known_is_not_cleaned_away(cluster: FakeCluster) -> None:
    other = FakeCluster()
    async with fleet_of(other) as second, fleet_of(cluster) as fleet:
        await second.start(order())
        # It is there, and no event has told of it.
        cluster.pods |= {name_of(other): pod_of(other)}
        with pytest.raises(Conflict, match="has not ended"):
            await fleet.clean(ONE)
        assert alive(fleet)
    cluster.pods.clear()
    await other.close()


async def test_a_pod_without_its_secret_is_given_up_by_the_next_dispatcher(
    cluster: FakeCluster,
) -> None:
    async with fleet_of(cluster) as fleet:
        cluster.rights.remove(("create", "secrets"))
        cluster.rights.remove(("delete", "pods"))
        with pytest.raises(Unavailable):
            await fleet.start(order())
    cluster.rights |= {("create", "secrets"), ("delete", "pods")}
    async with fleet_of(cluster, patience=Patience(begin=0.05)) as fleet:
        assert alive(fleet)
        await until(fleet, lambda: not alive(fleet))
        assert "did not begin on its node" in seen(fleet).fate
        assert cluster.ran == {}


async def test_a_kind_that_is_not_configured_is_refused(cluster: FakeCluster) -> None:
    async with fleet_of(cluster) as fleet:
        with pytest.raises(ExecutionError, match="no such kind of node"):
            await fleet.start(replace(order(), worker="huge"))


async def test_a_deletion_that_the_watch_tells_needs_no_look(cluster: FakeCluster) -> None:
    # So long that a look for the Pod would not come within the time of the test.
    async with fleet_of(cluster, first_pause=600.0) as fleet:
        await fleet.start(order())
        await running(fleet)
        cluster.finish(name_of(cluster), phase="Succeeded")
        await until(fleet, lambda: not alive(fleet))
        await fleet.clean(ONE)
    assert ("get", "pods") not in cluster.calls
    assert not cluster.pods
    assert not cluster.secrets


async def test_a_pod_that_was_deleted_before_is_looked_for_at_once(cluster: FakeCluster) -> None:
    async with fleet_of(cluster, first_pause=600.0) as fleet:
        await fleet.start(order())
        await running(fleet)
        await fleet.signal(ONE, Signals.SIGKILL)
        await until(fleet, lambda: not alive(fleet))
        await cluster.pulse.wait_for(lambda: not cluster.pods)
        await fleet.clean(ONE)
    assert ("get", "pods") in cluster.calls


async def test_a_pod_that_kueue_holds_back_waits_until_it_is_let_go() -> None:
    cluster, queue = FakeCluster(slots=0), {"kueue.x-k8s.io/queue-name": "lading"}
    async with fleet_of(cluster, pods=pod_settings(labels=queue)) as fleet:
        await fleet.start(order())
        assert queue.items() <= pod_of(cluster)["metadata"]["labels"].items()
        gate = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
        cluster.show(name_of(cluster), conditions=[gate])
        await until(fleet, lambda: "a scheduling gate (Kueue" in seen(fleet).note)
        assert seen(fleet).waiting
        cluster.slots = 1
        cluster.pulse.beat()
        await running(fleet)
    await cluster.close()
