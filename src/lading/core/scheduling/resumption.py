"""Containers whose command outlives its supervisor: another supervisor can go on with them.

A container qualifies when all that its command needs from outside is kept by the kernel: processes,
mounts, pipes and locks. A gang, a container with steps, a network or live mounts needs programs and
state of its supervisor itself, and ends with it.

Source: docs/spec/containers, section Run.
"""

from __future__ import annotations

from typing import Final

from lading.core.containers.constraints import has_network
from lading.core.containers.container import Container
from lading.core.containers.mounting.mounts import MountKind
from lading.core.scheduling.instance_types import requested_gpus
from lading.core.values import Json

MOST_RESUMPTIONS: Final = 3
"""Times that another supervisor goes on with a container: one that ends its supervisors each time
is not tried for ever.
"""


def can_be_resumed(container: Container) -> bool:
    """Whether another supervisor can go on with the running container."""
    return (
        container.nodes == 1
        and not container.steps
        and not container.service
        and not container.published_ports
        and not has_network(container.runtime_constraints)
        and requested_gpus(container.runtime_constraints).count == 0
        and not any(_is_live(mount) for mount in container.mounts.values())
    )


def _is_live(mount: Json) -> bool:
    return isinstance(mount, dict) and mount.get("kind") == MountKind.LIVE
