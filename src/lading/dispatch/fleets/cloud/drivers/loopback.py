"""The driver `loopback`: VMs as namespaces of this machine, for trials and tests of the fleet.

Each VM has its own network, address, processes, control group, disk and sshd. It sees the file
systems of this machine read-only, except /tmp, with its own /run and /var/lib. All its processes
end with the first one. Its state is a directory, so that it outlives its creator; it needs root and
sshd.

    <root>/<id>/vm.json     its address, first process and the data of its owner
    <root>/<id>/disk        its /var/lib

Parameters: `Subnet` (10.88.0.0/16) and `Bridge` (lading0) of the network between this machine and
its VMs. The server must be reachable at this machine's address there, the first one of the subnet.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from lading.core.errors import Invalid
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers.driver import (
    DriverSite,
    Instance,
    InstanceSpec,
    refuse_unknown,
    text,
)
from lading.dispatch.fleets.cloud.drivers.namespace_machines import (
    Machines,
    NamespaceMachine,
    Network,
)

SUBNET, BRIDGE = "10.88.0.0/16", "lading0"
_TYPE = "lading:type"


class LoopbackDriver:
    """Implements `Driver`."""

    preemption = ""

    def __init__(self, machines: Machines, *, tag: str, set_id: str) -> None:
        self._machines = machines
        self._tag = tag
        self._set_id = set_id
        # One call at a time: addresses are chosen by what is there.
        self._alone = asyncio.Lock()

    @property
    def network(self) -> Network:
        """The network that they are on."""
        return self._machines.network

    async def create(self, spec: InstanceSpec) -> Instance:
        """Start a VM."""
        notes = dict(spec.tags) | {_TYPE: spec.kind.provider_type}
        name = f"vm-{secrets.token_hex(4)}"

        def start() -> NamespaceMachine:
            return self._machines.start(
                name, key=spec.public_key, user_data=spec.user_data, notes=notes
            )

        async with self._alone:
            return _instance(await asyncio.to_thread(start))

    async def list(self) -> list[Instance]:
        """The VMs that live."""
        async with self._alone:
            machines = await asyncio.to_thread(self._machines.list)
        return [
            _instance(machine)
            for machine in machines
            if machine.notes.get(self._tag) == self._set_id
        ]

    async def tag(self, id: str, tags: Mapping[str, str]) -> None:
        """Remember tags."""
        async with self._alone:
            machines = {
                machine.id: machine for machine in await asyncio.to_thread(self._machines.list)
            }
            if id in machines:
                kind = {_TYPE: machines[id].notes.get(_TYPE, "")}
                await asyncio.to_thread(self._machines.note, id, dict(tags) | kind)

    async def destroy(self, id: str) -> None:
        """End a VM."""
        async with self._alone:
            await asyncio.to_thread(self._machines.stop, id)

    async def console(self, id: str) -> str:
        """The output of its processes."""
        return await asyncio.to_thread(self._machines.console, id)

    def group(self, kind: InstanceType) -> str:
        """The pretended VMs share this machine, but a limit is for a type."""
        return kind.name


def _instance(machine: NamespaceMachine) -> Instance:
    tags = {name: value for name, value in machine.notes.items() if name != _TYPE}
    return Instance(
        id=machine.id,
        provider_type=machine.notes.get(_TYPE, ""),
        address=machine.address,
        tags=tags,
    )


@asynccontextmanager
async def open_loopback(site: DriverSite) -> AsyncGenerator[LoopbackDriver]:
    """The driver. Raises Invalid for parameters that cannot be, or without root."""
    refuse_unknown(site.parameters, ("Subnet", "Bridge"))
    subnet = text(site.parameters, "Subnet", SUBNET)
    try:
        ipaddress.IPv4Network(subnet)
    except ValueError as error:
        allowed = "a network such as 10.88.0.0/16"
        raise Invalid(
            "configuration: Containers.CloudVMs.DriverParameters.Subnet:"
            f" {subnet!r}; it must be {allowed}"
        ) from error
    if os.geteuid() != 0:
        raise Invalid("driver loopback: VMs that are namespaces of this machine need root")
    network = Network(text(site.parameters, "Bridge", BRIDGE), subnet)
    await asyncio.to_thread(network.up)
    yield LoopbackDriver(Machines(site.directory, network), tag=site.tag, set_id=site.set_id)
