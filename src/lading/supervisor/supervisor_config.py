"""Configuration of a supervisor: one container, a token for it alone, and the places it may use.

It is sent as JSON (to the forkserver, on standard input, or over ssh), so every field is a plain
value; in messages it is called assignment. It contains a token: it is never written to disk and
never logged.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import field

from lading.core import ids
from lading.core.containers.disk_space import ScratchLimits
from lading.core.errors import Invalid
from lading.core.gpus.devices import GpuDevice
from lading.process.telemetry import LogFormat
from lading.process.tracing import TracingSettings
from lading.supervisor.engines import EngineSettings


class RankLauncherConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Remote ranks of a gang on several machines (`supervisor.gang.rank_launcher`): address and
    port of each further rank, and the certificate and key (PEM) that both ends use.
    """

    ranks: tuple[tuple[str, int], ...]
    certificate: str
    key: str

    def __repr__(self) -> str:
        """The addresses only: the key is secret."""
        return f"RankLauncherConfig(ranks={self.ranks!r})"


class LiveRoot(msgspec.Struct, frozen=True, kw_only=True):
    """A directory of this machine that live mounts may show."""

    directory: str
    is_writable: bool = False


class SupervisorConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One container to run.

    The server is reached by `api_socket` (a Unix socket) or, when that is empty, by `api_url`.
    Paths are absolute. Times are in seconds, sizes in bytes.
    """

    container_uuid: str
    supervisor_token: str
    run_directory: str
    """The container's directory, `<data>/run/<container uuid>`; made and removed by the supervisor.
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
    """HOST:PORT of other services that the API names to clients: block store, websocket, files."""
    internet_with_api: bool = False
    """Containers with `runtime_constraints.API` reach the internet as well."""
    refused_networks: tuple[str, ...] = ()
    """Networks that no container may reach, such as 10.0.0.0/8."""
    live_roots: dict[str, LiveRoot] = field(default_factory=dict)
    """Directories of this machine for live mounts, by the names of their roots."""
    lock_directory: str = ""
    """The register of the machine (`supervisor.process.register`), which has prices and the mark of
    a broken machine.
    """
    engine: str = "auto"
    """A name of the entry point group `lading.engines`, or `auto`: native where this machine
    supports it, else docker.
    """
    docker_socket: str = "/var/run/docker.sock"
    podman_socket: str = "/run/podman/podman.sock"
    device_root: str = "/"
    """Root of the device files of GPUs: `dev` is below it."""
    device_directory: str = "/run/lading/gpus"
    """Directory in which the supervisors of this machine lock GPUs."""
    visible_gpus: str = ""
    """The usable GPUs by numbers or uuids, such as "0,2"; empty: all."""
    gpus: tuple[GpuDevice, ...] = ()
    """The usable GPUs with their kinds, where the dispatcher is on this machine; empty: found."""
    cache_size: int = 20 << 30
    large_input: int = 1 << 30
    """Bytes from which an input collection is mounted and read on demand; 0: every input is
    downloaded first.
    """
    instance_type: dict[str, Any] = field(default_factory=dict)
    """Description of this machine for node.json; Price (dollars an hour), VCPUs and RAM determine
    the cost.
    """
    instance_share: float = 0.0
    """Share of the machine's price for this container; 0: by its size."""
    preemption: str = ""
    """`ec2`, `azure` or `google`: poll for notices of preemption."""
    metadata_address: str = ""
    """Address of the metadata service; empty: the cloud's own."""
    broken_node_hook: str = ""
    """Program to run, instead of the mark in the register, when this machine cannot run containers.
    """
    user_namespaces: str = "auto"
    """User namespaces of containers of the native engine: `auto` (where possible), `always`,
    `never`.
    """
    max_processes: int = 4096
    """Processes and threads that a container may have at a time; 0: no limit."""
    log_limit: int = 2 << 30
    """Bytes of each of the command's streams that the log keeps; 0 keeps all."""
    tmp_capacity: int = 100 << 30
    """Bytes that a tmp mount without capacity may hold; 0 is no limit."""
    scratch_beside: int = 10 << 30
    """Bytes that the container may write outside its tmp mounts; 0: no limit of bytes at all."""
    scratch_files: int = 1_000_000
    """Files that it may make; 0: no limit."""
    disk_reserve: int = -1
    """Bytes of the disk that stay free; -1: a fiftieth of the disk, at most 1 GiB."""
    disk_reserve_files: int = -1
    """Free inodes of the disk that stay; -1: a fiftieth of the disk's inodes, at most 100,000."""
    output_limit: int = 1 << 40
    """Bytes that the files of an output may have; 0: no limit."""
    log_save_interval: float = 5.0
    """Seconds between two checks whether the log should be saved."""
    log_update_period: float = 1.0
    log_update_size: int = 1 << 20
    usage_interval: float = 10.0
    stop_grace_period: float = 10.0
    dispatcher_classifies: bool = False
    """The fleet learns why a supervisor is stopped from outside. Such a supervisor leaves its
    record Running, and the dispatcher ends the record with the failure class.
    """
    log_level: str = "INFO"
    log_format: LogFormat = LogFormat.TEXT
    tracing: TracingSettings = field(default_factory=TracingSettings)
    gateway: str = ""
    """HOST:PORT at which the server reaches this machine (port 0: any), `tunnel` to connect to the
    server instead, `none`; empty: the loopback address when the server is on this machine
    (`api_socket`), else a tunnel.
    """

    def __repr__(self) -> str:
        """The container only: other fields are secret."""
        return f"SupervisorConfig(container_uuid={self.container_uuid!r})"

    @property
    def scratch_limits(self) -> ScratchLimits:
        """The disk that a container may usually fill."""
        return ScratchLimits(
            mount=self.tmp_capacity, beside=self.scratch_beside, files=self.scratch_files
        )

    @property
    def engine_settings(self) -> EngineSettings:
        """The part that an engine needs."""
        return EngineSettings(
            container_uuid=self.container_uuid,
            run_directory=self.run_directory,
            cache_directory=self.cache_directory,
            docker_socket=self.docker_socket,
            podman_socket=self.podman_socket,
            cache_size=self.cache_size,
            disk_reserve=self.disk_reserve,
            disk_reserve_files=self.disk_reserve_files,
            user_namespaces=self.user_namespaces,
        )

    tunnel_delay: float = 0.5
    """Seconds that a container must run before a tunnel is made for it."""
    unreachable_timeout: float = 600.0
    records: dict[str, Any] = field(default_factory=dict, name="known")
    """The `container` and the `auth` of its token at the time of the lock; empty: the supervisor
    requests both.
    """
    is_started: bool = False
    """The record is Running since the lock, so that the supervisor does not report it."""
    annex_command: tuple[str, ...] = ()
    """Command that starts a remote rank (`supervisor.gang.remote_rank_client`) on machine number
    `{rank}`; empty: the whole gang is on this machine, unless there are `outposts`.
    """
    outposts: RankLauncherConfig | None = None


def parse(data: bytes | str) -> SupervisorConfig:
    """The assignment in the JSON text `data`. Raises Invalid with the fault, without repeating the
    token.
    """
    try:
        found = msgspec.json.decode(data, type=SupervisorConfig)
    except msgspec.DecodeError as error:
        raise Invalid(f"assignment: {error}") from error
    return check(found)


def convert(value: object) -> SupervisorConfig:
    """The assignment in the plain mapping `value`. Raises Invalid."""
    try:
        found = msgspec.convert(value, SupervisorConfig)
    except msgspec.ValidationError as error:
        raise Invalid(f"assignment: {error}") from error
    return check(found)


def check(assignment: SupervisorConfig) -> SupervisorConfig:
    """Return the assignment when it can be carried out. Raises Invalid naming the field."""
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
