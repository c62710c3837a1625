"""The ways to containers that the servers of an installation share."""

from __future__ import annotations

from pathlib import Path

from lading.api.container_access.access import ContainerAccess
from lading.api.container_access.log_spool import Spool
from lading.config.site import load
from lading.core.containers import sessions
from lading.core.containers.disk_space import Amount

UUID = "zzzzz-dz642-000000000000001"


def _access(root: Path, token: str = "r" * 50, **containers: object) -> ContainerAccess:
    settings = {"SystemRootToken": token, "Containers": containers}
    return ContainerAccess(
        config=load(None, settings), spool=Spool(root, disk_reserve=Amount(0, 0))
    )


def test_the_host_of_the_gateways_is_one_of_theirs(tmp_path: Path) -> None:
    assert _access(tmp_path, GatewayAddress="").gateway_hosts == ()
    access = _access(tmp_path, GatewayAddress="[fd00::1]:0", GatewayHosts=["10.0.0.0/8"])
    assert access.gateway_hosts == ("10.0.0.0/8", "fd00::1")


def test_shells_are_opened_for_those_who_may(tmp_path: Path) -> None:
    shells = {"Admin": True, "User": False}
    assert _access(tmp_path, ShellAccess=shells).shell_access == (True, False)


def test_keys_follow_from_the_secret_of_the_installation(tmp_path: Path) -> None:
    one, other = _access(tmp_path), _access(tmp_path, token="x" * 50)
    assert one.gateway_key(UUID) == sessions.container_key("r" * 50, UUID)
    assert one.gateway_key(UUID) != other.gateway_key(UUID)
    assert one.forward_key != other.forward_key
