"""The containers of a cluster on this machine: run by crun from given bundles, or by a Docker
daemon.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from lading.core.errors import ExecutionError, Failure
from lading.core.hpc.mpi_files import host_name
from lading.hpc import network
from lading.hpc.plan import Identity

LABEL = "lading.gang"
# Seconds for starting or ending a container.
_TIMEOUT = 120.0


class Ground(Protocol):
    """The place that runs the containers of a cluster."""

    async def open(self) -> None:
        """Make their network. Raises ExecutionError."""
        ...

    async def start(self, number: int, identity: Identity, environment: Mapping[str, str]) -> str:
        """Start a rank; its address. Raises ExecutionError."""
        ...

    async def gather(self) -> list[str]:
        """After the end of all ranks: collect results from other machines; return sentences about
        missing ones.
        """
        ...


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

    async def gather(self) -> list[str]:
        """All is here."""
        return []


@dataclass(frozen=True, slots=True)
class DockerGround:
    """A network of the Docker daemon with no way out, and its containers. Whoever owns the gang
    removes both.

    `config`: of a container, as the daemon's API takes it, complete but for what makes it a rank.
    `enter`: the machine itself has no address in such a network, where its services would be found,
    so this process enters that of rank 0.
    """

    name: str
    socket: str
    config: Mapping[str, Any]
    enter: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the network."""
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
        if number == 0 and self.enter:
            # By its process: what the daemon mounts the namespace on may not be seen from here.
            pid = int(shown.get("State", {}).get("Pid") or 0)
            self._enter(
                f"/proc/{pid}/ns/net" if pid else str(shown["NetworkSettings"]["SandboxKey"])
            )
        return str(shown["NetworkSettings"]["Networks"][self.name]["IPAddress"])

    async def gather(self) -> list[str]:
        """All is here."""
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
        # Only those who have Docker need its client.
        import aiodocker
        import aiohttp

        from lading.client.docker_api import learn_version

        docker = aiodocker.Docker(url=f"unix://{self.socket}")
        try:
            async with asyncio.timeout(_TIMEOUT):
                await learn_version(docker)
                yield docker
        except (aiodocker.DockerError, aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ExecutionError(f"docker: {fault}: {error}", Failure.NODE) from error
        finally:
            await docker.close()


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
            # What crun leaves running keeps its streams, so its own words are in the log. crun
            # gives their files to the container, so that its input is not the /dev/null of the
            # machine.
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
