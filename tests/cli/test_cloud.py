"""lading cloud test, as far as it goes without VMs."""

from __future__ import annotations

import json
from importlib.metadata import distribution
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lading.cli.main import cli
from tests.clouds import running

pytestmark = pytest.mark.usefixtures("fake_driver")

TYPES = """
InstanceTypes:
  small: {ProviderType: t3.small, VCPUs: 1, RAM: 1GiB, Price: 0.1}
"""


def run(path: Path, text: str, *arguments: str) -> Result:
    path.write_text(text)
    return CliRunner().invoke(cli, ["cloud", "test", "--config", str(path), *arguments])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Containers: {CloudVMs: {Driver: moon}}" + TYPES,
            "CloudVMs.Driver: 'moon' is no installed driver; there are",
        ),
        (
            "Containers: {CloudVMs: {Driver: fake, SSHPort: x}}" + TYPES,
            "SSHPort: 'x'; it must be a number from 1",
        ),
        (
            "Containers: {CloudVMs: {Driver: fake}}",
            "InstanceTypes: there are none; name at least one",
        ),
        ("Containers: {CloudVMs: {Drive: fake}}" + TYPES, "Drive"),
        (
            "Containers: {DispatchPrivateKey: 'file:///none', CloudVMs: {Driver: fake}}" + TYPES,
            "is no private key",
        ),
        (
            "Containers: {CloudVMs: {Driver: moon}}" + TYPES,
            "there are ec2, fake, libcloud, loopback",
        ),
        (
            "Containers: {CloudVMs: {Driver: libcloud}}" + TYPES,
            "Provider: None; it must be one of azure, google",
        ),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(tmp_path: Path, text: str, said: str) -> None:
    done = run(tmp_path / "c.yml", text)
    assert done.exit_code == 1
    assert said in done.output
    assert len(done.output.splitlines()) == 1


def test_the_product_offers_no_fake() -> None:
    """The driver of these tests comes from a distribution of their own."""
    offered = distribution("lading").entry_points.select(group="lading.drivers")
    assert {one.name for one in offered} == {"ec2", "libcloud", "loopback"}


def test_a_type_that_is_not_there_is_refused(tmp_path: Path) -> None:
    done = run(
        tmp_path / "c.yml", "Containers: {CloudVMs: {Driver: fake}}" + TYPES, "--type", "huge"
    )
    assert "--type huge: there is no such instance type; there are small" in done.output


def test_a_cloud_that_cannot_be_reached_is_said(tmp_path: Path) -> None:
    with running("openstack", tmp_path) as cloud:
        told = json.dumps({"Driver": "libcloud", "DriverParameters": cloud.parameters})
    text = f"Containers: {{CloudVMs: {told}}}" + TYPES
    done = run(tmp_path / "c.yml", text)
    assert done.exit_code == 1
    assert "FAIL" in done.output
    assert "OpenStack cannot be reached" in done.output
    assert "to mend: check the credentials" in done.output
    told_json = json.loads(run(tmp_path / "c.yml", text, "--json").stdout)
    assert (told_json["ok"], told_json["interrupted"]) == (False, False)
    assert told_json["steps"][0]["name"] == "list"


def test_wrong_credentials_are_said(tmp_path: Path) -> None:
    with running("openstack", tmp_path) as cloud:
        told = json.dumps(
            {"Driver": "libcloud", "DriverParameters": cloud.parameters | {"Password": "wrong"}}
        )
        done = run(tmp_path / "c.yml", f"Containers: {{CloudVMs: {told}}}" + TYPES)
    assert "OpenStack: 401" in done.output
    assert "wrong" not in done.output.replace("what is wrong", "")
