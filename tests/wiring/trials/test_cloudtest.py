from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from lading.client.checks import CheckStep
from lading.config.site import Config, load
from lading.core.errors import Invalid
from lading.dispatch.fleets.cloud import settings as configuration
from lading.wiring.trials.cloudtest import CloudTestOptions, choose, main

TEXT = """
InstanceTypes:
  large: {ProviderType: t3.large, VCPUs: 2, RAM: 2GiB, Price: 0.2}
  small: {ProviderType: t3.small, VCPUs: 1, RAM: 1GiB, Price: 0.1}
Containers: {CloudVMs: {Driver: fake, TimeoutBooting: 600s}}
"""


@pytest.fixture
def path(tmp_path: Path, fake_driver: None) -> Path:
    found = tmp_path / "config.yml"
    found.write_text(TEXT)
    return found


def test_the_cheapest_type_is_tried_unless_others_are_named(path: Path) -> None:
    config: Config = load(path)
    chosen = configuration.read(config, set_id="s", template={})
    assert [one.name for one in choose(chosen, ())] == ["small"]
    assert [one.name for one in choose(chosen, ["large"])] == ["large"]
    assert [one.name for one in choose(chosen, ["small", "all"])] == ["large", "small"]
    with pytest.raises(
        Invalid, match="--type huge: there is no such instance type; there are large, small"
    ):
        choose(chosen, ["huge"])


def test_a_signal_ends_it_and_leaves_nothing(path: Path) -> None:
    steps, doing = list[CheckStep](), list[str]()

    def tell(step: CheckStep) -> None:
        steps.append(step)
        if step.name == "create":
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(asyncio.CancelledError):
        main(CloudTestOptions(config=path), tell=tell, doing=doing.append)
    assert [one.name for one in steps] == ["list", "create", "nothing left"]
    assert all(one.ok for one in steps)
    assert "interrupted: the VMs of the test are being removed" in doing
