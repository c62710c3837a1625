"""The Pod and the secret of a container: names, labels, manifests.

A supervisor's token is made with each lock of a container, so a part of its hash names the attempt:
the same attempt has the same name however often it is posted, and another attempt has another name.
The token itself is in the secret only. Source: docs/spec/kubernetes, sections Decisions and Pod.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from lading.core import ids
from lading.core.resources import Resources
from lading.core.scheduling.instance_types import Gpu
from lading.core.scheduling.planning import TrackedContainer
from lading.core.values import Json, JsonObject

MANAGED_BY = "app.kubernetes.io/managed-by"
DISPATCHER, CONTAINER, ATTEMPT = "lading/dispatcher", "lading/container", "lading/attempt"
OWN_LABELS = frozenset({MANAGED_BY, DISPATCHER, CONTAINER, ATTEMPT})
SUPERVISOR = "supervisor"
"""Name of the container of the Pod."""
MOUNT, DATA = "/etc/lading", "/var/lib/lading"
"""Directories in the Pod: of the secret, and of running containers."""
ASSIGNMENT, CERTIFICATE = "assignment", "server.crt"
"""Keys of the secret."""
ISOLATIONS = ("user-namespace", "privileged")
_PREFIX = "lading-"
_ATTEMPT_LENGTH = 10
# Hours are for images and outputs; the supervisor itself ends its container in time.
_DEADLINE_MARGIN = 3600
# Seconds: the API server refuses a Pod with more.
_LONGEST_DEADLINE = (1 << 31) - 1
# The engine makes namespaces, mounts, device files and networks, and changes owners and users.
_CAPABILITIES = (
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_ADMIN",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_ADMIN",
    "SYS_CHROOT",
    "SYS_PTRACE",
)
# The assignment holds a token: it comes by standard input, as from every other fleet.
_SCRIPT = f'exec "$@" <{MOUNT}/{ASSIGNMENT}'


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKind:
    """One kind of node of a cluster. `capacity` is what all containers on an empty node may have.

    `closed`: only for containers that name one of its partitions. `price` is dollars an hour.
    """

    name: str
    capacity: Resources
    partitions: frozenset[str] = frozenset()
    closed: bool = False
    selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[JsonObject, ...] = ()
    priority_class: str = ""
    runtime_class: str = ""
    gpu: Gpu | None = None
    gpu_resource: str = "nvidia.com/gpu"
    price: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSettings:
    """The configuration of all Pods of a dispatcher. Amounts are bytes, times seconds.

    `dispatcher` is the uuid of its token, `command` starts a supervisor in `image`, `extra_ram` is
    RAM beside the container's. `cache_directory`: a directory of the nodes, or "".
    """

    dispatcher: str
    image: str
    command: tuple[str, ...]
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    service_account: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    isolation: str = ISOLATIONS[0]
    extra_ram: int = 0
    grace_period: int = 900
    cache_directory: str = ""


def attempt_of(token: str) -> str:
    """The name of the attempt that a supervisor's token belongs to."""
    return hashlib.sha256(token.encode()).hexdigest()[:_ATTEMPT_LENGTH]


def pod_name(container: str, attempt: str) -> str:
    """Name of the Pod and of the secret of an attempt."""
    return f"{_PREFIX}{container}-{attempt}"


def labels(settings: PodSettings, container: str, attempt: str) -> dict[str, Json]:
    """The labels of a Pod and its secret. Labels of the configuration never replace our own."""
    return {
        **settings.labels,
        MANAGED_BY: "lading",
        DISPATCHER: settings.dispatcher,
        CONTAINER: container,
        ATTEMPT: attempt,
    }


def selector(dispatcher: str) -> str:
    """The label selector of all Pods of a dispatcher."""
    return f"{MANAGED_BY}=lading,{DISPATCHER}={dispatcher}"


def identify(metadata: Mapping[str, object], *, dispatcher: str) -> tuple[str, str] | None:
    """Container and attempt of an object of this dispatcher, from its metadata; None for any other
    object.
    """
    found = metadata.get("labels")
    marks = found if isinstance(found, Mapping) else {}
    container, attempt = marks.get(CONTAINER), marks.get(ATTEMPT)
    is_ours = (marks.get(MANAGED_BY), marks.get(DISPATCHER)) == ("lading", dispatcher)
    if not (is_ours and isinstance(container, str) and isinstance(attempt, str)):
        return None
    if not ids.is_uuid(container, ids.Infix.CONTAINER):
        return None
    return (container, attempt) if metadata.get("name") == pod_name(container, attempt) else None


