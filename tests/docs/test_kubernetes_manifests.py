"""The manifests in deploy/kubernetes, read without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from lading.api.server.readiness import ReadinessChecks
from lading.config.site import load
from lading.core.kubernetes.pod_manifest import MANAGED_BY
from lading.core.kubernetes.refusals import RIGHTS
from lading.dispatch.fleets.kubernetes.settings import read_kinds
from lading.wiring.directory import DataDirectory
from tests import kubernetes_manifests
from tests.kubernetes_manifests import KUSTOMIZATION as OWN
from tests.kubernetes_manifests import render

pytestmark = pytest.mark.quick

DEPLOY = kubernetes_manifests.DEPLOY / "kubernetes"
REPLICAS = kubernetes_manifests.DEPLOY / "kubernetes-replicas"


def kustomization() -> Any:
    return yaml.safe_load((DEPLOY / OWN).read_text())


def objects() -> list[Any]:
    return render(DEPLOY)


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


def test_a_database_that_is_away_restarts_no_server() -> None:
    for folder in (DEPLOY, REPLICAS):
        (server,) = (one for one in render(folder) if one["kind"] == "StatefulSet")
        (container,) = server["spec"]["template"]["spec"]["containers"]
        paths = {
            name: container[name]["httpGet"]["path"]
            for name in ("startupProbe", "readinessProbe", "livenessProbe")
        }
        assert paths == {
            "startupProbe": "/_health/live",
            "readinessProbe": "/_health/ready",
            "livenessProbe": "/_health/live",
        }
        # The server says itself that it is not ready, with the reason, before the kubelet gives up.
        assert container["readinessProbe"]["timeoutSeconds"] > ReadinessChecks().patience


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


def replicas() -> Any:
    """The StatefulSet of the servers in the overlay."""
    (server,) = (one for one in render(REPLICAS) if one["kind"] == "StatefulSet")
    return server


def test_the_overlay_has_two_servers_with_directories_of_their_own() -> None:
    server = replicas()
    assert server["spec"]["replicas"] == 2
    assert "volumeClaimTemplates" not in server["spec"]
    assert {"name": "data", "emptyDir": {}} in server["spec"]["template"]["spec"]["volumes"]


def test_each_server_of_the_overlay_listens_on_the_name_of_its_own_pod() -> None:
    (container,) = replicas()["spec"]["template"]["spec"]["containers"]
    (plain,) = of("StatefulSet")[0]["spec"]["template"]["spec"]["containers"]
    assert [one.replace("lading-server-0", "$(POD_NAME)") for one in plain["args"]] == (
        container["args"]
    )
    assert [one["name"] for one in container["env"]] == ["POD_NAME"]


def test_servers_of_the_overlay_share_what_a_data_directory_has_of_the_site() -> None:
    (container,) = replicas()["spec"]["template"]["spec"]["containers"]
    mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
    directory = DataDirectory(Path("/var/lib/lading"))
    shared = (directory.certificate, directory.key, *(
        directory.root / name for name in ("config.yml", "secrets.json")
    ))  # fmt: skip
    for path in shared:
        assert mounts[str(path)]["name"] == "site"
        assert mounts[str(path)]["subPath"] == path.name
        assert mounts[str(path)]["readOnly"]
    assert len(mounts) == len(shared) + 1


def test_a_client_of_the_overlay_stays_at_one_server() -> None:
    (service,) = (
        one
        for one in render(REPLICAS)
        if one["kind"] == "Service" and one["metadata"]["name"] == "lading"
    )
    assert service["spec"]["sessionAffinity"] == "ClientIP"
    labels = replicas()["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels


def test_the_configuration_of_the_overlay_can_be_read() -> None:
    config = load(REPLICAS / "config.example.yml")
    assert config.Containers.Dispatcher == "none"
    assert [one.Driver for one in config.Volumes.values()] == ["S3"]
    assert config.PostgreSQL.Connection["dbname"] == "lading"
