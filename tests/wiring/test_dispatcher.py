"""What the dispatcher of this machine is told."""

from __future__ import annotations

import os
from pathlib import Path

from lading.wiring.directory import DataDirectory
from lading.wiring.dispatcher import local_settings


def test_the_settings_follow_the_configuration(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.prepare()
    (tmp_path / "config.yml").write_text("Local: {VCPUs: 3, RAM: 5GiB}\nContainers: {RuntimeEngine: docker}\n")
    config = directory.config(directory.secrets(entropy=os.urandom(400)), address="127.0.0.1:1")
    settings = local_settings(directory, config, address="127.0.0.1:1")
    assert (settings.capacity.vcpus, settings.capacity.ram) == (3, 5 << 30)
    assert settings.template["engine"] == "docker"
    assert settings.run_directory == tmp_path / "run"


def test_no_token_is_in_the_template(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.prepare()
    secrets = directory.secrets(entropy=os.urandom(400))
    settings = local_settings(directory, directory.config(secrets, address="a:1"), address="a:1")
    assert secrets.dispatch_token_secret not in repr(settings)
