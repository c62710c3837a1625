"""Containers on a warm VM over ssh: how soon their code runs, and how soon it is known that a
supervisor has ended.

The VM is a namespace of this machine with a real sshd (driver `loopback`); the server, the
dispatcher and all between them are as in use. The floor is a command over an open ssh connection to
the same VM. Needs root and sshd.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Figure, absent, durations
from bench.latency import COMMAND, user_code
from bench.requests import Watch, inspect, submit
from bench.service import add_image, connected, free_port, serving
from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.dispatch.fleets.cloud.drivers.namespace_machines import (
    Machines,
    NamespaceMachine,
    Network,
)
from lading.dispatch.fleets.cloud.ssh_connection import Shell, SshAddress, read_key

START_LIMIT, EXIT_LIMIT = 300.0, 1000.0
ARVADOS = 2.9
"""Seconds that Arvados takes at best: an estimate from its source.

Sum of its steps on a warm VM without the wait for a poll: lists 0.1, lock and passes 0.05, ssh 0.1,
local block server 0.2, two RSA keys 0.5 (measured), mount program twice 1.2, reads of the record
0.1, creation of the container 0.15, report of Running 0.3, start 0.2.
"""
_NAME = "Queued to user code on a warm VM over ssh"
_WARM_UP = 5
_CONFIG = """
InstanceTypes:
  bench: {VCPUs: 2, RAM: 2GiB, IncludedScratch: 10GiB, Price: 0.1}
Containers:
  Dispatcher: cloud
  ReserveExtraRAM: 0
  CloudVMs:
    Driver: loopback
    DriverParameters: {Subnet: %s, Bridge: %s}
    MaxInstances: 1
    BootProbeCommand: "true"
    TimeoutIdle: 300s
"""


def measure(*, starts: int, kills: int) -> list[Figure]:
    """Figures of `starts` containers one at a time, and of `kills` supervisors that are killed."""
    if os.geteuid() != 0 or shutil.which("sshd", path="/usr/sbin:/usr/bin") is None:
        return [absent(_NAME, "needs root and sshd")]
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder, _network() as network:
        data = Path(folder) / "data"
        machines = Machines(data / "cloud" / "vms", network)
        config = _CONFIG % (network.subnet, network.name)
        try:
            with serving(
                data, listen=f"{network.host}:{free_port(network.host)}", config=config
            ) as environment:
                return asyncio.run(
                    _measure(environment, data, machines, starts=starts, kills=kills)
                )
        finally:
            for one in machines.list():
                machines.stop(one.id)


async def _measure(
    environment: dict[str, str], data: Path, machines: Machines, *, starts: int, kills: int
) -> list[Figure]:
    image = await asyncio.to_thread(add_image, environment)
    async with connected(environment) as client:
        watch = Watch(client)
        following = asyncio.create_task(watch.follow())
        await watch.listening.wait()
        began = await _starts(client, watch, image, count=starts)
        (machine,) = machines.list()
        async with Shell(_door(data, machine), timeout=10.0) as shell:
            floor = [await _round_trip(shell) for _ in range(starts)]
            ends = [await _kill(client, watch, image, shell) for _ in range(kills)]
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    estimate = "an estimate from its source, without the wait for its poll (0 to 10 s)"
    return [
        durations("floor: a command over an open ssh connection to a VM", floor),
        durations("Arvados: Queued to user code on a warm VM, at best", [ARVADOS], note=estimate),
        durations(_NAME, began, p50_limit=START_LIMIT),
        durations(
            "A supervisor on a VM is killed: until its request is Final", ends,
            p99_limit=EXIT_LIMIT,
            note="noticed by the dispatcher, what it left cleared away, the record cancelled, "
            "heard by a client",
        ),
    ]  # fmt: skip


async def _starts(client: ApiClient, watch: Watch, image: str, *, count: int) -> list[float]:
    blocks, waits = BlockClient(client.transport, client.token), []
    for number in range(_WARM_UP + count):
        uuid = await submit(client, image, COMMAND)
        outcome = await inspect(client, blocks, uuid, heard=await watch.end(uuid))
        if number >= _WARM_UP:
            waits.append(user_code(outcome) - outcome.queued)
    return waits


async def _round_trip(shell: Shell) -> float:
    began = time.perf_counter()
    await shell.run("true")
    return time.perf_counter() - began


async def _kill(client: ApiClient, watch: Watch, image: str, shell: Shell) -> float:
    """Seconds from the death of the supervisor of a running container to the end of its request."""
    uuid = await submit(
        client, image, ["sh", "-c", "read forever </dev/zero"], container_count_max=1
    )
    container = (await client.get("container_requests", uuid))["container_uuid"]
    while (await client.get("containers", container))["state"] != "Running":
        await asyncio.sleep(0.02)
    began = time.time()
    done = await shell.run(
        f"kill -9 $(tr -dc 0-9, </var/lib/lading/run/{container}/lock | cut -d, -f2)"
    )
    if done.code:
        raise RuntimeError(f"the supervisor of {container} could not be killed: {done.words}")
    return await watch.end(uuid) - began


def _door(data: Path, machine: NamespaceMachine) -> SshAddress:
    key = read_key(f"file://{data}/cloud/dispatch-key")
    return SshAddress(address=machine.address, port=22, user="root", key=key)


@contextlib.contextmanager
def _network() -> Iterator[Network]:
    number = os.getpid() % 100
    network = Network(f"ldb{number}", f"10.{100 + number}.0.0/16")
    network.up()
    try:
        yield network
    finally:
        network.down()
