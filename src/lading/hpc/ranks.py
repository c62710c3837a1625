"""The containers of a cluster: ranks on this machine, and ranks on other machines by agents.

An agent is a process on a further machine, in the network namespace of its one rank, connected to
the conductor by a pipe:

    agent      {"port": 4789, "address": "10.0.0.2", "leader": "10.0.0.1"}
               its end of the VXLAN link is made
    conductor  {"peers": [[rank, address, port], ...], "identity": {...}, "environment": {...}}
    agent      {"started": true} or {"fault": "...", "failure": "..."}
               its rank runs
    conductor  {"end": true}, or the end of the pipe
               its rank must end
    agent      a tar archive of its output directory

`SpreadGround` is the conductor's side. If ranks are on several machines, each machine has one rank
with its own output directory. The archives are stored unchanged in the spool; when all ranks have
ended the supervisor merges them into one directory.

`serve` is the agent. It makes its end of the VXLAN link, starts the rank on the conductor's
message, and ends on a message or when the connection is lost. The supervisor that started it ends
the rest of its control group and sends the output.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from lading.core.errors import ExecutionError, Failure, Invalid, LadingError, RequestError
from lading.core.hpc import addresses
from lading.core.hpc.mpi_files import host_name
from lading.core.values import printable
from lading.hpc import network, processes
from lading.hpc.plan import ClusterPlan, Identity
from lading.net.rpc import LinePipe

LABEL = "lading.gang"
# Seconds for starting or ending a container.
_TIMEOUT = 120.0
# Bytes of the end of a console in which the last line is looked for.
_SAID = 120
# Seconds for the image and the inputs to get to a machine.
_READY_TIME = 600.0
# Seconds for _CHUNK bytes of an output; slower machines count as lost.
_SILENCE = 120.0
_CHUNK = 1 << 18
# Of the disk, that the spool leaves free.
_RESERVE = 0.05
_FIELDS = ("certificate", "key", "authorization")


class Ground(Protocol):
    """The place that runs the containers of a cluster."""

    async def open(self) -> None:
        """Make their network. Raises ExecutionError."""

    async def start(self, number: int, identity: Identity, environment: Mapping[str, str]) -> str:
        """Start a rank; its address. Raises ExecutionError."""

    async def ended(self, number: int) -> str:
        """How the first process of a rank has ended; "" while it runs, or where it cannot be
        known. Raises ExecutionError.
        """

    async def gather(self) -> list[str]:
        """After the end of all ranks: collect results from other machines; return sentences about
        missing ones.
        """


@dataclass(frozen=True, slots=True)
class NativeGround:
    """Containers of crun in the network namespace of this process."""

    name: str
    bundles: tuple[str, ...]
    crun: tuple[str, ...]
    spread: bool = False
    """Others of its gang are on other machines."""

    async def open(self) -> None:
        """Make the bridge. Raises ExecutionError."""
        await network.make_bridge()

    async def start(self, number: int, identity: Identity, environment: Mapping[str, str]) -> str:
        """Start a rank; its address. Raises ExecutionError."""
        rank = Rank(
            number, f"{self.name}-{number}", Path(self.bundles[number]), self.crun, self.spread
        )
        await rank.start(identity, environment)
        return network.address(number)

    async def ended(self, number: int) -> str:
        """The last line that the first process of a rank wrote before its end, "" while it
        runs.
        """
        bundle = Path(self.bundles[number])
        return await asyncio.to_thread(_last_words, bundle)

    async def gather(self) -> list[str]:
        """Return no sentences: all results are on this machine."""
        return []


def _last_words(bundle: Path) -> str:
    pid = int((bundle / "pid").read_text())
    if processes.look(pid) is not None:
        return ""
    with (bundle / "console.txt").open("rb") as console:
        console.seek(max(0, (bundle / "console.txt").stat().st_size - _SAID))
        lines = console.read(_SAID).decode(errors="replace").split("\n")
    return next((printable(line) for line in reversed(lines) if line.strip()), "without a word")


@dataclass(frozen=True, slots=True)
class DockerGround:
    """An internal network of the Docker daemon, and its containers. The owner of the gang removes
    both.

    `config`: of a container, as the daemon's API takes it, without the values that differ between
    ranks. `enter`: the machine itself has no address in such a network, where its services would be
    found, so this process enters that of rank 0.
    """

    name: str
    socket: str
    config: Mapping[str, Any]
    enter: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the network."""
    labels: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", {LABEL: self.name})

    async def open(self) -> None:
        """Make the network. Raises ExecutionError."""
        async with self._daemon("the network cannot be made") as docker:
            more = {"Options": dict(self.options)} if self.options else {}
            await docker.networks.create(
                {"Name": self.name, "Internal": True, "Labels": self.labels, **more}
            )

    async def start(self, number: int, identity: Identity, environment: Mapping[str, str]) -> str:
        """Start a rank; its address. Raises ExecutionError."""
        config: dict[str, Any] = {
            **self.config,
            "Hostname": host_name(number),
            "Labels": self.labels,
        }
        config["Env"] = [
            f"{name}={value}" for name, value in {**environment, **_secrets(identity)}.items()
        ]
        config["HostConfig"] = {**config["HostConfig"], "NetworkMode": self.name}
        async with self._daemon(f"rank {number}: its container cannot be made") as docker:
            container = await docker.containers.create(config, name=f"{self.name}-{number}")
            await container.start()
            shown = await container.show()
        if words := _ended(shown):
            raise no_daemon(f"the first process of rank {number} ended before: {words}")
        if number == 0 and self.enter:
            # By its process: the file of the namespace may be in a mount that is not visible here.
            pid = int(shown.get("State", {}).get("Pid") or 0)
            self._enter(
                f"/proc/{pid}/ns/net" if pid else str(shown["NetworkSettings"]["SandboxKey"])
            )
        return str(shown["NetworkSettings"]["Networks"][self.name]["IPAddress"])

    async def ended(self, number: int) -> str:
        """The exit code of the first process of a rank, "" while it runs."""
        async with self._daemon(f"rank {number}: its container cannot be seen") as docker:
            container = docker.containers.container(f"{self.name}-{number}")
            return _ended(await container.show())

    async def gather(self) -> list[str]:
        """Return no sentences: all results are on this machine."""
        return []

    def _enter(self, network_of_rank: str) -> None:
        try:
            network.enter_network(network_of_rank)
        except OSError as error:
            raise ExecutionError(
                f"the network of the cluster cannot be entered: {error}", Failure.NODE
            ) from error

    @asynccontextmanager
    async def _daemon(self, fault: str) -> AsyncIterator[Any]:
        # Only machines with Docker need its client.
        import aiodocker
        import aiohttp

        from lading.net.docker_api import learn_version

        docker = aiodocker.Docker(url=f"unix://{self.socket}")
        try:
            async with asyncio.timeout(_TIMEOUT):
                await learn_version(docker)
                yield docker
        except (aiodocker.DockerError, aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ExecutionError(f"docker: {fault}: {error}", Failure.NODE) from error
        finally:
            await docker.close()


def no_daemon(words: str) -> ExecutionError:
    """The error for an image that starts no daemon; `words` tell how that was noticed."""
    return ExecutionError(
        "the image starts no daemon, which each container of a gang needs; "
        f"make one with `lading image hpc`, or run one container: {words}",
        Failure.IMAGE,
    )


def _ended(shown: Mapping[str, Any]) -> str:
    """The exit code of a daemon's container, "" while it runs."""
    state = shown.get("State", {})
    return "" if state.get("Running", True) else f"exit code {state.get('ExitCode')}"


def _secrets(identity: Identity) -> dict[str, str]:
    return {
        "TLS_PUBLIC_CERT": identity.certificate,
        "TLS_PRIVATE_KEY": identity.key,
        "AUTHORIZATION": identity.authorization,
    }


@dataclass(frozen=True, slots=True)
class Rank:
    """One container. `crun`: the runtime's command and options."""

    number: int
    name: str
    bundle: Path
    crun: tuple[str, ...]
    spread: bool = False

    async def start(self, identity: Identity, environment: Mapping[str, str]) -> None:
        """Create the container, connect it to the network, start its first process. Raises
        ExecutionError.
        """
        await asyncio.to_thread(self._configure, identity, environment)
        pid_file = self.bundle / "pid"
        console = self.bundle / "console.txt"
        with console.open("ab") as output:
            await self._run(
                "create",
                "--bundle",
                str(self.bundle),
                "--pid-file",
                str(pid_file),
                self.name,
                output=output.fileno(),
            )
        await network.connect(self.number, int(pid_file.read_text()), spread=self.spread)
        await self._run("start", self.name)

    def _configure(self, identity: Identity, environment: Mapping[str, str]) -> None:
        path = self.bundle / "config.json"
        config = json.loads(path.read_text())
        config["hostname"] = host_name(self.number)
        config["process"]["env"] += [
            f"{name}={value}" for name, value in {**environment, **_secrets(identity)}.items()
        ]
        path.chmod(0o600)
        path.write_text(json.dumps(config))

    async def _run(
        self, verb: str, *arguments: str, output: int = asyncio.subprocess.DEVNULL
    ) -> None:
        log = self.bundle / "crun.log"
        command = [*self.crun, "--log", str(log), verb, *arguments]
        try:
            # The container keeps crun's streams, so crun's own messages are in the log. crun gives
            # their files to the container, so that its input is not the /dev/null of the machine.
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.PIPE, stdout=output, stderr=output
            )
            if process.stdin is not None:
                process.stdin.close()
            async with asyncio.timeout(_TIMEOUT):
                code = await process.wait()
        except OSError as error:
            raise ExecutionError(
                f"crun cannot be run ({error}); install the package crun", Failure.NODE
            ) from error
        if code != 0:
            said = log.read_text(errors="replace") if log.exists() else ""
            words = " ".join(said.split()) or f"exit code {code}"
            raise ExecutionError(
                f"rank {self.number}: its container cannot be made: {words}", Failure.NODE
            )


