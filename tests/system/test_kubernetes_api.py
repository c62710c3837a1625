"""The fake API server answers as the real one does, which accepts what deploy has for a cluster."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from lading.client.transport import HttpTransport, Transport
from lading.core.errors import LadingError
from lading.core.kubernetes.pod_manifest import make_pod, make_secret
from lading.core.resources import MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.dispatch.fleets.kubernetes.api_client import KubernetesApi
from lading.dispatch.fleets.kubernetes.cluster_access import from_kubeconfig
from lading.testing.kubernetes import NAMESPACE, REVIEWS, FakeCluster
from lading.wiring.directory import ensure_certificate
from tests.kubernetes_clusters import KIND, pod_settings
from tests.kubernetes_manifests import DEPLOY, render
from tests.reality import need_program
from tests.system.kubernetes_control import ApiRefused, ControlPlane, running_control_plane

pytestmark = [pytest.mark.system, pytest.mark.long]
UUID, ATTEMPT, FOREIGN = "zzzzz-dz642-000000000000001", "0123456789", "of-nobody"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
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


@pytest.mark.parametrize("name", ["kubernetes", "kubernetes-replicas"])
async def test_each_object_is_accepted_with_strict_validation(
    plane: ControlPlane, name: str
) -> None:
    for one in render(DEPLOY / name):
        path = f"{APIS[one['kind']].format('lading')}?fieldValidation=Strict"
        # The others are checked only: they need the namespace to be there.
        dry = "" if one["kind"] == "Namespace" else "&dryRun=All"
        await plane.ask("POST", path + dry, one)


async def test_an_unknown_field_would_be_seen(plane: ControlPlane) -> None:
    (server,) = (one for one in render(DEPLOY / "kubernetes") if one["kind"] == "Namespace")
    server["spec"] = {"replica": 2}
    with pytest.raises(ApiRefused, match="unknown field"):
        await plane.ask("POST", f"{APIS['Namespace']}?fieldValidation=Strict", server)


async def test_the_fake_answers_as_the_real_one(plane: ControlPlane) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await plane.ask("POST", "/api/v1/namespaces", namespace)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": FOREIGN}}
    await plane.ask("POST", f"{CORE}/serviceaccounts", account)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    asked = await plane.ask("POST", f"{CORE}/serviceaccounts/{FOREIGN}/token", review)
    await _until_pods_can_be_made(plane)
    real = await answers(plane.transport, plane.admin)
    real |= await refusals(plane.transport, str(asked["status"]["token"]))
    cluster = FakeCluster(slots=0)
    fake = await answers(cluster, "")
    cluster.rights.clear()
    fake |= await refusals(cluster, "")
    await cluster.close()
    assert {what: (fake[what], real[what]) for what in real if fake[what] != real[what]} == {}


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


async def refusals(transport: Transport, token: str) -> dict[str, Any]:
    """What is answered to a user who has no right."""
    found: dict[str, Any] = {}
    for what, method, path in (
        ("may not list", "GET", "pods"), ("may not make", "POST", "pods"),
        ("may not delete", "DELETE", "secrets/x"),
    ):  # fmt: skip
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
        found[what], answer = await _ask(
            transport, token, method, f"{CORE}/{path}", body if method == "POST" else None
        )
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
