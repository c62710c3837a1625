"""Specification of the container for the engine: its record, the prepared mounts, and the
streams.
"""

from __future__ import annotations

from collections.abc import Mapping

from lading.core.containers.constraints import has_internet, has_network
from lading.core.containers.container import Container
from lading.core.hpc.gang import read_gang
from lading.supervisor.engines import Bind, ContainerSpec, NetworkAccess, Spread
from lading.supervisor.inputs.staging import Stage
from lading.supervisor.limits.gpu_locks import Given
from lading.supervisor.machine import certificates
from lading.supervisor.supervisor_config import SupervisorConfig

CERTIFICATES = "/etc/arvados/ca-certificates.crt"


def specify(
    container: Container,
    stage: Stage,
    assignment: SupervisorConfig,
    *,
    token: str,
    given: Given,
    stdout: int,
    stderr: int,
    notices: int = -1,
    spread: Spread | None = None,
) -> ContainerSpec:
    """Make the specification.

    `token` is the container's own token, which it gets only when it may use the API; `given` has
    its GPUs.
    """
    gang = read_gang(container.scheduling_parameters)
    # Without `spread` all ranks of the gang share one container on this machine.
    here = gang.nodes if spread is None else 1
    environment = {name: str(value) for name, value in container.environment.items()}
    binds = list(stage.binds)
    api: tuple[str, ...] = ()
    if container.runtime_constraints.get("API") is True:
        api = (assignment.api_host, *assignment.api_addresses)
        environment |= {"ARVADOS_API_TOKEN": token, "ARVADOS_API_HOST": assignment.api_host}
        if assignment.api_host_insecure:
            environment["ARVADOS_API_HOST_INSECURE"] = "1"
        bundle = certificates()
        # A mount of the request at this path takes precedence.
        if bundle and all(bind.target != CERTIFICATES for bind in binds):
            binds.append(Bind(bundle, CERTIFICATES, True))
    return ContainerSpec(
        command=tuple(container.command),
        environment=tuple(environment.items()),
        cwd=container.cwd,
        binds=tuple(binds),
        network=has_network(container.runtime_constraints),
        reach=NetworkAccess(
            api=api,
            internet=has_internet(
                container.runtime_constraints, with_api=assignment.internet_with_api
            ),
            refused=assignment.refused_networks,
        ),
        devices=given.devices,
        cuda=given.cuda,
        # Constraints are for one rank; 0 (no limit) stays 0.
        ram=amount(container.runtime_constraints, "ram") * here,
        vcpus=amount(container.runtime_constraints, "vcpus") * here,
        processes=assignment.max_processes * here,
        stdin=stage.stdin,
        stdout=stdout,
        stderr=stderr,
        nodes=gang.nodes,
        spread=spread,
        launcher=gang.launcher,
        rank_failure=gang.policy,
        output_path=container.output_path,
        notices=notices,
    )


def amount(constraints: Mapping[str, object], name: str) -> int:
    """A number of the runtime constraints; 0 when the request has none."""
    value = constraints.get(name)
    return value if isinstance(value, int) and value > 0 else 0