@dataclass(slots=True)
class SpreadGround:
    """Rank 0 is here, each other one on a machine of its own; one network for all
    (`network.Wire`).
    """

    native: NativeGround
    wires: tuple[network.Wire, ...]
    """The address of the kind (IPv4 or IPv6) by which the other machines know this one is used."""
    pipes: tuple[LinePipe, ...]
    spool: Path
    silence: float = _SILENCE
    """Seconds for a chunk of an output; slower machines count as lost."""
    _peers: list[list[object]] = field(default_factory=list)

    async def open(self) -> None:
        """Make this machine's part of the network, and learn where the others' are. Raises
        ExecutionError.
        """
        heard = []
        for rank, pipe in enumerate(self.pipes, 1):
            await pipe.open()
            heard.append(self._heard(rank, await _within(rank, pipe, "port")))
        wire = self._wire([str(one["leader"]) for one in heard])
        await network.make_bridge(wire)
        self._peers = [[0, heard[0]["leader"], wire.port]]
        self._peers += [[rank, one["address"], one["port"]] for rank, one in enumerate(heard, 1)]
        await network.tell_peers(wire, own=0, peers=self._peers)

    def _wire(self, leaders: list[str]) -> network.Wire:
        try:
            version = addresses.common_version(leaders)
        except Invalid as error:
            raise ExecutionError(error.message, Failure.NODE) from error
        for wire in self.wires:
            if wire.version == version:
                return wire
        raise ExecutionError(
            f"this machine has no IPv{version}, by which others reach it", Failure.NODE
        )

    async def start(self, number: int, identity: Identity, environment: Mapping[str, str]) -> str:
        """Start a rank; its address. Raises ExecutionError."""
        if number == 0:
            return await self.native.start(number, identity, environment)
        pipe = self.pipes[number - 1]
        # Its machine is gone, which its reader notices.
        with contextlib.suppress(BrokenPipeError):
            pipe.send(
                {
                    "peers": self._peers,
                    "identity": asdict(identity),
                    "environment": dict(environment),
                }
            )
        self._heard(number, await _within(number, pipe, "started"))
        return network.address(number)

    async def ended(self, number: int) -> str:
        """As on this machine; the ranks on others have the same image."""
        return await self.native.ended(number) if number == 0 else ""

    async def gather(self) -> list[str]:
        """End the other ranks and receive their archives; return sentences about missing ones."""
        for pipe in self.pipes:
            # Its machine is gone, which its reader notices.
            with contextlib.suppress(BrokenPipeError):
                pipe.send({"end": True})
        return [
            said for rank, pipe in enumerate(self.pipes, 1) for said in await self._take(rank, pipe)
        ]

    async def _take(self, rank: int, pipe: LinePipe) -> list[str]:
        """Keep the archive of a rank. One that is too large, or comes too slowly, is thrown
        away.
        """
        archive = self.spool / f"{rank}.tar"
        try:
            left = spool_room(self.spool)
            with archive.open("wb") as file:
                # A working connection transfers more than a chunk in this time.
                while data := await _fill(pipe.reader, self.silence):
                    left -= len(data)
                    if left < 0:
                        raise OSError(
                            errno.ENOSPC, "the disk of the first machine has no room for it"
                        )
                    await asyncio.to_thread(file.write, data)
        except OSError as error:
            archive.unlink(missing_ok=True)
            return [f"rank {rank}: its output could not be had: {error.strerror or error}"]
        return []

    def _heard(self, rank: int, heard: dict[str, Any]) -> dict[str, Any]:
        fault = heard.get("fault")
        if fault:
            raise ExecutionError(f"rank {rank}: {fault}", _failure(heard.get("failure")))
        return heard


