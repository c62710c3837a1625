"""Containers and their users attack the machines of a cloud: by the script of their first start, by
the metadata service that has it, and by an instance that says it is another one.
"""

from __future__ import annotations

import ipaddress
import os
import subprocess
from pathlib import Path

import pytest

from lading.core.containers.container_network import METADATA, is_local_address, refusals
from lading.dispatch.fleets.cloud.settings import CloudSettings
from lading.dispatch.fleets.cloud.ssh_connection import SECRET_PATH
from tests.simulation.cloud_scenario import SETTINGS

LINKS = ("169.254.169.254", "169.254.170.2", "169.254.0.1", "169.254.255.254", "100.100.100.200")
"""Addresses of metadata and credentials: AWS, Google, Azure, OpenStack, ECS, Alibaba."""


@pytest.mark.attack("puts words into the script with which a machine starts for the first time")
def test_the_script_of_a_machine_has_its_secret_alone(tmp_path: Path) -> None:
    settings = CloudSettings(types=SETTINGS.types, set_id="set", init_command="true")
    place = tmp_path / "secret"
    for number in range(40):
        secret = os.urandom(16).hex()
        script = settings.user_data(secret).replace(SECRET_PATH, str(place))
        done = subprocess.run(["sh", "-c", script], capture_output=True, check=True, timeout=20)
        assert (place.read_text(), place.stat().st_mode & 0o777) == (secret, 0o600), number
        assert (done.stdout, done.stderr) == (b"", b"")
        # Nothing of the site but the command of its configuration.
        lines = settings.user_data(secret).splitlines()
        assert (len(lines), lines[0], lines[2]) == (3, "#!/bin/sh", "true")


@pytest.mark.attack("reads the script and the credentials of its machine by the metadata service")
@pytest.mark.parametrize("text", LINKS)
def test_metadata_is_refused_in_each_spelling(text: str) -> None:
    networks = [ipaddress.ip_network(one) for one in refusals(())]
    address = ipaddress.IPv4Address(text)
    spellings = (
        address,
        ipaddress.IPv6Address(f"::ffff:{text}"),
        ipaddress.IPv6Address(f"64:ff9b::{text}"),
    )
    for spelling in spellings:
        mapped = spelling.ipv4_mapped if isinstance(spelling, ipaddress.IPv6Address) else None
        real = mapped or spelling
        assert any(real in network for network in networks if network.version == real.version)
        assert is_local_address(real)


@pytest.mark.attack("asks each address of the networks in which clouds keep their metadata")
@pytest.mark.parametrize("network", METADATA)
def test_all_of_a_metadata_network_is_refused(network: str) -> None:
    refused = [ipaddress.ip_network(one) for one in refusals(("198.51.100.0/24",))]
    whole = ipaddress.ip_network(network)
    size = whole.num_addresses
    for step in range(20):
        address = whole[min(size - 1, size * step // 19)]
        assert any(address in one for one in refused if one.version == address.version), address