def make_pod(
    settings: PodSettings, kind: NodeKind, container: TrackedContainer, *, attempt: str
) -> JsonObject:
    """The manifest of a container's Pod."""
    name = pod_name(container.uuid, attempt)
    spec: JsonObject = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # The supervisor is not process 1 then: TERM ends it before it has a handler, too, and
        # orphans of its container are reaped.
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": settings.grace_period,
        "containers": [_container(settings, kind, container)],
        "volumes": _volumes(settings, name, container.need.disk),
    }
    if settings.isolation == ISOLATIONS[0]:
        spec["hostUsers"] = False
    if container.max_run_time:
        deadline = container.max_run_time + _DEADLINE_MARGIN
        spec["activeDeadlineSeconds"] = min(deadline, _LONGEST_DEADLINE)
    further: JsonObject = {
        "nodeSelector": dict(kind.selector),
        "tolerations": list(kind.tolerations),
        "priorityClassName": kind.priority_class,
        "runtimeClassName": kind.runtime_class,
        "serviceAccountName": settings.service_account,
        "imagePullSecrets": [{"name": secret} for secret in settings.pull_secrets],
    }
    # The API server takes an empty runtimeClassName for a class without a name, so empty fields
    # are left out.
    spec |= {name: value for name, value in further.items() if value}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels(settings, container.uuid, attempt)},
        "spec": spec,
    }


def make_secret(
    settings: PodSettings, container: str, *, attempt: str, pod_uid: str, files: Mapping[str, bytes]
) -> JsonObject:
    """The manifest of the secret of a Pod, which owns it; `files` by their names in `MOUNT`."""
    name = pod_name(container, attempt)
    owner: JsonObject = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod_uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "labels": labels(settings, container, attempt),
            "ownerReferences": [owner],
        },
        "type": "Opaque",
        "immutable": True,
        "data": {key: base64.b64encode(value).decode() for key, value in files.items()},
    }


def offered(kind: NodeKind, *, extra_ram: int) -> Resources:
    """Amount that one container may ask for on an empty node of a kind."""
    whole = kind.capacity
    return Resources(whole.vcpus, max(0, whole.ram - extra_ram), whole.disk, whole.gpus)


def _container(settings: PodSettings, kind: NodeKind, container: TrackedContainer) -> JsonObject:
    need = container.need
    amounts: JsonObject = {"cpu": str(need.vcpus), "memory": str(need.ram + settings.extra_ram)}
    if need.disk:
        amounts["ephemeral-storage"] = str(need.disk)
    if need.gpus:
        amounts[kind.gpu_resource] = str(need.gpus)
    mounts: list[Json] = [
        {"name": "assignment", "mountPath": MOUNT, "readOnly": True},
        {"name": "data", "mountPath": DATA},
    ]
    if settings.cache_directory:
        mounts.append({"name": "cache", "mountPath": f"{DATA}/cache"})
    arguments = [*settings.command, "--lock-directory", f"{DATA}/locks", container.uuid]
    return {
        "name": SUPERVISOR,
        "image": settings.image,
        "imagePullPolicy": settings.pull_policy,
        "command": ["/bin/sh", "-c", _SCRIPT, "sh", *arguments],
        # Requests equal limits: such Pods are evicted last.
        "resources": {"requests": dict(amounts), "limits": dict(amounts)},
        "volumeMounts": mounts,
        "securityContext": _security_context(settings.isolation),
    }


def _security_context(isolation: str) -> JsonObject:
    if isolation == "privileged":
        return {"privileged": True, "runAsUser": 0}
    return {
        "runAsUser": 0,
        "capabilities": {"drop": ["ALL"], "add": list(_CAPABILITIES)},
        # The engine mounts a proc of its own in each container's namespaces.
        "procMount": "Unmasked",
        # RuntimeDefault refuses crun keyctl and pivot_root; containers get the engine's own filter.
        "seccompProfile": {"type": "Unconfined"},
        "appArmorProfile": {"type": "Unconfined"},
    }


def _volumes(settings: PodSettings, name: str, disk: int) -> list[Json]:
    data: JsonObject = {"sizeLimit": str(disk)} if disk else {}
    volumes: list[Json] = [
        # 256 is 0400: the file holds a token.
        {"name": "assignment", "secret": {"secretName": name, "defaultMode": 256}},
        {"name": "data", "emptyDir": data},
    ]
    if settings.cache_directory:
        path: JsonObject = {"path": settings.cache_directory, "type": "DirectoryOrCreate"}
        volumes.append({"name": "cache", "hostPath": path})
    return volumes