def _failure(named: object) -> Failure:
    """The class of a fault that a remote rank names: of a machine that has no room or no GPU
    another one may have it.
    """
    known = (Failure.DISK, Failure.NODE, Failure.IMAGE)
    return next((failure for failure in known if failure == named), Failure.INFRASTRUCTURE)


async def _within(rank: int, pipe: LinePipe, word: str) -> dict[str, Any]:
    """Check that a message of a remote rank has `word`. Raises ExecutionError."""
    try:
        heard = await pipe.receive(timeout=_READY_TIME)
    except (TimeoutError, RequestError) as error:
        raise ExecutionError(f"rank {rank}: its machine does not answer") from error
    if word not in heard and "fault" not in heard:
        raise ExecutionError(f"rank {rank}: its supervisor has ended; see the log of its machine")
    return heard


async def _fill(reader: asyncio.StreamReader, silence: float) -> bytes:
    """The next chunk, shorter only at the end. Raises TimeoutError."""
    try:
        async with asyncio.timeout(silence):
            return await reader.readexactly(_CHUNK)
    except asyncio.IncompleteReadError as error:
        return error.partial
    except TimeoutError:
        raise TimeoutError(
            f"its machine sent less than {_CHUNK} bytes in {silence:.0f} s"
        ) from None


def spool_room(directory: Path) -> int:
    """Bytes that may be added to a spool: some of the disk stays free, and archives are unpacked
    beside themselves.
    """
    disk = os.statvfs(directory)
    return int(max(0, disk.f_bavail - _RESERVE * disk.f_blocks) * disk.f_frsize / 2)


