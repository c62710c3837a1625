"""The section on containers, and the sections inside of it."""

from __future__ import annotations

from lading.config.site import export, load


def test_clients_see_its_rules_and_no_fleet() -> None:
    config = load(None, {"Containers": {"ShellAccess": {"User": False}, "LogUpdatePeriod": "2s"}})
    exported = export(config)["Containers"]
    assert exported["ShellAccess"] == {"Admin": True, "User": False}
    assert exported["LogUpdatePeriod"] == "2s"
    assert not exported.keys() & {"SLURM", "Kubernetes", "CloudVMs", "DispatchPrivateKey"}
