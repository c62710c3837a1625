"""The fake API server answers as the real one does, which accepts what deploy has for a cluster."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
import yaml

from lading.client.transport import HttpTransport, Response, Transport
from lading.core.errors import LadingError
from lading.core.kubernetes.pod_manifest import make_pod, make_secret
from lading.core.kubernetes.refusals import RefusalKind
from lading.core.resources import MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.dispatch.fleets.kubernetes.api_client import KubernetesApi, NotAllowed
from lading.dispatch.fleets.kubernetes.cluster_access import from_kubeconfig
from lading.testing.kubernetes import NAMESPACE, REVIEWS, FakeCluster
from lading.testing.kubernetes_objects import Malice
from lading.wiring.directory import ensure_certificate
from tests.kubernetes_clusters import KIND, pod_settings
from tests.kubernetes_manifests import DEPLOY, render
from tests.reality import need_program
from tests.system.kubernetes_control import (
    ApiRefused,
    ControlPlane,
    kustomize,
    running_control_plane,
)

pytestmark = [pytest.mark.system, pytest.mark.long]
UUID, ATTEMPT, FOREIGN = "zzzzz-dz642-000000000000001", "0123456789", "of-nobody"
CORE, DEFAULT = f"/api/v1/namespaces/{NAMESPACE}", "/api/v1/namespaces/default"
_SUBJECT = {
    "kind": "ServiceAccount", "serviceAccount": {"name": FOREIGN, "namespace": "default"},
}  # fmt: skip
_ALL = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
BUSY: dict[str, Any] = {
    "PriorityLevelConfiguration": {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        },
    },
    "FlowSchema": {
        "priorityLevelConfiguration": {"name": FOREIGN}, "matchingPrecedence": 2,
        "rules": [{"subjects": [_SUBJECT], "resourceRules": [_ALL]}],
    },
}  # fmt: skip
"""A priority level that has no seat for an account."""
APIS = {
    "Namespace": "/api/v1/namespaces", "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Service": "/api/v1/namespaces/{}/services",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
}  # fmt: skip


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    for name in ("etcd", "go"):
        need_program(name)
    async with running_control_plane(tmp_path) as made:
        yield made


@pytest.mark.parametrize(("name", "servers"), [("kubernetes", 1), ("kubernetes-replicas", 2)])
async def test_each_object_is_accepted_with_strict_validation(
    plane: ControlPlane, name: str, servers: int
) -> None:
    objects = kustomize(DEPLOY / name)
    for one in objects:
        # kustomize begins with the namespace.
        path = f"{APIS[one['kind']].format('lading')}?fieldValidation=Strict"
        await plane.ask("POST", path, one)
    async with asyncio.timeout(60):
        names = {f"lading-server-{number}" for number in range(servers)}
        while not names <= (pods := await _pods_of_controllers(plane)).keys() or (
            not any(name.startswith("lading-dispatcher-") for name in pods)
        ):
            await asyncio.sleep(0.1)
    assert len(pods) == servers + 1
    made = {one["metadata"]["name"] for one in objects if one["kind"] == "ConfigMap"}
    for pod in pods.values():
        (container,) = pod["spec"]["containers"]
        assert container["image"] == "lading:0.3.0"
        volumes = pod["spec"]["volumes"]
        assert {one["configMap"]["name"] for one in volumes if "configMap" in one} <= made


@pytest.mark.parametrize("name", ["kubernetes", "kubernetes-replicas"])
def test_the_tests_of_every_day_see_the_objects_of_kustomize(name: str) -> None:
    need_program("go")
    found = [one for one in kustomize(DEPLOY / name) if one["kind"] != "ConfigMap"]
    rendered = render(DEPLOY / name)
    assert _plain(found) == _plain(rendered)


def _plain(objects: Iterable[dict[str, Any]]) -> dict[str, str]:
    """The objects without what `render` leaves out: the namespace, the tag of the image, and the
    suffixes of names of ConfigMaps.
    """
    found = {}
    for one in objects:
        one["metadata"].pop("namespace", None)
        text = json.dumps(one, sort_keys=True).replace('"lading:0.3.0"', '"lading"')
        text = re.sub(r'("configMap": {"name": "[a-z-]+?)-[bcdfghkmt2456789]{10}"', r'\1"', text)
        found[f"{one['kind']} {one['metadata']['name']}"] = text
    return found


async def _pods_of_controllers(plane: ControlPlane) -> dict[str, Any]:
    listed = await plane.ask("GET", "/api/v1/namespaces/lading/pods")
    return {one["metadata"]["name"]: one for one in listed["items"]}


async def test_an_unknown_field_would_be_seen(plane: ControlPlane) -> None:
    (server,) = (one for one in render(DEPLOY / "kubernetes") if one["kind"] == "Namespace")
    server["spec"] = {"replica": 2}
    with pytest.raises(ApiRefused, match="unknown field"):
        await plane.ask("POST", f"{APIS['Namespace']}?fieldValidation=Strict", server)


async def test_the_fake_answers_as_the_real_one(plane: ControlPlane) -> None:
    cluster = FakeCluster(slots=0)
    cluster.has_namespace = False
    cluster.rights.add(("get", "namespaces"))
    real = await answers_without_namespace(plane.transport, plane.admin)
    fake = await answers_without_namespace(cluster, "")
    cluster.has_namespace = True
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await plane.ask("POST", "/api/v1/namespaces", namespace)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": FOREIGN}}
    await plane.ask("POST", f"{CORE}/serviceaccounts", account)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    asked = await plane.ask("POST", f"{CORE}/serviceaccounts/{FOREIGN}/token", review)
    await _until_pods_can_be_made(plane)
    real |= await answers(plane.transport, plane.admin)
    real |= await refusals(plane.transport, str(asked["status"]["token"]))
    fake |= await answers(cluster, "")
    cluster.rights.clear()
    fake |= await refusals(cluster, "")
    await cluster.close()
    assert {what: (fake[what], real[what]) for what in real if fake[what] != real[what]} == {}


async def test_the_fake_watches_as_the_real_one(plane: ControlPlane) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await plane.ask("POST", "/api/v1/namespaces", namespace)
    await _until_pods_can_be_made(plane)
    # Without its memory of changes it cannot tell those after an old version.
    for name in ("kube-scheduler", "kube-apiserver"):
        plane.end(name)
    plane.start("kube-apiserver")
    await plane.until_ready()
    real = await watched(plane.transport, plane.admin)
    cluster = FakeCluster(slots=0)
    cluster.compact()
    fake = await watched(cluster, "")
    await cluster.close()
    assert {what: (fake[what], real[what]) for what in real if fake[what] != real[what]} == {}


async def test_a_busy_api_server_is_as_the_fake_one(plane: ControlPlane) -> None:
    """The answer of a priority level without seats, by which API servers refuse with 429."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": FOREIGN}}
    await plane.ask("POST", f"{DEFAULT}/serviceaccounts", account)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    asked = await plane.ask("POST", f"{DEFAULT}/serviceaccounts/{FOREIGN}/token", review)
    headers = {"Authorization": f"Bearer {asked['status']['token']}"}
    for kind, spec in BUSY.items():
        made = {
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": kind,
            "metadata": {"name": FOREIGN}, "spec": spec,
        }  # fmt: skip
        await plane.ask("POST", f"/apis/flowcontrol.apiserver.k8s.io/v1/{kind.lower()}s", made)
    refused: Response | None = None
    async with asyncio.timeout(60):
        while refused is None:
            asking = (
                plane.transport.request("GET", f"{DEFAULT}/pods", headers=headers, timeout=30.0)
                for _ in range(50)
            )
            # One request is let in while there is no other.
            answered = await asyncio.gather(*asking)
            refused = next((one for one in answered if one.status == 429), None)
    cluster = FakeCluster(malice=Malice(busy=1.0))
    while (fake := await cluster.request("GET", f"{CORE}/pods", headers={})).status != 429:
        pass
    assert refused.body == fake.body
    assert refused.headers["retry-after"].isdecimal()
    assert fake.headers["retry-after"].isdecimal()