def read_identity(given: Mapping[str, str]) -> Identity:
    """The identity in a message."""
    return Identity(*(str(given[name]) for name in _FIELDS))


def own_address(leader: str) -> str:
    """The address with which this machine reaches the conductor's. Raises OSError."""
    with socket.socket(network.FAMILIES[addresses.ip_version(leader)], socket.SOCK_DGRAM) as probe:
        probe.connect((leader, 9))
        return str(probe.getsockname()[0])


async def serve(
    plan: ClusterPlan, wire: network.Wire, *, rank: int, leader: str, address: str
) -> int:
    """Run the rank, from the creation of the network to the end; return the exit code of the
    process.
    """
    pipe = LinePipe(0, 1)
    await pipe.open()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, pipe.reader.feed_eof)
    # The conductor has ended, so no report is needed.
    with contextlib.suppress(BrokenPipeError):
        try:
            await network.make_bridge(wire, alone=True)
            pipe.send({"port": wire.port, "address": address, "leader": leader})
            message = await pipe.receive()
            if "peers" in message:
                await network.tell_peers(wire, own=rank, peers=message["peers"])
                ground = NativeGround(plan.name, plan.bundles, plan.crun, spread=True)
                await ground.start(rank, read_identity(message["identity"]), message["environment"])
                pipe.send({"started": True})
                await pipe.receive()
        except (LadingError, OSError) as error:
            fault = error.message if isinstance(error, LadingError) else str(error)
            pipe.send({"fault": fault})
    return 0
