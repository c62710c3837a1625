"""What a supervisor is told: one container, a token for it alone, and the places it may use.

An assignment travels as JSON (to the warm parent, on standard input, later over ssh), so every
field is a plain value. It holds a token: it is never written to disk and never logged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from lading.core import ids
from lading.core.errors import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Outposts:
    """Where annexes are reached of a gang that is on several machines
    (`supervisor.gang.rank_launcher`): address and port for each further rank, and what both ends
    know each other by (PEM).
    """

    ranks: tuple[tuple[str, int], ...]
    certificate: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One container to run.

    Reach the server by `api_socket` (a Unix socket) or, when that is empty, by `api_url`. Paths are
    absolute. Times are seconds, sizes bytes.
    """

    container_uuid: str
    supervisor_token: str = field(repr=False)
    run_directory: str
    """This container's own directory, `<data>/run/<container uuid>`; made and removed by the
    supervisor.
    """
    cache_directory: str
    """`<data>/cache`: materialised inputs, unpacked layers, image descriptions."""
    api_socket: str = ""
    api_url: str = ""
    api_ca_file: str = ""
    """Certificates to verify `api_url` with; empty: those of the machine."""
    api_insecure: bool = False
    """Do not verify the certificate of `api_url`."""
    api_host: str = ""
    """ARVADOS_API_HOST for containers with `runtime_constraints.API`."""
    api_host_insecure: bool = False
    """ARVADOS_API_HOST_INSECURE for them."""
    api_addresses: tuple[str, ...] = ()
    """HOST:PORT of whatever else the API names to clients: block store, websocket, files."""
    internet_with_api: bool = False
    """Containers with `runtime_constraints.API` reach the internet, too."""
    refused_networks: tuple[str, ...] = ()
    """Networks that no container reaches, such as 10.0.0.0/8."""
    lock_directory: str = ""
    """The register of the machine (`supervisor.process.register`), where prices are read and the
    broken mark is left.
    """
    engine: str = "auto"
    """A name of the entry point group `lading.engines`, or `auto`: native where this machine can,
    else docker.
    """
    docker_socket: str = "/var/run/docker.sock"
    podman_socket: str = "/run/podman/podman.sock"
    device_root: str = "/"
    """Where the device files of GPUs are found: `dev` is below it."""
    device_directory: str = "/run/lading/gpus"
    """Where the supervisors of this machine say which GPU is whose."""
    visible_gpus: str = ""
    """Numbers of the GPUs that may be used, such as "0,2"; empty: all."""
    cache_size: int = 20 << 30
    large_input: int = 1 << 30
    """Bytes from which an input collection is read through FUSE as it is needed; 0 lays all out on
    disk first.
    """
    instance_type: dict[str, Any] = field(default_factory=dict)
    """What this machine is, as node.json shows it; Price (dollars an hour), VCPUs and RAM count for
    the cost.
    """
    instance_share: float = 0.0
    """The part of the machine's price that this container pays; 0 is by its size."""
    preemption: str = ""
    """`ec2` or `azure`: look for notices that the cloud takes this machine away."""
    metadata_address: str = ""
    """Where those are asked for; empty: where the cloud has them."""
    broken_node_hook: str = ""
    """Program to run when this machine cannot run containers, in place of the mark in the
    register.
    """
    user_namespaces: str = "auto"
    """Containers of the native engine have user ids of their own: `auto` (where possible),
    `always`, `never`.
    """
    max_processes: int = 4096
    """Processes and threads that a container may have at a time; 0 is any number."""
    log_limit: int = 2 << 30
    """Bytes of each of the command's streams that the log keeps; 0 keeps all."""
    tmp_capacity: int = 100 << 30
    """Bytes that a tmp mount without capacity may hold; 0 is no limit."""
    scratch_beside: int = 10 << 30
    """Bytes that the container may write beside its tmp mounts; 0 is no limit of bytes at all."""
    scratch_files: int = 1_000_000
    """Files that it may make; 0 is no limit."""
    disk_reserve: int = -1
    """Bytes of the disk that it must leave; -1: a fiftieth of the disk, at most 1 GiB."""
    disk_reserve_files: int = -1
    """Files that must find room on the disk beside its own; -1: a fiftieth of what the disk can
    hold, at most 100,000.
    """
    output_limit: int = 1 << 40
    """Bytes that the files of an output may have; 0 is any number."""
    log_save_interval: float = 5.0
    """Time between two looks at whether the log should be saved."""
    log_update_period: float = 1.0
    log_update_size: int = 1 << 20
    usage_interval: float = 10.0
    stop_grace_period: float = 10.0
    gateway: str = ""
    """HOST:PORT where the server reaches this machine (port 0: any), `tunnel` to connect to the
    server instead, `none`; empty: the loopback where the server is on this machine (`api_socket`),
    else a tunnel."""
    tunnel_delay: float = 0.5
    """Time that a container must run before a tunnel is made for it."""
    unreachable_timeout: float = 600.0
    known: dict[str, Any] = field(default_factory=dict, repr=False)
    """The `container` and the `auth` of its token as they were when it was locked; empty: the
    supervisor asks.
    """
    annex_command: tuple[str, ...] = ()
    """What starts an annex (`supervisor.gang.remote_rank_client`) on machine number `{rank}`;
    empty: a gang is on this machine, unless there are `outposts`."""
    outposts: Outposts | None = field(default=None, repr=False)


def parse(data: bytes | str) -> Assignment:
    """The assignment in the JSON text `data`. Raises Invalid naming what is wrong, without
    repeating the token.
    """
    try:
        found = msgspec.json.decode(data, type=Assignment)
    except msgspec.DecodeError as error:
        raise Invalid(f"assignment: {error}") from error
    return check(found)


def convert(value: object) -> Assignment:
    """The assignment in the plain mapping `value`. Raises Invalid."""
    try:
        found = msgspec.convert(value, Assignment)
    except msgspec.ValidationError as error:
        raise Invalid(f"assignment: {error}") from error
    return check(found)


def check(assignment: Assignment) -> Assignment:
    """The same assignment when it can be carried out. Raises Invalid naming the field."""
    if not ids.is_uuid(assignment.container_uuid, ids.Infix.CONTAINER):
        raise Invalid(
            f"assignment: container_uuid {assignment.container_uuid!r}"
            " is not the uuid of a container"
        )
    if not (assignment.api_socket or assignment.api_url):
        raise Invalid(
            "assignment: api_socket and api_url are both empty; name one way to the server"
        )
    if assignment.user_namespaces not in ("auto", "always", "never"):
        raise Invalid(
            f"assignment: user_namespaces {assignment.user_namespaces!r}"
            " is not auto, always or never"
        )
    for name in ("run_directory", "cache_directory"):
        if not getattr(assignment, name).startswith("/"):
            raise Invalid(f"assignment: {name} must be an absolute path")
    return assignment
