"""The other end of `remote_ranks`: on a further machine of a gang, a process in the network of its
one rank.

It makes its end of the wire, starts the rank when it is told how, and ends when it is told so, or
when nobody is there any more. Whoever started it ends what is left in its control group, and sends
the output.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket

from lading.core.errors import LadingError
from lading.core.hpc import addresses
from lading.hpc import network
from lading.hpc.plan import ClusterPlan
from lading.hpc.ranks import NativeGround
from lading.hpc.remote_ranks import read_identity
from lading.net.rpc import LinePipe


def own_address(leader: str) -> str:
    """The address with which this machine reaches the conductor's. Raises OSError."""
    with socket.socket(network.FAMILIES[addresses.ip_version(leader)], socket.SOCK_DGRAM) as probe:
        probe.connect((leader, 9))
        return str(probe.getsockname()[0])


async def serve(
    plan: ClusterPlan, wire: network.Wire, *, rank: int, leader: str, address: str
) -> int:
    """From the making of the network to the end of the rank; the exit code of the process."""
    pipe = LinePipe(0, 1)
    await pipe.open()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, pipe.reader.feed_eof)
    with contextlib.suppress(BrokenPipeError):
        try:
            await network.make_bridge(wire, alone=True)
            pipe.send({"port": wire.port, "address": address, "leader": leader})
            told = await pipe.receive()
            if "peers" in told:
                await network.tell_peers(wire, own=rank, peers=told["peers"])
                ground = NativeGround(plan.name, plan.bundles, plan.crun, spread=True)
                await ground.start(rank, read_identity(told["identity"]), told["environment"])
                pipe.send({"started": True})
                await pipe.receive()
        except (LadingError, OSError) as error:
            fault = error.message if isinstance(error, LadingError) else str(error)
            pipe.send({"fault": fault})
    return 0