async def test_a_wrong_way_to_the_cluster_is_named(plane: ControlPlane) -> None:
    account = "/api/v1/namespaces/default/serviceaccounts"
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": FOREIGN}}
    await plane.ask("POST", account, body)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    asked = await plane.ask("POST", f"{account}/{FOREIGN}/token", review)
    token = str(asked["status"]["token"])
    assert await fault_of(plane.kubeconfig("admin", plane.admin)) == ""
    said = await fault_of(plane.kubeconfig("expired", "expired"))
    assert "does not know the dispatcher's token or certificate" in said
    said = await fault_of(plane.kubeconfig("elsewhere", token, namespace="elsewhere"))
    assert "may not list pods in namespace elsewhere; its Role lacks the verb list" in said
    said = await fault_of(plane.kubeconfig("missing", plane.admin, namespace="elsewhere"))
    assert "namespace elsewhere does not exist" in said
    ensure_certificate(
        plane.folder / "x.crt", plane.folder / "x.key", host="127.0.0.1", now=datetime.now(UTC)
    )
    path = plane.kubeconfig("authority", plane.admin)
    config = yaml.safe_load(path.read_text())
    authority = base64.b64encode((plane.folder / "x.crt").read_bytes()).decode()
    config["clusters"][0]["cluster"]["certificate-authority-data"] = authority
    path.write_text(yaml.safe_dump(config))
    assert "certificate verify failed" in await fault_of(path)


