"""What a supervisor is told: one container, a token for it alone, and the places it may use.

An assignment travels as JSON (to the warm parent, on standard input, later over ssh), so every field is a plain value.
It holds a token: it is never written to disk and never logged.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from lading.core import ids
from lading.core.errors import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One container to run.

    Reach the server by `api_socket` (a Unix socket) or, when that is empty, by `api_url`. Paths are absolute. Times
    are seconds, sizes bytes.
    """

    container_uuid: str
    supervisor_token: str = field(repr=False)
    run_directory: str
    """This container's own directory, `<data>/run/<container uuid>`; made and removed by the supervisor."""
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
    engine: str = "auto"
    """A name of the entry point group `lading.engines`, or `auto`: native where this machine can, else docker."""
    docker_socket: str = "/var/run/docker.sock"
    cache_size: int = 20 << 30
    log_update_period: float = 1.0
    log_update_size: int = 1 << 20
    usage_interval: float = 10.0
    stop_grace_period: float = 10.0
    unreachable_timeout: float = 600.0


def parse(data: bytes | str) -> Assignment:
    """The assignment in the JSON text `data`. Raises Invalid naming what is wrong, without repeating the token."""
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
        raise Invalid(f"assignment: container_uuid {assignment.container_uuid!r} is not the uuid of a container")
    if not (assignment.api_socket or assignment.api_url):
        raise Invalid("assignment: api_socket and api_url are both empty; name one way to the server")
    for name in ("run_directory", "cache_directory"):
        if not getattr(assignment, name).startswith("/"):
            raise Invalid(f"assignment: {name} must be an absolute path")
    return assignment
