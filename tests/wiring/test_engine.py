"""The engine of this machine in the configuration of its dispatcher."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from lading.config.site import Config
from lading.wiring.engine import engine_search, with_engine


@pytest.mark.parametrize("key", ["DockerSocket", "PodmanSocket"])
def test_the_service_that_answers_is_configured(tmp_path: Path, key: str) -> None:
    containers = replace(
        Config().Containers,
        DockerSocket=str(tmp_path / "DockerSocket"),
        PodmanSocket=str(tmp_path / "PodmanSocket"),
    )
    config = replace(Config(), Containers=containers)
    # A machine without a native engine: neither program is there.
    search = replace(
        engine_search(containers), environ={}, which=lambda _name: None, has_starter=lambda: False
    )
    assert with_engine(config, "local", search) is config
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / key))
        listener.listen()
        chosen = with_engine(config, "local", search).Containers
        assert chosen.RuntimeEngine == key.removesuffix("Socket").lower()
        assert with_engine(config, "slurm", search) is config