async def fault_of(kubeconfig: Path) -> str:
    """What is wrong with a way to a cluster; "" if Pods can be listed."""
    access = from_kubeconfig(kubeconfig)
    async with HttpTransport(access.url, verify=access.tls) as transport:
        api = KubernetesApi(transport, namespace=access.namespace, token=access.token, patience=0.0)
        try:
            try:
                await api.check_namespace()
            except NotAllowed as error:
                # Most may not ask.
                if error.refusal.kind is not RefusalKind.RIGHT:
                    raise
            await api.list_all("pods", "app=none")
        except LadingError as error:
            return error.message
    return ""


async def _until_pods_can_be_made(plane: ControlPlane) -> None:
    while True:
        try:
            await plane.ask("GET", f"{CORE}/serviceaccounts/default")
        except ApiRefused as error:
            assert error.status == 404  # noqa: PT017 - the controller makes it soon
        else:
            return


async def answers(transport: Transport, token: str) -> dict[str, Any]:
    """What an API server answers to the requests of a dispatcher, by what they are."""
    container = TrackedContainer(uuid=UUID, need=Resources(1, MIB))
    pod: Any = make_pod(pod_settings(), KIND, container, attempt=ATTEMPT)
    name = pod["metadata"]["name"]
    found: dict[str, Any] = {}

    async def ask(what: str, method: str, path: str, body: object = None) -> Any:
        found[what], answer = await _ask(transport, token, method, path, body)
        return answer

    made = await ask("make a Pod", "POST", f"{CORE}/pods", pod)
    await ask("make it again", "POST", f"{CORE}/pods", pod)
    await ask("a Pod", "GET", f"{CORE}/pods/{name}")
    await ask("the namespace", "GET", CORE)
    await ask("no Pod", "GET", f"{CORE}/pods/none")
    listed = await ask("a list", "GET", f"{CORE}/pods?labelSelector=lading/container={UUID}")
    found["items of a list"] = [
        sorted(one.keys() & {"apiVersion", "kind", "metadata", "spec", "status"})
        for one in listed["items"]
    ]
    uid = str(made["metadata"]["uid"])
    settings = pod_settings()
    secret = make_secret(settings, UUID, attempt=ATTEMPT, pod_uid=uid, files={"assignment": b"{}"})
    await ask("make a secret", "POST", f"{CORE}/secrets", secret)
    await ask("make that again", "POST", f"{CORE}/secrets", secret)
    other = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "another"}}
    await ask("delete another Pod", "DELETE", f"{CORE}/pods/{name}", other)
    await ask("delete the secret", "DELETE", f"{CORE}/secrets/{name}")
    await ask("delete no secret", "DELETE", f"{CORE}/secrets/{name}")
    await ask("delete a Pod that waits", "DELETE", f"{CORE}/pods/{name}")
    await ask("delete no Pod", "DELETE", f"{CORE}/pods/{name}")
    attributes = {"namespace": NAMESPACE, "verb": "create", "resource": "pods"}
    asked = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }  # fmt: skip
    review = await ask("a review", "POST", REVIEWS, asked)
    found["allowed"] = review["status"]["allowed"]
    return found


async def answers_without_namespace(transport: Transport, token: str) -> dict[str, Any]:
    """What is answered to an administrator who names a namespace that does not exist."""
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "x", "image": "x"}]},
    }  # fmt: skip
    found: dict[str, Any] = {}
    for what, method, path, body in (
        ("no namespace", "GET", CORE, None),
        ("a Pod without its namespace", "POST", f"{CORE}/pods", pod),
        ("a list without its namespace", "GET", f"{CORE}/pods?labelSelector=a%3Db", None),
    ):
        found[what], answer = await _ask(transport, token, method, path, body)
        found[f"{what}: words"] = answer.get("message", answer.get("items"))
    return found


