"""Configuration: defaults, files, and errors that name the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.config import site
from lading.core.errors import Invalid


def test_defaults_need_no_file() -> None:
    assert site.load().Containers.MaxDispatchAttempts == 10


def test_a_file_and_overrides_are_merged(tmp_path: Path) -> None:
    path = tmp_path / "config.yml"
    path.write_text(
        "Containers: {StopGracePeriod: 1m30s}\nLocal: {RAM: 2GiB}\n"
        "StorageClasses: {fast: {Default: true}}\n"
    )
    loaded = site.load(path, {"ClusterID": "abcde", "Local": {"VCPUs": 3}})
    assert loaded.Containers.StopGracePeriod == 90
    assert (loaded.Local.RAM, loaded.Local.VCPUs) == (2 << 30, 3)
    assert loaded.StorageClasses == {"fast": {"Default": True}}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Containers: {Colour: red}", "unknown key Containers.Colour"),
        ("Colour: red", "unknown key Colour"),
        ("Containers: 5", "Containers must be a mapping"),
        ("[1]", "must be a mapping"),
        ("a: [", "not YAML"),
        ("Local: {VCPUs: many}", "Local.VCPUs"),
        ("Local: {RAM: lots}", "Local.RAM: not a size"),
        ("Local: {PollInterval: soon}", "Local.PollInterval: not a duration"),
        ("API: {RequestTimeout: []}", "API.RequestTimeout"),
    ],
)
def test_faults_name_the_key(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "config.yml"
    path.write_text(text)
    with pytest.raises(Invalid, match=fault):
        site.load(path)


def test_a_key_of_an_earlier_version_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "config.yml"
    path.write_text(
        "API: {MinSessionRate: 1MiB, MaxItemsPerResponse: 7}\n"
        "Containers: {Kubernetes: {ResyncInterval: 1m, Namespace: n}}\n"
    )
    config = site.load(path, {"TES": {"LegacyStates": False}})
    assert config.API.MaxItemsPerResponse == 7
    assert config.Containers.Kubernetes.Namespace == "n"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"configuration: {name} has no effect any more; remove it")
        for name in (
            "API.MinSessionRate",
            "Containers.Kubernetes.ResyncInterval",
            "TES.LegacyStates",
        )
    ]


@pytest.mark.parametrize("name", sorted(site.RETIRED))
def test_no_key_of_an_earlier_version_is_declared(name: str) -> None:
    *outer, last = name.split(".")
    section: object = site.load()
    for step in outer:
        section = getattr(section, step)
    assert not hasattr(section, last)


def test_private_keys_are_not_exported() -> None:
    shown = site.export(
        site.load(None, {"SystemRootToken": "hush", "Collections": {"BlobSigningKey": "hush"}})
    )
    assert "hush" not in str(shown)
    assert shown["Collections"]["BlobSigningTTL"] == "1209600s"
    assert shown["Containers"]["ReserveExtraRAM"] == 550 << 20
