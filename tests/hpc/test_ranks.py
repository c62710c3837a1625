"""Containers of a cluster, made by a runtime that is a script."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from aiohttp import web

from lading.core.errors import ExecutionError
from lading.hpc import network
from lading.hpc.plan import make_identity
from lading.hpc.ranks import LABEL, DockerGround, NativeGround, Rank

IDENTITY = make_identity("container_1", now=datetime.now(UTC))
_CRUN = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
case "$*" in *" create "*) echo 17 > "$(dirname "$0")/pid" ;; esac
"""


def _rank(folder: Path, script: str) -> Rank:
    crun = folder / "crun"
    crun.write_text(script)
    crun.chmod(0o755)
    (folder / "config.json").write_text(json.dumps({"process": {"env": ["PATH=/bin"]}}))
    return Rank(1, "u-1", folder, (str(crun), "--root", "r"))


async def test_a_rank_is_made_connected_and_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = []

    async def connect(rank: int, pid: int, *, spread: bool) -> None:
        connected.append((rank, pid))

    monkeypatch.setattr(network, "connect", connect)
    await _rank(tmp_path, _CRUN).start(IDENTITY, {"A": "b"})
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["hostname"] == "container-1"
    assert {"PATH=/bin", "A=b", f"AUTHORIZATION={IDENTITY.authorization}"} <= set(
        config["process"]["env"]
    )
    assert (tmp_path / "config.json").stat().st_mode & 0o777 == 0o600
    assert connected == [(1, 17)]
    created, started = (tmp_path / "calls").read_text().splitlines()
    assert created.endswith(f"create --bundle {tmp_path} --pid-file {tmp_path}/pid u-1")
    assert started.endswith("start u-1")


async def test_why_a_container_was_not_made_is_said(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="rank 1: its container cannot be made: no such thing"):
        await _rank(tmp_path, '#!/bin/sh\necho "no such thing" > "$4"; exit 1\n').start(
            IDENTITY, {}
        )
    with pytest.raises(ExecutionError, match="install the package crun"):
        await Rank(1, "u-1", tmp_path, ("/no/crun",)).start(IDENTITY, {})


class _Docker:
    """A daemon that takes everything, or nothing."""

    made: ClassVar[list[Any]] = []
    api_version = "v1.41"

    def __init__(self, url: str) -> None:
        self.containers = self.networks = self
        self.url = url

    async def create(self, config: Any, name: str = "") -> _Docker:
        if self.url == "unix:///none":
            raise OSError("no daemon")
        self.made.append((name, config))
        return self

    async def start(self) -> None:
        self.made.append("started")

    async def show(self) -> Any:
        return {
            "NetworkSettings": {
                "SandboxKey": "/run/netns/1",
                "Networks": {"u": {"IPAddress": "172.18.0.3"}},
            }
        }

    async def close(self) -> None:
        self.made.append("closed")


async def test_containers_of_a_daemon_are_on_a_network_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aiodocker.Docker", _Docker)
    _Docker.made.clear()
    ground = DockerGround("u", "/sock", {"Image": "i", "HostConfig": {"Memory": 5}})
    await ground.open()
    assert await ground.start(1, IDENTITY, {"A": "b"}) == "172.18.0.3"
    network_, closed, (name, config), started, _ = _Docker.made
    assert network_ == ("", {"Name": "u", "Internal": True, "Labels": {LABEL: "u"}})
    assert (name, closed, started) == ("u-1", "closed", "started")
    assert config["HostConfig"] == {"Memory": 5, "NetworkMode": "u"}
    assert (config["Hostname"], config["Labels"]) == ("container-1", {LABEL: "u"})
    assert {"A=b", f"AUTHORIZATION={IDENTITY.authorization}"} <= set(config["Env"])
    with pytest.raises(ExecutionError, match="the network cannot be made: no daemon"):
        await DockerGround("u", "/none", {}).open()


async def test_a_daemon_names_its_version_in_a_ping(tmp_path: Path) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        named = {"Api-Version": "1.41"} if request.path == "/_ping" else {}
        return web.json_response({"Id": "n"}, headers=named)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.UnixSite(runner, str(tmp_path / "sock")).start()
        await DockerGround("u", str(tmp_path / "sock"), {}).open()
    finally:
        await runner.cleanup()
    assert asked == ["/_ping", "/v1.41/networks/create"]


async def test_a_daemon_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="docker: the network cannot be made: "):
        await DockerGround("u", str(tmp_path / "none"), {}).open()


async def test_where_the_machine_has_no_address_rank_0_s_network_is_entered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aiodocker.Docker", _Docker)
    entered: list[str] = []
    monkeypatch.setattr(network, "enter_network", entered.append)
    ground = DockerGround("u", "/sock", {"Image": "i", "HostConfig": {}}, enter=True)
    for number in range(2):
        await ground.start(number, IDENTITY, {})
    assert entered == ["/run/netns/1"]
    _Docker.made.clear()
    await DockerGround("u", "/sock", {}, options={"o": "v"}).open()
    assert _Docker.made[0] == (
        "",
        {"Name": "u", "Internal": True, "Labels": {LABEL: "u"}, "Options": {"o": "v"}},
    )

    async def show(self: _Docker) -> Any:
        return {**await told(self), "State": {"Pid": 77}}

    told = _Docker.show
    monkeypatch.setattr(_Docker, "show", show)
    await ground.start(0, IDENTITY, {})
    assert entered[-1] == "/proc/77/ns/net"

    def refuse(_: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(network, "enter_network", refuse)
    with pytest.raises(ExecutionError, match="cannot be entered"):
        await ground.start(0, IDENTITY, {})


async def test_the_native_ground_gives_each_rank_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object, **__: object) -> None:
        return None

    monkeypatch.setattr(network, "connect", nothing)
    monkeypatch.setattr(network, "make_bridge", nothing)
    rank = _rank(tmp_path, _CRUN)
    ground = NativeGround("u", ("/none", str(tmp_path)), rank.crun)
    await ground.open()
    assert await ground.start(1, IDENTITY, {}) == "10.77.0.2"
