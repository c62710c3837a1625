"""What the dispatcher of `lading up` is told."""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from lading.config.site import load
from lading.core.scheduling.instance_types import Gpu
from lading.dispatch.fleet import FleetSite
from lading.dispatch.fleets.local import LocalSettings, local_settings
from lading.testing.images import make_devices
from lading.wiring.directory import DataDirectory
from lading.wiring.dispatcher import holder_of, settings, template, until_listening


def site(tmp_path: Path, local: dict[str, object] | None = None, **more: Any) -> FleetSite:
    config = load(
        overrides={"Local": {"VCPUs": 3, "RAM": "5GiB", "Partitions": ["a"], **(local or {})}}
    )
    return FleetSite(
        config=config, token="t", run_directory=tmp_path / "run",
        cache_directory=tmp_path / "cache",
        template=template(config, address="127.0.0.1:1", insecure=True),
        api_url="https://x:1", **more,
    )  # fmt: skip


def made(settings: LocalSettings) -> dict[str, object]:
    return dict(settings.template)


def test_the_fleet_follows_the_configuration(tmp_path: Path) -> None:
    settings = local_settings(site(tmp_path, api_socket="/s"))
    assert (settings.capacity.vcpus, settings.capacity.ram) == (3, 5 << 30)
    assert settings.partitions == {"a"}
    assert settings.run_directory == tmp_path / "run"
    assert settings.shares is None
    assert made(settings)["api_socket"] == "/s"
    assert "api_url" not in made(settings)


def test_from_another_machine_the_way_is_https(tmp_path: Path) -> None:
    template = made(local_settings(site(tmp_path, certificate_path="/c")))
    assert (template["api_url"], template["api_ca_file"]) == ("https://x:1", "/c")


def test_containers_are_told_what_the_machine_costs_and_who_may_take_it_away(
    tmp_path: Path,
) -> None:
    free, paid = (
        made(local_settings(site(tmp_path, local)))
        for local in ({}, {"Price": 0.6, "Preemption": "ec2"})
    )
    assert (free["instance_type"], free["preemption"]) == ({}, "")
    assert paid["instance_type"] == {
        "Name": "this machine",
        "VCPUs": 3,
        "RAM": 5 << 30,
        "Price": 0.6,
    }
    assert paid["preemption"] == "ec2"


def test_gpus_are_those_of_the_device_tree(tmp_path: Path) -> None:
    tree = make_devices(tmp_path / "tree", cuda=3, real=False)
    for local, count in (({}, 3), ({"VisibleGPUs": "0,2"}, 2), ({"GPUs": 1}, 1)):
        found = site(tmp_path, {"GPUMemory": "1GiB", **local})
        config = replace(
            found.config, Containers=replace(found.config.Containers, DeviceRoot=str(tree))
        )
        settings = local_settings(replace(found, config=config))
        assert settings.capacity.gpus == count
        assert settings.gpu == Gpu(stack="cuda", count=count, vram=1 << 30)
        assert made(settings)["device_directory"] == "/run/lading/gpus"


def test_the_loop_follows_the_configuration() -> None:
    config = load(
        overrides={
            "Containers": {
                "OnlyDispatcher": True,
                "MinRetryPeriod": "7s",
                "PreemptiblePartitions": ["spot"],
            },
            "Local": {"Scratch": 9},
        }
    )
    assert settings(config, "slurm").preemptible_partitions == ("spot",)
    assert settings(config, "local").preemptible_partitions == ()
    found = settings(config, "local")
    assert (found.only, found.min_retry, found.plans_disk) == (True, 7.0, True)
    assert not settings(load(), "local").plans_disk


def test_no_token_is_in_the_template(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.prepare()
    secrets = directory.secrets(entropy=os.urandom(400))
    config = directory.config(secrets, address="a:1")
    assert secrets.dispatch_token_secret not in repr(template(config, address="a:1", insecure=True))


async def test_the_server_is_waited_for(tmp_path: Path) -> None:
    socket, called = tmp_path / "s", asyncio.Event()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.set()
        writer.close()

    waiting = asyncio.create_task(until_listening(socket, pause=0.0))
    server = await asyncio.start_unix_server(accept, socket)
    async with server:
        await asyncio.wait_for(waiting, 60)
        await asyncio.wait_for(called.wait(), 60)


async def test_a_server_that_does_not_come_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    await until_listening(tmp_path / "none", patience=0.01, pause=0.0)


def test_the_holder_of_a_lease_is_one_directory_of_one_machine(tmp_path: Path) -> None:
    """Two mounts of one path, as two machines of one name, are two holders."""
    (tmp_path / "data").mkdir()
    (tmp_path / "other").mkdir()
    own = holder_of(DataDirectory(tmp_path / "data"))
    assert holder_of(DataDirectory(tmp_path / "data")) == own
    assert re.fullmatch(rf".+:{re.escape(str(tmp_path / 'data'))} \[[0-9a-f]{{8}}\]", own)
    # Another directory under the same path.
    (tmp_path / "data").rename(tmp_path / "moved")
    (tmp_path / "other").rename(tmp_path / "data")
    assert holder_of(DataDirectory(tmp_path / "data")) != own
