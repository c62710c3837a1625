"""The driver seam between the fleet of VMs and a cloud, and the look-up of drivers.

Drivers are found by the entry point group `lading.drivers`. An entry point names a function from a
`DriverSite` to an asynchronous context manager of a driver. Rules:

- `create` returns once the cloud has accepted the request; the address may be known later only.
  When it raises, a VM may have been made nevertheless: it is found in the list by its tags.
- `list` has the VMs with the tags of the site, and no others; those that are being removed may be
  left out. It may be late: a VM may be missing at first, or show old tags.
- `destroy` of a missing VM is no error.
- Refusals are RateLimited, QuotaReached or NoCapacity; Unavailable is any other temporary trouble,
  Invalid a request that cannot succeed with this configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from lading.core.errors import Invalid, Unavailable
from lading.core.scheduling.instance_types import InstanceType

GROUP = "lading.drivers"
Parameters = Mapping[str, object]


class RateLimited(Unavailable):
    """The cloud refuses calls because there were too many."""

    def __init__(self, message: str = "", *, pause: float | None = None) -> None:
        super().__init__(message)
        self.pause = pause


class QuotaReached(Unavailable):
    """The account may have no more instances."""


class NoCapacity(Unavailable):
    """The cloud has no such instance now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A VM as the cloud lists it. `address` is "" while it has none; `user` is the login for ssh.

    `zone` is where it is, as far as prices differ by that.
    """

    id: str
    provider_type: str = ""
    address: str = ""
    user: str = "root"
    tags: Mapping[str, str] = field(default_factory=dict)
    zone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSpec:
    """A VM to be made. `user_data` is a script for its first start, with a secret; `public_key` in
    OpenSSH's form.
    """

    kind: InstanceType
    tags: Mapping[str, str]
    public_key: str
    image: str = ""
    user_data: str = field(default="", repr=False)
    avoided_zones: frozenset[str] = frozenset()
    """Zones to try last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSite:
    """Arguments of a function that opens a driver: configured parameters, the tag of our VMs, a
    directory.
    """

    parameters: Parameters
    tag: str
    set_id: str
    directory: Path


class Driver(Protocol):
    """A cloud."""

    preemption: str
    """Metadata service that announces the removal of a VM: `ec2`, `azure`, `google`, or ""."""

    async def create(self, spec: InstanceSpec) -> Instance:
        """Make a VM. Raises RateLimited, QuotaReached, NoCapacity, Unavailable, Invalid."""

    async def list(self) -> list[Instance]:
        """Our VMs. Raises RateLimited, Unavailable, Invalid."""

    async def tag(self, id: str, tags: Mapping[str, str]) -> None:
        """Give a VM these tags. Raises as `list`."""

    async def destroy(self, id: str) -> None:
        """Remove a VM. Raises as `list`."""

    async def console(self, id: str) -> str:
        """The console output of a VM, its end at least; "" where the cloud has none, or has no such
        VM any more. Raises as `list`.
        """

    def group(self, kind: InstanceType) -> str:
        """Name of the group of types that share the cloud's capacity with a type."""


Opener = Callable[[DriverSite], AbstractAsyncContextManager[Driver]]


def find_driver(name: str) -> Opener:
    """The opener of the driver of that name. Raises Invalid with the names of the installed
    drivers.
    """
    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in entries:
        installed = ", ".join(sorted(entries)) or "none"
        raise Invalid(
            "configuration: Containers.CloudVMs.Driver:"
            f" {name!r} is no installed driver; there are {installed}"
        )
    try:
        opener: Opener = entries[name].load()
    except ImportError as error:
        raise Invalid(
            f"driver {name}: {error.name} is not installed; install the extra cloud of lading"
        ) from error
    return opener


def text(
    parameters: Parameters, name: str, default: str | None = None, *, allowed: str = "a text"
) -> str:
    """A parameter of a driver that is a text. Raises Invalid naming it and the allowed values."""
    value = parameters.get(name, default)
    if not isinstance(value, str) or (default is None and not value):
        raise bad_parameter(name, value, allowed)
    return value


def bad_parameter(name: str, value: object, allowed: str) -> Invalid:
    """The refusal of a parameter of a driver."""
    return Invalid(
        f"configuration: Containers.CloudVMs.DriverParameters.{name}:"
        f" {value!r}; it must be {allowed}"
    )


def refuse_unknown(parameters: Parameters, known_names: tuple[str, ...]) -> None:
    """Raises Invalid for a parameter that a driver does not know."""
    for name in parameters:
        if name not in known_names:
            allowed = ", ".join(sorted(known_names)) or "none"
            raise Invalid(
                f"configuration: unknown key Containers.CloudVMs.DriverParameters.{name};"
                f" known here: {allowed}"
            )
