"""The assignment of a supervisor on a cloud VM: its container, its directories, and its share of
the instance's price.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from lading.core import resources
from lading.core.resources import Resources
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleet import StartRequest
from lading.dispatch.fleets.cloud.machine import CloudMachine
from lading.dispatch.fleets.cloud.settings import CloudSettings


def make_assignment(
    assignment: StartRequest,
    kind: InstanceType,
    settings: CloudSettings,
    *,
    find: Callable[[str], CloudMachine | None],
    certificate_path: str,
    preemption: str,
    outposts: dict[str, object] | None,
) -> dict[str, object]:
    """The assignment of a supervisor on a VM of this type. `find` gives a VM by its name."""
    directory = settings.directory
    return dict(settings.template) | {
        "container_uuid": assignment.uuid,
        "supervisor_token": assignment.token,
        "run_directory": f"{directory}/run/{assignment.uuid}",
        "cache_directory": f"{directory}/cache",
        "lock_directory": f"{directory}/locks",
        "api_ca_file": certificate_path,
        "instance_type": described(kind),
        "preemption": preemption if kind.preemptible else "",
        "outposts": outposts,
        "instance_share": _share(assignment, kind, find),
    }


def _share(
    assignment: StartRequest, kind: InstanceType, find: Callable[[str], CloudMachine | None]
) -> float:
    """Price of a gang as a multiple of the price of its first VM; 0 if the size of one container
    decides.
    """
    container = assignment.container
    if container.nodes == 1:
        return 0.0
    where = Counter((assignment.worker, *assignment.others) if assignment.others else ())
    parts = [
        (found.kind, ranks) for name, ranks in where.items() if (found := find(name)) is not None
    ]
    return gang_share(kind, parts or [(kind, container.nodes)], each=container.each)


def gang_share(
    first: InstanceType, parts: Iterable[tuple[InstanceType | None, int]], *, each: Resources
) -> float:
    """Price of a gang's shares of its VMs, by ranks on each, as a multiple of the first VM's
    price.
    """
    total = 0.0
    for kind, ranks in parts:
        if kind is not None:
            part = resources.machine_share(
                described(kind), vcpus=each.vcpus * ranks, ram=each.ram * ranks
            )
            total += part * (kind.price / first.price if first.price else 1.0)
    return total


def described(kind: InstanceType) -> dict[str, object]:
    """An instance type as node.json shows it."""
    return {
        "Name": kind.name,
        "ProviderType": kind.provider_type,
        "VCPUs": kind.resources.vcpus,
        "RAM": kind.resources.ram,
        "Scratch": kind.resources.disk,
        "AddedScratch": kind.added,
        "Price": kind.price,
        "Preemptible": kind.preemptible,
    }
