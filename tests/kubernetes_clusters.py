"""Settings and clients of the Kubernetes fleet for tests on a fake cluster."""

from __future__ import annotations

from typing import Any

from lading.core.kubernetes.pod_manifest import NodeKind, PodSettings
from lading.core.resources import GIB, Resources
from lading.dispatch.fleets.kubernetes.api_client import KubernetesApi
from lading.dispatch.fleets.kubernetes.settings import KubernetesSettings
from lading.testing.containers import TOKEN
from lading.testing.kubernetes import NAMESPACE, FakeCluster, Malice

KIND = NodeKind(name="plain", capacity=Resources(8, 16 * GIB, 100 * GIB))
MEAN = Malice(away=0.05, mute=0.05, late=0.05, busy=0.1, cut=0.05, old=0.1, stale=0.2, slow=5)
"""An API server that is mean in all ways, and loses no Pod."""


def pod_settings(**more: Any) -> PodSettings:
    """Settings of Pods of the first dispatcher."""
    return PodSettings(dispatcher=TOKEN, image="lading:test", command=("supervisor",), **more)


def kubernetes_settings(**more: Any) -> KubernetesSettings:
    """Settings with very short pauses."""
    quick: dict[str, Any] = {
        "pods": pod_settings(),
        "kinds": {KIND.name: KIND},
        "first_pause": 0.001,
        "longest_pause": 0.02,
        "tidy_interval": 0.005,
        "refusal_pause": 0.05,
    }
    return KubernetesSettings(**{**quick, **more})


def api_of(cluster: FakeCluster, **more: Any) -> KubernetesApi:
    """A client of a fake cluster with very short pauses."""
    quick: dict[str, Any] = {"first_pause": 0.001, "timeout": 1.0, "patience": 1.0}
    return KubernetesApi(cluster, namespace=NAMESPACE, **{**quick, **more})
