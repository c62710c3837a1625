"""Specification of a container for its engine, made from the record, the prepared mounts, and the
streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from lading.core.containers.constraints import has_internet, has_network
from lading.core.containers.container import Container
from lading.core.hpc.gang import FILES, KEYS, NO_GANG, read_gang
from lading.supervisor.engines import (
    Bind,
    ContainerSpec,
    NetworkAccess,
    Spread,
    ignore_fault,
)
from lading.supervisor.inputs.staging import Stage
from lading.supervisor.limits.gpu_locks import LockedGpus
from lading.supervisor.machine import certificates
from lading.supervisor.supervisor_config import SupervisorConfig

CERTIFICATES = "/etc/arvados/ca-certificates.crt"


def specify(
    container: Container,
    stage: Stage,
    assignment: SupervisorConfig,
    *,
    token: str,
    gpus: LockedGpus,
    stdout: int,
    stderr: int,
    notices: int = -1,
    spread: Spread | None = None,
    on_network_fault: Callable[[str], None] = ignore_fault,
) -> ContainerSpec:
    """Make the specification.

    `token` is the container's own token, which it gets only when it may use the API; `gpus` has
    its GPUs. `on_network_fault` hears of a network that is lost.
    """
    scheduling = container.scheduling_parameters
    gang = NO_GANG if scheduling.keys().isdisjoint(KEYS) else read_gang(scheduling)
    # Without `spread` all ranks of the gang share one container on this machine.
    ranks_here = gang.nodes if spread is None else 1
    environment = {name: str(value) for name, value in container.environment.items()}
    # In no record, and on no command line: engines pass the environment on in files of their own.
    environment |= {variable.name: variable.value for variable in stage.plan.variables}
    binds = list(stage.binds)
    api: tuple[str, ...] = ()
    if container.runtime_constraints.get("API") is True:
        api = (assignment.api_host, *assignment.api_addresses)
        environment |= _api_variables(assignment, token)
        bundle = certificates()
        # A mount of the request at this path takes precedence.
        if bundle and all(bind.target != CERTIFICATES for bind in binds):
            binds.append(Bind(bundle, CERTIFICATES, True))
    # Those of the request come first, and take precedence.
    binds += free_binds(gpus.binds, binds)
    environment |= dict(gpus.environment)
    files = _files_of_ranks(binds) if gang.nodes > 1 else {}
    shares = gang.shares_vcpus and spread is None
    if shares:
        # Open MPI: a process that waits gives its processor to another one.
        environment.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    return ContainerSpec(
        files=tuple((name, bind.source) for name, bind in files.items()),
        command=tuple(container.command),
        environment=tuple(environment.items()),
        cwd=container.cwd,
        binds=tuple(bind for bind in binds if bind not in files.values()),
        network=has_network(container.runtime_constraints),
        reach=NetworkAccess(
            api=api,
            internet=has_internet(
                container.runtime_constraints, with_api=assignment.internet_with_api
            ),
            refused=assignment.refused_networks,
            on_fault=on_network_fault,
        ),
        devices=gpus.devices,
        cuda=gpus.cuda,
        hooks=gpus.hooks,
        # Constraints are for one rank; 0 (no limit) stays 0.
        ram=amount(container.runtime_constraints, "ram") * ranks_here,
        vcpus=amount(container.runtime_constraints, "vcpus") * (1 if shares else ranks_here),
        processes=assignment.max_processes * ranks_here,
        stdin=stage.stdin,
        stdout=stdout,
        stderr=stderr,
        nodes=gang.nodes,
        spread=spread,
        launcher=gang.launcher,
        rank_failure=gang.policy,
        stop_grace=assignment.stop_grace_period,
        output_path=container.output_path,
        notices=notices,
    )


def _api_variables(assignment: SupervisorConfig, token: str) -> dict[str, str]:
    """The variables by which a command finds the API, with the container's own token."""
    variables = {"ARVADOS_API_TOKEN": token, "ARVADOS_API_HOST": assignment.api_host}
    if assignment.api_host_insecure:
        variables["ARVADOS_API_HOST_INSECURE"] = "1"
    return variables


def free_binds(binds: Iterable[Bind], taken: Iterable[Bind]) -> list[Bind]:
    """The binds whose targets are neither those of others nor below them."""
    targets = [bind.target.rstrip("/") for bind in taken]
    return [
        bind
        for bind in binds
        if not any(f"{bind.target}/".startswith(f"{target}/") for target in targets)
    ]


def _files_of_ranks(binds: Iterable[Bind]) -> dict[str, Bind]:
    """The files among the binds that the daemon of each rank writes, by name: as files of its own,
    which everybody may read and write (docs/spec/hpc-daemon, section Files).
    """
    found: dict[str, Bind] = {}
    for bind in binds:
        folder, _, name = bind.target.rpartition("/")
        if folder == FILES and bind.live is None and Path(bind.source).is_file():
            found[name] = bind
    return found


def amount(constraints: Mapping[str, object], name: str) -> int:
    """A number of the runtime constraints; 0 when the request has none."""
    value = constraints.get(name)
    return value if isinstance(value, int) and value > 0 else 0
