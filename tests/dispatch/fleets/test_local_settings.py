from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from lading.config.site import load
from lading.dispatch.fleet import FleetSite
from lading.dispatch.fleets.local_settings import LocalSettings, local_settings
from lading.testing.images import make_devices


def site(tmp_path: Path, local: dict[str, object] | None = None, **more: Any) -> FleetSite:
    config = load(
        overrides={"Local": {"VCPUs": 3, "RAM": "5GiB", "Partitions": ["a"], **(local or {})}}
    )
    return FleetSite(
        config=config, token="t", run_directory=tmp_path / "run",
        cache_directory=tmp_path / "cache",
        template={},
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
        assert settings.gpus is not None
        [kind] = settings.gpus.kinds
        assert (kind.stack, kind.vram) == ("cuda", 1 << 30)
        assert kind.count == max(count, len(settings.gpus.devices))
        assert made(settings)["device_directory"] == "/run/lading/gpus"
