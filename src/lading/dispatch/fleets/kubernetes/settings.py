"""The settings of the Kubernetes fleet, read from the section `Containers.Kubernetes`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import structs

from lading.config.fleets import Kubernetes
from lading.config.site import Config
from lading.core.containers.gpu_words import STACKS
from lading.core.errors import Invalid
from lading.core.gpus.models import read_model
from lading.core.kubernetes.gpu_resources import describe_gpus, with_sharing
from lading.core.kubernetes.pod_manifest import ISOLATIONS, OWN_LABELS, NodeKind, PodSettings
from lading.core.quantities import parse_size
from lading.core.resources import Resources
from lading.core.scheduling.instance_types import Gpu
from lading.core.values import JsonObject
from lading.dispatch.fleet import FleetSite
from lading.dispatch.fleets.kubernetes.pod_table import Patience

SECTION = "Containers.Kubernetes"
# As the image of `make image` has it.
_COMMAND = ("/usr/lib/lading/bin/python", "-m", "lading.supervisor")
_POLICIES = ("IfNotPresent", "Always", "Never")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """Settings of the fleet. Times are seconds.

    `kinds` are the kinds of nodes by name; `template` the fields of every assignment but its
    container's own. `first_pause`: before the first repetition of anything.
    """

    pods: PodSettings
    kinds: Mapping[str, NodeKind]
    template: Mapping[str, object] = field(default_factory=dict)
    certificate: str = ""
    most_waiting: int = 100
    patience: Patience = field(default_factory=Patience)
    start_timeout: float = 60.0
    refusal_pause: float = 60.0
    resync_interval: float = 300.0
    # Seconds for the removal of the Pods of a container; the dispatcher tries again later.
    clean_timeout: float = 60.0
    # Seconds for one look with its repetitions: after a few that fail nothing is started.
    look_patience: float = 5.0
    # Seconds between two looks for strays and limits of time.
    tidy_interval: float = 1.0
    first_pause: float = 0.25
    longest_pause: float = 30.0
    request_timeout: float = 30.0
    watch_time: float = 240.0


class _Kind(msgspec.Struct, forbid_unknown_fields=True, rename="pascal"):
    vcpus: int = msgspec.field(name="VCPUs")
    ram: int | str = msgspec.field(name="RAM")
    scratch: int | str
    gpus: int = msgspec.field(default=0, name="GPUs")
    price: float = 0.0
    partitions: list[str] = []
    closed: bool = False
    node_selector: dict[str, str] = {}
    tolerations: list[dict[str, str | int]] = []
    priority_class: str = ""
    runtime_class: str = ""
    gpu_resource: str = msgspec.field(default="nvidia.com/gpu", name="GPUResource")
    gpu_stack: str = msgspec.field(default="", name="GPUStack")
    gpu_memory: int | str = msgspec.field(default=0, name="GPUMemory")
    gpu_type: list[str] = msgspec.field(default_factory=list, name="GPUType")
    gpu_driver_version: str = msgspec.field(default="", name="GPUDriverVersion")
    gpu_shared: bool = msgspec.field(default=False, name="GPUShared")


def read_settings(site: FleetSite) -> KubernetesSettings:
    """The settings of the fleet, from the configuration. Raises Invalid naming the key."""
    section = site.config.Containers.Kubernetes
    _check(section)
    extra_ram = site.config.Containers.ReserveExtraRAM
    return KubernetesSettings(
        pods=PodSettings(
            dispatcher=site.token,
            image=section.Image,
            command=tuple(section.SupervisorCommand) or _COMMAND,
            pull_policy=section.ImagePullPolicy,
            pull_secrets=tuple(section.ImagePullSecrets),
            service_account=section.ServiceAccount,
            labels=section.Labels,
            isolation=section.Isolation,
            extra_ram=extra_ram,
            grace_period=int(section.GracePeriod),
            cache_directory=section.NodeCacheDirectory,
        ),
        kinds=read_kinds(site.config),
        template={**site.template, **_own_fields(site.config), "api_url": site.api_url},
        certificate=site.certificate,
        most_waiting=section.MaxPendingPods,
        patience=Patience(begin=section.BeginTimeout, lost=section.LostTimeout),
        start_timeout=section.StartTimeout,
        refusal_pause=section.RefusalPause,
    )


def read_kinds(config: Config) -> dict[str, NodeKind]:
    """The kinds of nodes by name. Raises Invalid naming the key."""
    nodes = config.Containers.Kubernetes.Nodes
    if not nodes:
        raise Invalid(
            f"{SECTION}.Nodes: there are none; name at least one kind of node,"
            " with VCPUs, RAM and Scratch"
        )
    return {name: _kind(name, value) for name, value in nodes.items()}


def _own_fields(config: Config) -> dict[str, object]:
    containers = config.Containers
    # The server reaches no Pod, so supervisors connect to it.
    fields: dict[str, object] = {
        "gateway": containers.GatewayAddress or "tunnel",
        "dispatcher_classifies": True,
    }
    if containers.Kubernetes.Isolation != "privileged":
        # Without /dev/fuse no input can be mounted: all are downloaded.
        fields["large_input"] = 0
    return fields


def _check(section: Kubernetes) -> None:
    def refuse(key: str, value: object, words: str) -> Invalid:
        return Invalid(f"{SECTION}.{key}: {value!r}; {words}")

    if not section.Image:
        raise refuse("Image", "", "name the image of the supervisor, as nodes can pull it")
    if section.ImagePullPolicy not in _POLICIES:
        raise refuse(
            "ImagePullPolicy", section.ImagePullPolicy, f"it must be {' or '.join(_POLICIES)}"
        )
    if section.Isolation not in ISOLATIONS:
        raise refuse("Isolation", section.Isolation, f"it must be {' or '.join(ISOLATIONS)}")
    if section.Namespace and not _NAMESPACE.fullmatch(section.Namespace):
        raise refuse("Namespace", section.Namespace, "it must be the name of a namespace")
    if section.NodeCacheDirectory and not section.NodeCacheDirectory.startswith("/"):
        raise refuse("NodeCacheDirectory", section.NodeCacheDirectory, "it must begin with /")
    if section.MaxPendingPods < 1:
        raise refuse("MaxPendingPods", section.MaxPendingPods, "it must be at least 1")
    ours = sorted(OWN_LABELS & section.Labels.keys())
    if ours:
        raise refuse("Labels", ours[0], "this label is the dispatcher's own; remove it")


def _kind(name: str, value: Mapping[str, Any]) -> NodeKind:
    where = f"{SECTION}.Nodes.{name}"
    try:
        parsed = msgspec.convert(value, _Kind)
        ram, scratch = parse_size(parsed.ram), parse_size(parsed.scratch)
        vram = parse_size(parsed.gpu_memory)
    except (msgspec.ValidationError, Invalid) as error:
        raise Invalid(f"{where}: {error}") from error
    if parsed.vcpus < 1 or ram < 1 or scratch < 1:
        raise Invalid(f"{where}: VCPUs, RAM and Scratch must be above 0")
    tolerations: tuple[JsonObject, ...] = tuple(dict(each) for each in parsed.tolerations)
    gpu = _gpus(where, parsed, vram) if parsed.gpus else None
    return NodeKind(
        name=name,
        capacity=Resources(parsed.vcpus, ram, scratch, parsed.gpus),
        partitions=frozenset(parsed.partitions),
        closed=parsed.closed,
        selector=parsed.node_selector,
        tolerations=tolerations,
        priority_class=parsed.priority_class,
        runtime_class=parsed.runtime_class,
        gpu=gpu,
        gpu_resource=parsed.gpu_resource,
        price=parsed.price,
    )


def _gpus(where: str, kind: _Kind, memory: int) -> Gpu:
    """The GPUs of a kind of node; what is configured comes before what names tell. `memory` is
    bytes of each. Raises Invalid.
    """
    words = [word for entry in kind.gpu_type for word in (entry, *read_model(entry).kinds)]
    gpus = describe_gpus(
        kind.gpu_resource, kind.node_selector, count=kind.gpus, kinds=tuple(dict.fromkeys(words))
    )
    stack = kind.gpu_stack or gpus.stack
    if stack not in STACKS:
        raise Invalid(
            f"{where}.GPUStack: {stack!r}; {kind.gpu_resource} does not tell it: it must be one of"
            f" {', '.join(STACKS)}"
        )
    gpus = structs.replace(
        gpus, stack=stack, vram=memory or gpus.vram, driver=kind.gpu_driver_version
    )
    return with_sharing(gpus) if kind.gpu_shared else gpus
