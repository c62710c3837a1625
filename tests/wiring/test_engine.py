"""The engine of this machine in the configuration of its dispatcher."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from lading.config.site import Config
from lading.wiring.engine import engine_search, with_engine


@pytest.mark.parametrize("key", ["DockerSocket", "PodmanSocket"])
def test_what_answers_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    # Without programs there is no native engine.
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    docker, podman = str(tmp_path / "DockerSocket"), str(tmp_path / "PodmanSocket")
    containers = replace(Config().Containers, DockerSocket=docker, PodmanSocket=podman)
    config = replace(Config(), Containers=containers)
    assert not engine_search(config.Containers)().name
    assert with_engine(config, "local") is config
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / key))
        listener.listen()
        found = with_engine(config, "local").Containers
        assert found.RuntimeEngine == key.removesuffix("Socket").lower()
        assert with_engine(config, "slurm") is config