async def watched(transport: Transport, token: str) -> dict[str, Any]:
    """What an API server answers to lists by version and to watches."""
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    label = f"lading/container={UUID}"
    names: list[str] = []

    async def watch(*, times: str = "2", **query: str) -> tuple[int, list[Any]]:
        """Status of a watch, and its events until it ends by itself, which it has to."""
        asked = {"watch": "1", "labelSelector": label, "timeoutSeconds": times, **query}
        path = f"{CORE}/pods?{urlencode(asked)}"
        stream = transport.stream("GET", path, headers=headers, timeout=30.0)
        async with asyncio.timeout(30), stream as answer:
            text = b"".join([chunk async for chunk in answer.chunks])
        return answer.status, [msgspec.json.decode(line) for line in text.splitlines()]

    async def make(attempt: str) -> None:
        container = TrackedContainer(uuid=UUID, need=Resources(1, MIB))
        pod: Any = make_pod(pod_settings(), KIND, container, attempt=attempt)
        names.append(pod["metadata"]["name"])
        await _ask(transport, token, "POST", f"{CORE}/pods", pod)

    async def change() -> None:
        await asyncio.sleep(0.5)
        await make("third")
        await _ask(transport, token, "DELETE", f"{CORE}/pods/{names[-1]}", None)

    for attempt in ("first", "second"):
        await make(attempt)
    listing = f"{CORE}/pods?{urlencode({'labelSelector': label, 'limit': '1'})}"
    any_version = await _ask(transport, token, "GET", f"{listing}&resourceVersion=0", None)
    consistent = await _ask(transport, token, "GET", f"{CORE}/pods?labelSelector={label}", None)
    version = str(consistent[1]["metadata"]["resourceVersion"])
    changing = asyncio.create_task(change())
    followed = await watch(resourceVersion=version)
    await changing
    # A real one tells a bookmark some seconds before the end of a watch.
    marked = await watch(resourceVersion=version, allowWatchBookmarks="true", times="10")
    bookmarks = [one["object"] for one in marked[1] if one["type"] == "BOOKMARK"]
    old = [await watch(resourceVersion="1") for _ in range(1 if token else 20)]
    errors = [one for one in old if one[0] == 200]
    return {
        "any version": (any_version[0], len(any_version[1]["items"])),
        "any version: pages": "continue" in any_version[1]["metadata"],
        "a version to come": (
            await _ask(transport, token, "GET", f"{listing}&resourceVersion=99999999", None)
        )[0],
        "no version": (await _ask(transport, token, "GET", f"{listing}&resourceVersion=x", None))[
            0
        ],
        "a watch": (followed[0], [one["type"] for one in followed[1]]),
        "a watch: kinds": {one["object"]["kind"] for one in followed[1]},
        "a watch: versions grow": _versions(followed[1]) == sorted(set(_versions(followed[1]))),
        "a watch without news": await watch(resourceVersion=version_after(followed[1])),
        "a watch of a version to come": await watch(resourceVersion="99999999"),
        "a watch of no version": (await watch(resourceVersion="x"))[0],
        "a watch of any version": [one["type"] for one in (await watch(resourceVersion="0"))[1]],
        "bookmarks": [sorted(one) for one in bookmarks[:1]],
        "bookmarks: only a version": [sorted(one["metadata"]) for one in bookmarks[:1]],
        "an old version": [(one["type"], _reason(one["object"])) for one in errors[0][1]],
    }


def _versions(events: list[Any]) -> list[int]:
    return [int(one["object"]["metadata"]["resourceVersion"]) for one in events]


def version_after(events: list[Any]) -> str:
    """The version after these events."""
    return str(_versions(events)[-1])


def _reason(status: Mapping[str, Any]) -> tuple[str, int, str]:
    return str(status["kind"]), int(status["code"]), str(status["reason"])


async def refusals(transport: Transport, token: str) -> dict[str, Any]:
    """What is answered to a user who has no right."""
    found: dict[str, Any] = {}
    for what, method, path in (
        ("may not see it", "GET", CORE), ("may not list", "GET", f"{CORE}/pods"),
        ("may not make", "POST", f"{CORE}/pods"),
        ("may not delete", "DELETE", f"{CORE}/secrets/x"),
    ):  # fmt: skip
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
        given = body if method == "POST" else None
        found[what], answer = await _ask(transport, token, method, path, given)
        found[f"{what}: words"] = re.sub(r'User "[^"]*"|"x"', "", answer["message"])
    return found


async def _ask(
    transport: Transport, token: str, method: str, path: str, body: object
) -> tuple[tuple[int, str, str], Mapping[str, Any]]:
    """Status, kind and reason of an answer, and its body."""
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    answer = await transport.request(
        method, path, headers=headers, timeout=30.0,
        body=b"" if body is None else msgspec.json.encode(body),
    )  # fmt: skip
    found = msgspec.json.decode(answer.body, type=dict[str, Any])
    return (answer.status, str(found.get("kind")), str(found.get("reason", ""))), found
