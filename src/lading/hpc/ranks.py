"""The containers of a cluster: ranks on this machine."""

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
from lading.core.values import printable
from lading.hpc import network, processes
from lading.hpc.plan import Identity

LABEL = "lading.gang"
# Seconds for starting or ending a container.
_TIMEOUT = 120.0
# Bytes of the end of a console in which the last line is looked for.
_SAID = 120


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
