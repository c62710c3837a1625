"""The manifests in deploy/kubernetes, read without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from lading.config import load
from lading.core.kubernetes.pod_manifest import MANAGED_BY
from lading.core.kubernetes.refusals import RIGHTS
from lading.dispatch.fleets.kubernetes.settings import read_kinds

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
OWN = "kustomization.yaml"


def kustomization() -> Any:
    return yaml.safe_load((DEPLOY / OWN).read_text())


def objects() -> list[Any]:
    return [
        one
        for path in kustomization()["resources"]
        for one in yaml.safe_load_all((DEPLOY / path).read_text())
    ]


def of(kind: str) -> list[Any]:
    return [one for one in objects() if one["kind"] == kind]


def test_every_file_is_a_part_of_it() -> None:
    listed = set(kustomization()["resources"]) | {OWN}
    listed |= {
        one.partition("=")[2]
        for made in kustomization()["configMapGenerator"]
        for one in made["files"]
    }
    assert {one.name for one in DEPLOY.iterdir()} == listed


def test_the_role_has_the_verbs_that_the_client_uses_and_no_other() -> None:
    (role,) = of("Role")
    rules = {
        resource: tuple(sorted(rule["verbs"]))
        for rule in role["rules"]
        for resource in rule["resources"]
    }
    assert rules == dict(RIGHTS)
    assert all(rule["apiGroups"] == [""] for rule in role["rules"])
    assert not of("ClusterRole")
    assert not of("ClusterRoleBinding")


def test_the_dispatcher_alone_has_the_role() -> None:
    (binding,), (account,) = of("RoleBinding"), of("ServiceAccount")
    (role,), (dispatcher,) = of("Role"), of("Deployment")
    (namespace,) = of("Namespace")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [
        {
            "kind": "ServiceAccount",
            "name": account["metadata"]["name"],
            "namespace": namespace["metadata"]["name"],
        }
    ]
    pod = dispatcher["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    (server,) = of("StatefulSet")
    assert server["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


def test_one_dispatcher_works_at_a_time() -> None:
    (dispatcher,) = of("Deployment")
    assert dispatcher["spec"]["replicas"] == 1
    assert dispatcher["spec"]["strategy"] == {"type": "Recreate"}


def test_selectors_choose_the_pods_that_they_mean() -> None:
    for one in (*of("Deployment"), *of("StatefulSet")):
        assert (
            one["spec"]["selector"]["matchLabels"] == one["spec"]["template"]["metadata"]["labels"]
        )
    (service,), (server,) = of("Service"), of("StatefulSet")
    labels = server["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels
    assert server["spec"]["serviceName"] == service["metadata"]["name"]
    budgets = [one["spec"]["selector"]["matchLabels"] for one in of("PodDisruptionBudget")]
    assert budgets == [{MANAGED_BY: "lading"}, labels]


def test_the_server_listens_where_its_service_and_probes_ask() -> None:
    (service,), (server,), (namespace,) = of("Service"), of("StatefulSet"), of("Namespace")
    (container,) = server["spec"]["template"]["spec"]["containers"]
    name, port = service["metadata"]["name"], service["spec"]["ports"][0]["port"]
    listen = container["args"][container["args"].index("--listen") + 1]
    assert listen == f"{name}-0.{name}.{namespace['metadata']['name']}.svc:{port}"
    assert container["ports"] == [{"name": "https", "containerPort": port}]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"


def test_volumes_are_what_the_kustomization_makes() -> None:
    made = {one["name"] for one in kustomization()["configMapGenerator"]}
    for one in (*of("Deployment"), *of("StatefulSet")):
        pod = one["spec"]["template"]["spec"]
        named = {volume["name"] for volume in pod["volumes"]} | {"data"}
        for volume in pod["volumes"]:
            assert volume.get("configMap", {"name": "lading-server"})["name"] in made
        (container,) = pod["containers"]
        assert {mount["name"] for mount in container["volumeMounts"]} <= named


def test_the_configurations_can_be_read() -> None:
    assert load(DEPLOY / "server-config.yml").Containers.Dispatcher == "none"
    config = load(DEPLOY / "dispatcher-config.yml")
    assert read_kinds(config)["plain"].capacity.vcpus == 8
    (image,) = kustomization()["images"]
    assert config.Containers.Kubernetes.Image == f"{image['newName']}:{image['newTag']}"
