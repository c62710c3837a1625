"""Attacks on networks from inside a container that may use the API, the internet or both."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from lading.client.mount.__main__ import enter_namespace
from lading.supervisor import linux
from lading.supervisor.engines import ContainerSpec, Engine, EngineSettings, NetworkAccess
from lading.supervisor.engines.docker import DockerEngine
from lading.supervisor.engines.native import NativeEngine
from lading.supervisor.engines.podman import make_engine
from lading.testing.conformance.engines import Kit
from lading.testing.ordinary_user import user_with_tun
from tests.reality import need_program, need_root
from tests.security import networks
from tests.security.network_probe import Seen, python, python_binds, run_probe
from tests.security.networks import PORT, Surroundings, surroundings
from tests.system.cluster import running_cluster

_USER = "native, ordinary user, by "
_ENGINES = ("native", "docker", "podman", f"{_USER}pasta", f"{_USER}slirp4netns")
_LISTED = "10.66.0.0/16"


@pytest.fixture(scope="module")
def around() -> Iterator[Surroundings]:
    """The services that the attackers look for; every one of them answers the host."""
    need_root()
    for program in ("ip", "nft", "slirp4netns", "pasta", "unshare", "crun"):
        need_program(program)
    with surroundings() as made:
        for host, port in (("127.0.0.1", made.loopback), (networks.GATEWAY, made.everywhere)):
            assert _greeting(host, port)
        for host in (
            networks.INTERNET,
            networks.LISTED,
            networks.METADATA,
            networks.METADATA6,
            networks.NEIGHBOUR,
        ):
            assert _greeting(host, PORT) == host
        yield made


def _greeting(host: str, port: int) -> str:
    with socket.create_connection((host, port), timeout=5) as connection:
        return connection.recv(100).decode()


def targets(around: Surroundings) -> list[tuple[str, str, str, int]]:
    """What a container tries: name, how, host, port."""
    own = [(f"own {one}", "connect", one, around.everywhere) for one in _own_addresses()]
    return [
        ("loopback", "connect", "127.0.0.1", around.loopback),
        ("loopback by the interface", "bound", "127.0.0.1", around.loopback),
        ("nobody's address", "bound", "0.0.0.0", around.everywhere),
        ("gateway", "connect", "198.19.255.2", around.everywhere),
        ("gateway's resolver", "connect", "198.19.255.3", 53),
        ("abstract", "abstract", around.abstract, 0),
        *own,
        ("bridge", "connect", networks.BRIDGE_ADDRESS, around.everywhere),
        ("another port of the API's host", "connect", networks.GATEWAY, around.everywhere),
        ("metadata", "connect", networks.METADATA, PORT),
        ("metadata by the interface", "bound", networks.METADATA, PORT),
        ("metadata by IPv6", "connect", networks.METADATA6, PORT),
        ("listed", "connect", networks.LISTED, PORT),
        ("neighbour", "connect", networks.NEIGHBOUR, PORT),
        ("internet", "connect", networks.INTERNET, PORT),
        ("API", "connect", "127.0.0.1", around.api),
        ("API by name", "connect", "localhost", around.api),
        ("API by address", "connect", networks.GATEWAY, around.api_on_address),
        ("port of the host", "bind", "127.0.0.1", around.loopback),
        ("port 443", "bind", "0.0.0.0", 443),
    ]


def _own_addresses() -> list[str]:
    shown = subprocess.run(["ip", "-j", "addr"], capture_output=True, text=True, check=True).stdout
    found = [
        info["local"]
        for link in json.loads(shown)
        for info in link["addr_info"]
        if info["scope"] == "global"
    ]
    assert networks.GATEWAY in found
    return [one for one in found if ":" not in one]


@pytest.fixture(scope="module")
def seen(
    around: Surroundings, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """What a container on an engine reaches, by what it asked for: `api`, `internet` or `both`."""
    known: dict[tuple[str, str], Seen] = {}

    def look(engine: str, kind: str) -> Seen:
        if (engine, kind) not in known:
            known[engine, kind] = probe(
                engine, kind, around, request, tmp_path_factory.mktemp(engine)
            )
        return known[engine, kind]

    return look


def probe(
    engine: str, kind: str, around: Surroundings, request: pytest.FixtureRequest, directory: Path
) -> Seen:
    """Run the probe in a container."""
    api = (
        f"127.0.0.1:{around.api}",
        f"localhost:{around.api}",
        f"{networks.GATEWAY}:{around.api_on_address}",
    )
    reach = NetworkAccess(
        api=api if kind != "internet" else (), internet=kind != "api", refused=(_LISTED,)
    )
    if engine.startswith(_USER):
        program = engine.removeprefix(_USER)
        need_program(program)
        return probe_as_user(program, reach, json.dumps(targets(around)))
    with EngineKit(engine, request, directory) as kit:
        return run_probe(kit, reach, json.dumps(targets(around)))


def probe_as_user(program: str, reach: NetworkAccess, tried: str) -> Seen:
    """Run the probe in a container of an ordinary user, which a program connects."""
    with user_with_tun() as user:
        fields = {"api": reach.api, "internet": reach.internet, "refused": reach.refused}
        arguments = (str(user.temporary), program, json.dumps(fields), tried)
        command = (sys.executable, "-m", "tests.security.user_network", *arguments)
        process = user.start(command, cwd=Path(__file__).parents[2], stderr=None)
        out, _ = process.communicate()
    assert process.returncode == 0
    seen: Seen = json.loads(out)
    return seen


_CLONE_FS = 0x200


class EngineKit:
    """A kit for the engine of this name, in a mount namespace of its own where it needs one."""

    def __init__(self, engine: str, request: pytest.FixtureRequest | None, directory: Path) -> None:
        self._engine, self._request, self._directory = engine, request, directory
        self._before = -1

    def __enter__(self) -> Kit:
        if self._engine == "native":
            self._before, self._folder = (
                os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC),
                Path.cwd(),
            )
            linux.leave_mount_namespace()
            return Kit(NativeEngine, self._directory)
        assert self._request is not None
        name = {"docker": "docker_daemon", "podman": "podman_service"}[self._engine]
        path = str(self._request.getfixturevalue(name).socket)

        def make(settings: EngineSettings) -> Engine:
            if self._engine == "docker":
                return DockerEngine(structs.replace(settings, docker_socket=path))
            return make_engine(structs.replace(settings, podman_socket=path))

        return Kit(make, self._directory)

    def __exit__(self, *error: object) -> None:
        if self._before >= 0:
            # A thread that shares its root and its directory with others may not enter a mount
            # namespace.
            assert ctypes.CDLL(None).unshare(_CLONE_FS) == 0
            enter_namespace(self._before)
            os.chdir(self._folder)


_EVERY = pytest.mark.parametrize("engine", _ENGINES)
_BOTH = pytest.mark.parametrize("kind", ["api", "internet"])


def refused(found: Seen, *names: str) -> None:
    """All of these were refused."""
    for name in names:
        assert found[name].startswith("refused"), (name, found[name])


@_EVERY
@_BOTH
@pytest.mark.attack("a container connects to a service on the host's loopback")
def test_the_loopback_of_the_host(seen: Any, engine: str, kind: str) -> None:
    refused(
        seen(engine, kind), "loopback", "loopback by the interface", "nobody's address", "gateway"
    )
    refused(seen(engine, kind), "gateway's resolver")


@_EVERY
@_BOTH
@pytest.mark.attack("a container connects to an abstract Unix socket of the host")
def test_abstract_sockets_of_the_host(seen: Any, engine: str, kind: str) -> None:
    refused(seen(engine, kind), "abstract")


@_EVERY
@_BOTH
@pytest.mark.attack("a container connects to a port of the host by one of its other addresses")
def test_addresses_of_the_host(seen: Any, engine: str, kind: str) -> None:
    found = seen(engine, kind)
    refused(found, "bridge", *(name for name in found if name.startswith("own ")))


@_EVERY
@pytest.mark.attack("a container with the API connects to another service on the API's host")
def test_other_services_of_the_host_of_the_api(seen: Any, engine: str) -> None:
    refused(seen(engine, "api"), "another port of the API's host")
    refused(seen(engine, "both"), "another port of the API's host")


@_EVERY
@_BOTH
@pytest.mark.attack("a container asks the metadata service of the cloud for the host's credentials")
def test_metadata_services(seen: Any, engine: str, kind: str) -> None:
    refused(seen(engine, kind), "metadata", "metadata by the interface", "metadata by IPv6")


@_EVERY
@_BOTH
@pytest.mark.attack("a container connects to a network that Containers.RefusedNetworks lists")
def test_networks_of_the_configuration(seen: Any, engine: str, kind: str) -> None:
    refused(seen(engine, kind), "listed")


@_EVERY
@_BOTH
@pytest.mark.attack("a container connects to another container on a bridge of the same host")
def test_other_containers(seen: Any, engine: str, kind: str) -> None:
    refused(seen(engine, kind), "neighbour")


@_EVERY
@_BOTH
@pytest.mark.attack("a container binds a port of the host")
def test_ports_of_the_host(seen: Any, engine: str, kind: str) -> None:
    found = seen(engine, kind)
    assert found["namespace"] != str(Path("/proc/self/ns/net").readlink())
    # In its own namespace it has all of them.
    assert (found["port of the host"], found["port 443"]) == ("bound", "bound")


@_EVERY
@pytest.mark.attack("a container with the API alone connects to the internet")
def test_the_internet_without_being_granted(seen: Any, engine: str) -> None:
    refused(seen(engine, "api"), "internet")
    assert "nameserver" not in seen(engine, "api")["resolv"]


@_EVERY
@pytest.mark.attack("a container with the internet alone connects to the API on its own host")
def test_the_api_without_being_granted(seen: Any, engine: str) -> None:
    refused(seen(engine, "internet"), "API", "API by name", "API by address")


@_EVERY
@pytest.mark.parametrize("kind", ["internet", "both"])
@pytest.mark.attack("none: a container that was granted the internet reaches it")
def test_the_internet_is_reached(seen: Any, engine: str, kind: str) -> None:
    assert seen(engine, kind)["internet"] == networks.INTERNET


@_EVERY
@pytest.mark.parametrize("kind", ["api", "both"])
@pytest.mark.attack("none: a container that was granted the API reaches it at the address it knows")
def test_the_api_is_reached(seen: Any, engine: str, kind: str) -> None:
    found = seen(engine, kind)
    assert (found["API"], found["API by name"], found["API by address"]) == ("api", "api", "api")


@pytest.mark.attack("a supervisor is killed, so that what it made for a container's network stays")
def test_nothing_is_left_of_a_killed_supervisor(around: Surroundings, tmp_path: Path) -> None:
    with running_cluster(tmp_path / "up") as cluster:
        cluster.lading("image", "add", "--from-host", "sh", "sleep", "--name", "tools:1")
        before = _uplinks()
        script = ("--network", "--attempts", "1", "--", "sleep", "600")
        cluster.lading("run", "--detach", "--image", "tools:1", *script)
        _until(lambda: _uplinks() > before)
        supervisor = cluster.pids("supervisor")[0]
        os.kill(supervisor, signal.SIGKILL)
        _until(lambda: _uplinks() == before)
        _until(lambda: not cluster.run_directories())


@pytest.mark.parametrize("engine", ["docker", "podman"])
@pytest.mark.attack("an engine's process is killed, so that the container with the network stays")
def test_nothing_is_left_of_a_killed_engine(
    around: Surroundings, request: pytest.FixtureRequest, tmp_path: Path, engine: str
) -> None:
    async def leave(kit: Kit) -> list[str]:
        one, other = kit.make(kit.settings), kit.make(kit.settings)
        await one.prepare(kit.image)
        await one.create(ContainerSpec(command=("sleep", "600"), network=True))
        await other.remove()
        left = await _containers(other)
        await other.remove()
        await one.remove()
        return left

    with EngineKit(engine, request, tmp_path) as kit:
        assert asyncio.run(leave(kit)) == []


async def _containers(engine: Engine) -> list[str]:
    assert isinstance(engine, DockerEngine)
    return [one.id for one in await (await engine.connection.open()).containers.list(all=True)]


def _uplinks() -> set[str]:
    """The processes that give a container the internet."""
    found = set()
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"slirp4netns" in one.read_bytes().split(b"\0")[0]:
                found.add(one.parent.name)
    return found


def _until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.attack("a container connects to an address that the host is given while it runs")
def test_an_address_that_the_host_is_given_later(around: Surroundings, tmp_path: Path) -> None:
    late = "203.0.113.200"
    script = (
        "import json, os, socket, sys, time\n"
        "open('/made/ready', 'w').close()\n"
        "while not os.path.exists('/made/go'): time.sleep(0.02)\n"
        "try: socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3); "
        "print('reached')\n"
        "except OSError as error: print('refused')\n"
    )

    async def act(kit: Kit) -> str:
        made = kit.bind("/made")
        task = asyncio.create_task(
            kit.run_command(
                (python(), "-c", script, late, str(around.everywhere)),
                network=True,
                binds=(*python_binds(), made),
            )
        )
        while not (Path(made.source) / "ready").exists():
            await asyncio.sleep(0.02)
        networks.give_address(late)
        # The supervisor is told by the kernel at once, and loads the filter within milliseconds.
        await asyncio.sleep(0.5)
        (Path(made.source) / "go").touch()
        return (await task)[1].strip()

    with EngineKit("native", None, tmp_path) as kit:
        assert asyncio.run(act(kit)) == "refused"
